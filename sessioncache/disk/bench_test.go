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

package disk

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// BenchmarkSave is what it takes to write sessions, 32 together, of which every third is
// in the file already.
func BenchmarkSave(b *testing.B) {
	for _, size := range []int{600, 6000} {
		b.Run(fmt.Sprintf("%d bytes", size), func(b *testing.B) {
			d, err := Open(Options{Path: filepath.Join(b.TempDir(), "sessions.db"), MaxBytes: 1 << 30, TTL: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			var known []sessioncache.Digest
			records := make([]sessioncache.Record, 32)
			b.ReportAllocs()
			for b.Loop() {
				for i := range records {
					r := sessioncache.Record{Used: time.Now(), Snapshot: make([]byte, size)}
					_, _ = rand.Read(r.Snapshot)
					if i%3 == 0 && len(known) > i {
						r.Digest = known[len(known)-1-i]
					} else {
						_, _ = rand.Read(r.Digest[:])
						known = append(known, r.Digest)
					}
					r.Answers = []sessioncache.Digest{r.Digest}
					records[i] = r
				}
				if err := d.Save(b.Context(), records); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
