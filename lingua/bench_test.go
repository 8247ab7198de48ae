// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package lingua

import (
	"context"
	"os"
	"testing"
)

// BenchmarkEncode runs 512 tokens through the model in the folder that
// LLM_CACHE_LINGUA names, see docs/benchmarks.md.
func BenchmarkEncode(b *testing.B) {
	path := os.Getenv("LLM_CACHE_LINGUA")
	if path == "" {
		b.Skip("LLM_CACHE_LINGUA names no model folder")
	}
	for name, o := range map[string]Options{"float32": {}, "int8": {Int8: true}} {
		b.Run(name, func(b *testing.B) {
			m, err := Open(path, o)
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			tokens := make([]position, window)
			for i := range tokens {
				tokens[i] = position{int32(1000 + 7*i), m.encoder.config.firstPosition() + i}
			}
			b.Log(m.Device())
			for b.Loop() {
				if _, err := m.encoder.logits(context.Background(), tokens); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
