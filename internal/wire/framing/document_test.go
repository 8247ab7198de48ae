// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"slices"
	"strings"
	"testing"
)

// The end of a document is found without reading a byte twice, even after the fed bytes are gone.
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
