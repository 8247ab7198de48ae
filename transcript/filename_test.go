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

package transcript

import (
	"strings"
	"testing"
)

// A session is saved whatever its id is like, and no two in one file.
func TestFileName(t *testing.T) {
	long := strings.Repeat("é/x", 400)
	for _, id := range []string{"a", "../../etc/passwd", "a\x00b\x1b", long, long + "y"} {
		if name := fileName(id); len(name) > longestName || strings.ContainsAny(name, "/\x00\x1b") {
			t.Errorf("%q is saved as %q", id, name)
		}
	}
	if fileName(long) == fileName(long+"y") {
		t.Error("two sessions are saved in one file")
	}
}
