// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"os"
	"strings"
	"testing"
)

// The documents draw the chain as it is, in its order.
func TestChainIsDrawn(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, l := range chain {
		i := strings.Index(string(doc[at:]), "─ "+l.name)
		if i < 0 {
			t.Fatalf("%q does not stand where it should", l.name)
		}
		at += i
	}
	if n := strings.Count(string(doc), "─ ") - len(chain); n != 0 {
		t.Errorf("%d layers too many are drawn", n)
	}
}
