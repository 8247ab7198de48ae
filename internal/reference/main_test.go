// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"
)

// The page says what the source says.
func TestReference(t *testing.T) {
	var want bytes.Buffer
	if err := Write(&want, "../.."); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/reference/json.md is not what the source says: go run ./internal/reference >docs/reference/json.md")
	}
}

// Every member says what it does.
func TestEveryMemberIsExplained(t *testing.T) {
	all, err := read("../..")
	if err != nil {
		t.Fatal(err)
	}
	members := 0
	for _, types := range all {
		for _, d := range types {
			if d.module == "" {
				continue
			}
			for _, r := range all.rows(d, "", nil) {
				if members++; r.doc == "" {
					t.Errorf("%s: %s has no comment", d.module, r.member)
				}
			}
		}
	}
	if members < 100 {
		t.Errorf("only %d members were found", members)
	}
}
