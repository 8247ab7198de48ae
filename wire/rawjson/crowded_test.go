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

package rawjson

import (
	"bytes"
	"strings"
	"testing"
)

// TestCrowdedCounts holds the count, which ends as soon as it can, to the plain one.
func TestCrowdedCounts(t *testing.T) {
	separator := func(n int) string { return strings.Repeat(",{[", n/3+1)[:n] }
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, body := range map[string]string{
		"as many as may be": separator(MaxValues),
		"one more":          separator(MaxValues + 1),
		"behind text":       text(3<<20) + separator(MaxValues+1),
		"in front of text":  separator(MaxValues+1) + text(3<<20),
		"around text":       separator(MaxValues) + text(70<<10) + separator(1),
		"nearly":            separator(MaxValues) + text(5<<20),
		"text":              text(4 << 20),
		"short":             separator(100),
	} {
		n := 0
		for _, c := range separators {
			n += bytes.Count([]byte(body), []byte{c})
		}
		if got := Crowded([]byte(body)); got != (n > MaxValues) {
			t.Errorf("%s: %t with %d values", name, got, n)
		}
	}
}
