// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"
	"time"
)

// TestValue: each kind of value as a header, as a parameter of a structured field, and as a placeholder.
func TestValue(t *testing.T) {
	for name, test := range map[string]struct {
		value       value
		header      string
		parameter   string
		placeholder any
	}{
		"unknown":             {value{}, "", "", ""},
		"empty text":          {text(""), "", "", ""},
		"text":                {text("a b"), "a b", `; x="a b"`, "a b"},
		"text with a quote":   {text(`a"b`), `a"b`, "", `a"b`},
		"text beyond ASCII":   {text("é"), "é", "", "é"},
		"word":                {word("cold"), "cold", "; x=cold", "cold"},
		"number":              {number(0), "0", "; x=0", int64(0)},
		"negative number":     {number(-3), "-3", "; x=-3", int64(-3)},
		"number that is none": {number(0).unless(true), "", "", ""},
		"seconds":             {seconds(1500 * time.Millisecond), "1.5", "; x=1.5", 1.5},
		"flag":                {flag(true), "1", "; x", true},
		"flag that is not":    {flag(false), "", "", ""},
	} {
		if got := test.value.String(); got != test.header {
			t.Errorf("%s: header %q, want %q", name, got, test.header)
		}
		if got := string(test.value.appendParameter(nil, "x")); got != test.parameter {
			t.Errorf("%s: parameter %q, want %q", name, got, test.parameter)
		}
		if got := test.value.any(); got != test.placeholder {
			t.Errorf("%s: placeholder %v, want %v", name, got, test.placeholder)
		}
	}
}
