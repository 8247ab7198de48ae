// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Only prose is shortened. A page with prose and code keeps its code byte for byte, and errors,
// diffs and JSON stay whole.

type line struct {
	text  string
	prose bool
}

// lines splits a text that is mostly prose, with no fewer than least characters of prose. For any
// other text it returns nil.
func lines(text string, minChars int) []line {
	if trimmed := strings.TrimSpace(text); isJSON(trimmed) || isDiff(trimmed) || isError(trimmed) ||
		!utf8.ValidString(text) {
		return nil
	}
	var all []line
	prose, chars, fenced := 0, 0, false
	for s := range strings.Lines(text) {
		n := utf8.RuneCountInString(s)
		chars += n
		t := strings.TrimSpace(s)
		fence := strings.HasPrefix(t, "```") || strings.HasPrefix(t, "~~~")
		l := line{s, !fence && !fenced && isProse(s)}
		if fence {
			fenced = !fenced
		}
		if l.prose {
			prose += n
		}
		all = append(all, l)
	}
	if prose < minChars || 2*prose < chars {
		return nil
	}
	return all
}

func isJSON(s string) bool {
	return s != "" && (s[0] == '{' || s[0] == '[') && rawjson.Valid(s)
}

func isDiff(s string) bool {
	return strings.HasPrefix(s, "diff --git ") || strings.HasPrefix(s, "@@ ") || strings.HasPrefix(s, "*** Begin Patch") ||
		strings.Contains(s, "\n@@ -") || strings.Contains(s, "\n+++ ")
}

// complaints are the first words of error messages, in lower case.
var complaints = []string{
	"error", "fatal", "panic", "traceback", "exception", "failed", "failure", "exit code",
	"undefined",
}

// isError reports whether one of a text's first lines begins with a complaint, or the text has a
// stack trace.
func isError(s string) bool {
	n := 0
	for l := range strings.Lines(s) {
		if l = strings.ToLower(strings.TrimLeft(strings.TrimSpace(l), "<[(*#!- ")); l == "" {
			continue
		}
		if slices.ContainsFunc(complaints, func(c string) bool { return strings.HasPrefix(l, c) }) {
			return true
		}
		// Later lines do not make the whole text an error.
		if n++; n == 3 {
			break
		}
	}
	return strings.Contains(s, "Traceback (most recent call last)") || strings.Contains(s, "Exception in thread") ||
		strings.Contains(s, "\nerror:") || strings.Contains(s, "\nError:") || strings.Contains(s, "\npanic:")
}

const (
	// fewestWords is the minimum number of words of a line of prose.
	fewestWords = 6
	// indented is the number of leading spaces from which a line counts as code.
	indented = 4
)

// isProse reports whether a line is prose: at least three quarters of its words are plain ones.
// Headings, tables, quotes and short lines are not prose.
func isProse(s string) bool {
	t := strings.TrimLeft(s, " ")
	// Indented lines are code. The signs begin headings, tables, quotes and markup.
	if len(s)-len(t) >= indented || t == "" || strings.ContainsRune("\t#|<{[$+@", rune(t[0])) {
		return false
	}
	words, plain := 0, 0
	if first, _, _ := strings.Cut(t, " "); strings.ContainsAny(first, `/\_=`) { // a position in a file
		return false
	}
	for w := range strings.FieldsSeq(t) {
		words++
		if isPlain(w) {
			plain++
		}
	}
	// The sentence may report an error.
	if l := strings.ToLower(t); slices.ContainsFunc(complaints[:6],
		func(c string) bool { return strings.Contains(l, c) }) {
		return false
	}
	return words >= fewestWords && 4*plain >= 3*words
}

// isPlain reports whether a word is one of a natural language: letters, with punctuation around.
func isPlain(w string) bool {
	w = strings.TrimFunc(w, around)
	if w == "" {
		return false
	}
	// A capital letter inside a word marks a name.
	for i, r := range w {
		switch {
		case unicode.IsUpper(r) && i > 0, i == 0 && r == '-', !unicode.IsLetter(r) && !unicode.IsMark(r) &&
			!strings.ContainsRune("'’-", r):
			return false
		}
	}
	return true
}

// around reports whether a rune is punctuation around words.
func around(r rune) bool { return strings.ContainsRune(".,;:!?\"'“”‘’„«»()…–—*", r) }

// turning are words that change the meaning of a sentence, in lower case.
var turning = []string{
	"not", "no", "never", "none", "nor", "neither", "without", "cannot", "except", "unless", "only", "must", "should",
	"if",
	"nicht", "kein", "keine", "keinen", "nie", "ohne", "außer", "nur", "ne", "pas", "jamais", "sans", "sauf",
	"sin", "nunca",
}

// stays reports whether a word is always kept: names, numbers, paths and all other words that are
// not plain, and words that change the meaning.
func stays(w string) bool {
	if !isPlain(w) {
		return true
	}
	w = strings.ToLower(strings.TrimFunc(w, around))
	return strings.HasSuffix(w, "n't") || strings.HasSuffix(w, "n’t") || slices.Contains(turning, w)
}
