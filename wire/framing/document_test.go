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

package framing

import (
	"slices"
	"strings"
	"testing"
)

// The end of a document is found without reading a byte again: it is found
// even if the bytes fed before are gone.
func TestDocumentReadsOnce(t *testing.T) {
	var d Document
	answer := []byte("{\"a\":[\"" + strings.Repeat("x\\\"{", 1<<18) + "\"]}")
	for p := range slices.Chunk(answer[:len(answer)-1], 100) {
		if !d.Feed(p) || d.closed {
			t.Fatal("closed too early")
		}
	}
	if d.raw.Len() != len(answer)-1 {
		t.Fatalf("holds %d of %d bytes", d.raw.Len(), len(answer)-1)
	}
	d.raw.Reset()
	if !d.Feed(answer[len(answer)-1:]) || !d.closed {
		t.Fatal("not closed")
	}
}
