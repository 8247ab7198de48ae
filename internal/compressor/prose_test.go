// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"strings"
	"testing"
)

const paragraph = "The committee met on a long and rainy afternoon and could not agree on anything that mattered, " +
	"and so they went home again without a word about it.\n"

// TestLines says which texts words are looked for in, and in which of their lines.
func TestLines(t *testing.T) {
	much := strings.Repeat(paragraph, 4)
	for name, c := range map[string]struct {
		text  string
		prose int // lines; -1 for a text that is left alone
	}{
		"prose":          {much, 4},
		"short":          {paragraph, -1},
		"page with code": {much + "```go\nfunc a() and some more words that could be taken for prose\n```\n" + paragraph, 5},
		"mostly code": {paragraph + paragraph +
			strings.Repeat("    if (a[i] == b.c) { return x->y; } // and so on and so forth\n", 20), -1},
		"headings":        {"# A heading of several words that says what comes\n\n" + much, 4},
		"table":           {"| a | table | of | several | words | and | cells |\n" + much, 4},
		"JSON":            {"[\"" + strings.ReplaceAll(much, "\n", " ") + "\"]", -1},
		"JSON object":     {"{\"a\":\"" + strings.ReplaceAll(much, "\n", " ") + "\"}", -1},
		"diff":            {"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n" + much, -1},
		"diff in a mail":  {much + "--- a/a\n+++ b/a\n" + much, -1},
		"error":           {"Error: the committee could not be found\n" + much, -1},
		"error, later":    {"exit status:\n\n\nFatal error in the committee room, nobody is left\n" + much, -1},
		"trace":           {much + "Traceback (most recent call last):\n" + much, -1},
		"complaint in it": {much + "The committee met and there was an error in what they had agreed on and why.\n", 4},
		"brackets":        {strings.Repeat("[", 1<<20) + much, -1},
		"listing":         {strings.Repeat("-rw-r--r-- 1 root root 1234 Nov 22 20:26 some_file.go\n", 20), -1},
		"log":             {strings.Repeat("2026-11-22T20:26:01Z INFO server.go:42 request served in 12ms path=/v1/messages\n", 20), -1},
		"source":          {strings.Repeat("\tfor i := range blocks { total += blocks[i].Size() }\n", 20), -1},
		"search hits":     {strings.Repeat("pipeline/fold.go:103: // fold makes the edits of a plan\n", 20), -1},
		"no UTF-8":        {much + "\xff\n", -1},
		"list": {strings.Repeat("- an item of a list that has a good number of plain words in it, and an end\n",
			5), 5},
	} {
		all := lines(c.text, 200)
		got := -1
		if all != nil {
			got = 0
		}
		var whole strings.Builder
		for _, l := range all {
			if l.prose {
				got++
			}
			whole.WriteString(l.text)
		}
		if got != c.prose {
			t.Errorf("%s: %d lines of prose, want %d", name, got, c.prose)
		}
		if all != nil && whole.String() != c.text {
			t.Errorf("%s: the lines are not the text", name)
		}
	}
}

// TestStays says which words are never left out.
func TestStays(t *testing.T) {
	for w, want := range map[string]bool{
		"the": false, "committee,": false, "(rainy)": false, "It": false, "well-known": false, "can’t": true, "don't": true,
		"not": true, "Never,": true, "unless": true, "42": true, "v1.2": true, "/src/a.go": true, "NASA": true,
		"readFile": true,
		"a_b":      true, "https://example.com/a": true, "`code`": true, "x=1": true, "foo()": false, "--flag": true,
		"naïve": false,
	} {
		if got := stays(w); got != want {
			t.Errorf("%q stays: %t, want %t", w, got, want)
		}
	}
}
