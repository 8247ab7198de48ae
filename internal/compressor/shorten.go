// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"
	"strings"
	"unicode"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
)

const (
	// maxText is the length in bytes above which a text is left alone, since it would occupy
	// the worker for minutes.
	maxText = 64 << 10
	// minGain is the minimum part of a text that must go.
	minGain = 0.1
	// sight is the distance, in bytes, within which a word of the compressor is searched in the text.
	sight = 48
)

// Shorten drops words from the prose in a text, by the compressor's choice. It returns "" where the
// gain is too small. Kept words and all other lines are unmodified.
func Shorten(ctx context.Context, c Compressor, text string, rate float64, minChars int) (string, error) {
	if len(text) > maxText {
		return "", nil
	}
	all := lines(text, minChars)
	if all == nil {
		return "", nil
	}
	var prose strings.Builder
	for _, l := range all {
		if l.prose {
			prose.WriteString(l.text)
		}
	}
	// One call for all prose, so that the rate applies to the whole text.
	r, err := c.Compress(ctx, prose.String(), rate)
	if err != nil {
		return "", err
	}
	keep := kept(prose.String(), r.Words)
	var out strings.Builder
	at := 0
	for _, l := range all {
		if !l.prose {
			out.WriteString(l.text)
			continue
		}
		writeKept(&out, l.text, keep[at:at+len(l.text)])
		at += len(l.text)
	}
	if short := out.String(); float64(len(short)) <= (1-minGain)*float64(len(text)) {
		return short, nil
	}
	return "", nil
}

// kept marks the bytes of the words to keep.
func kept(text string, words []lingua.Word) []bool {
	low := strings.ToLower
	lower := low(text)
	if len(lower) != len(text) { // else positions in the two would differ
		lower, low = text, func(s string) string { return s }
	}
	// Words that the compressor does not mention stay, too.
	const dropped = 1 // dropped and not kept; 0: not mentioned
	said := make([]byte, len(text))
	at := 0
	for _, w := range words {
		s := low(strings.TrimSpace(w.Text))
		// The compressor may have changed or dropped parts of words, so search a little ahead.
		i := strings.Index(lower[at:min(len(lower), at+sight+len(s))], s)
		if s == "" || i < 0 {
			continue
		}
		for j := at + i; j < at+i+len(s); j++ {
			if said[j] = dropped; w.Keep {
				said[j] = 0
			}
		}
		at += i + len(s)
	}
	keep := make([]bool, len(text))
	for from := 0; from < len(text); {
		if isSpace(text[from]) {
			from++
			continue
		}
		end := from
		gone := true
		for ; end < len(text) && !isSpace(text[end]); end++ {
			gone = gone && said[end] == dropped
		}
		// A word stays whole if any part of it stays.
		if !gone || stays(text[from:end]) {
			for i := from; i < end; i++ {
				keep[i] = true
			}
		}
		from = end
	}
	return keep
}

func isSpace(b byte) bool { return b < 0x80 && unicode.IsSpace(rune(b)) }

// writeKept writes the kept words of a line, its indentation, and its end.
func writeKept(out *strings.Builder, line string, keep []bool) {
	head := len(line) - len(strings.TrimLeft(line, " "))
	body := strings.TrimRight(line, "\r\n")
	written := false
	for from := head; from < len(body); {
		if isSpace(body[from]) {
			from++
			continue
		}
		end := from
		for end < len(body) && !isSpace(body[end]) {
			end++
		}
		if keep[from] {
			if written {
				out.WriteByte(' ')
			} else {
				out.WriteString(line[:head])
			}
			out.WriteString(body[from:end])
			written = true
		}
		from = end
	}
	if written {
		out.WriteString(line[len(body):])
	}
}
