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

package reuse

import (
	"strings"
	"testing"
)

// TestIntern: what is the same is one string, whatever fell into its place in between.
func TestIntern(t *testing.T) {
	b := []byte("claude-opus-5-5")
	if s := Intern(b); s != "claude-opus-5-5" {
		t.Fatal(s)
	}
	if n := testing.AllocsPerRun(100, func() { Intern(b) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for i := range 4 * len(names) {
		other := strings.Repeat("n", i%300)
		if s := Intern([]byte(other)); s != other {
			t.Fatal(s, other)
		}
	}
}
