// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// TestDimensionIsBounded: clients invent names, and their counters are bounded. No name breaks the
// metrics.
func TestDimensionIsBounded(t *testing.T) {
	d := newDimension("test_dimension", 3)
	long := strings.Repeat("x", 1<<20)
	d.count(long, &audit.Record{Turns: 1})
	for name := range d.met {
		if len(name) > longestName || unsafe.StringData(name) == unsafe.StringData(long) {
			t.Errorf("a name of %d bytes stays in memory", len(long))
		}
	}
	clear(d.met)
	for i := range 5 {
		d.count(strconv.Itoa(i), &audit.Record{Turns: 1, USD: -1, Billed: audit.Tokens{Output: 1}})
	}
	d.count("\xff"+strings.Repeat("x", 500), &audit.Record{Turns: 1})
	if len(d.met) != 4 || d.countersOf("4", 3) != d.met[audit.Others] || d.countersOf("0", 3) != d.met["0"] {
		t.Errorf("met %v", d.met)
	}
	d = newDimension("test_strangers", 10)
	for i := range 1000 { // refused requests
		d.count("stranger "+strconv.Itoa(i), &audit.Record{Turns: 1})
	}
	d.count("anna", &audit.Record{Turns: 1, Billed: audit.Tokens{Output: 1}})
	if d.met["anna"] == nil || d.met["stranger 0"] == nil || len(d.met) > 7 {
		t.Errorf("met %v", d.met)
	}
	for host, want := range map[string]string{
		"LLM.example.com:8443": "llm.example.com",
		"llm.example.com":      "llm.example.com", "[::1]:80": "[::1]", "[::1]": "[::1]", "": "",
	} {
		if got := siteOf(host); got != want {
			t.Errorf("%q is %q, not %q", host, got, want)
		}
	}
}

// A client's name must not steer the terminal that shows metrics.
func TestLabels(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-6.1": "gpt-6.1", "a\x1b[31mb": "a\uFFFD[31mb", "a\nb\x00": "a\uFFFDb\uFFFD", "\xff\xfe": "\uFFFD\uFFFD",
		"x\u202ey": "x\uFFFDy", "größe": "größe",
	} {
		if got := label(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
