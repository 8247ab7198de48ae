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
	// longest is the length in bytes above which a text is left alone: it would occupy
	// the worker for minutes.
	longestText = 64 << 10
	// leastGain is the share of a text that must go.
	leastGain = 0.1
	// sight is how far ahead, in bytes, a word of the compressor's is looked for.
	sight = 48
)

// Shorten leaves words out of the prose in a text, by what a compressor thinks of them,
// and returns "" where that is not worth it. What is left stands there in the text's own
// bytes, line by line.
func Shorten(ctx context.Context, c Compressor, text string, rate float64, least int) (string, error) {
	if len(text) > longestText {
		return "", nil
	}
	all := lines(text, least)
	if all == nil {
		return "", nil
	}
	var prose strings.Builder
	for _, l := range all {
		if l.prose {
			prose.WriteString(l.text)
		}
	}
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
	if short := out.String(); float64(len(short)) <= (1-leastGain)*float64(len(text)) {
		return short, nil
	}
	return "", nil
}

// kept marks the bytes of a text that stand in words to keep, as far as the compressor
// says so of any part of them, or does not know them at all.
func kept(text string, words []lingua.Word) []bool {
	low := strings.ToLower
	lower := low(text)
	if len(lower) != len(text) { // the places would not be the same
		lower, low = text, func(s string) string { return s }
	}
	const dropped = 1 // and not kept; what is 0 the compressor has not named
	said := make([]byte, len(text))
	at := 0
	for _, w := range words {
		s := low(strings.TrimSpace(w.Text))
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

// writeKept writes the words of a line that are kept, what stands in front of the first
// word, and the line's end.
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
