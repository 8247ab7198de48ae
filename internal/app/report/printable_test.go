// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// Names of clients neither steer a terminal nor break a table's layout.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-6.1": "gpt-6.1", "a\x1b[31m\nb\x00c": "a[31mbc", "left\u202eright": "leftright", "\u009bx": "x",
		strings.Repeat("é", maxName):   strings.Repeat("é", maxName),
		strings.Repeat("é", maxName+1): strings.Repeat("é", maxName-1) + "…",
	} {
		if got := printable(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// Names of clients steer no terminal that shows the JSON, and keep their values.
func TestJSONIsPrintable(t *testing.T) {
	const name = "a\x1b[31m\u007fb\u009b1mé\u0085"
	s := &Summary{Groups: []*Group{{Sum: &Sum{Name: name}}}}
	var b strings.Builder
	if err := s.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	for _, r := range b.String() {
		if !unicode.IsPrint(r) && r != '\n' {
			t.Errorf("%q stands in it", r)
		}
	}
	var got Summary
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got.Groups[0].Name != name {
		t.Errorf("got %+v, %v, want the name %q", got, err, name)
	}
}
