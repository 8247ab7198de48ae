// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

// Stub makes what stands in for folded text, and reads it again.

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// A stub stands in a frame of its own, so that neither a model nor a program
// takes it for content:
//
//	[[llm_cache:folded 1f3a9c27: Read /src/a.go, 300 lines, 9041 chars. mcp__llm_cache__expand returns it.]]
const (
	// StubFrame is what it begins with.
	StubFrame = "[[llm_cache:folded "
	// IDLen is the length of a name, in hexadecimal digits.
	IDLen = 8
)

// CompactedNote is what stands in front of what is left of a compacted result.
const CompactedNote = "[Compacted: "

// ClearedPlaceholder is what stands in the place of a result. The Messages API documents that
// there is one, not how it reads: this is how coding agents word it that clear results
// themselves.
const ClearedPlaceholder = "[Old tool result content cleared]"

// beginnings are what stubs and notes begin with, and hold however they are escaped.
var beginnings = [...][]byte{[]byte("llm_cache:"), []byte(strings.Trim(CompactedNote, "[")), []byte(strings.Trim(ClearedPlaceholder, "[]"))}

// QuotesMarks reports whether a block may hold a stub or a note.
func QuotesMarks(body []byte) bool {
	return slices.ContainsFunc(beginnings[:], func(s []byte) bool { return bytes.Contains(body, s) })
}

// StubName is how a block is named in its stub: by a keyed hash, so that the
// name means something in its own conversation only.
func StubName(s *sessioncache.Session, v *wire.View, b *wire.Block) string {
	first := v.First()
	mac := s.MAC(first[:], b.Hash[:])
	return hex.EncodeToString(mac[:IDLen/2])
}

// StubResult says what stood in a result, of which this is the text, and how to
// get it back. It shows so many of its first lines.
func StubResult(v *wire.View, i int, name, text, back string, preview int) string {
	text = Unheaded(text)
	head := fmt.Sprintf("%s%s: %s. %s]]", StubFrame, name, described(v, i, text), back)
	return strings.Join(append([]string{head}, HeadLines(text, preview, 100)...), "\n")
}

// ShortenedResult says what stood in a block, of which this is the text, and how to get it
// back, in front of what is left of it.
func ShortenedResult(v *wire.View, i int, name, text, back, short string) string {
	return fmt.Sprintf("%s%s: %s, shortened below by leaving out words. %s]]\n%s", StubFrame, name, described(v, i, text), back, short)
}

// described says what stands in a block, of which this is the text.
func described(v *wire.View, i int, text string) string {
	what := "text"
	if b := &v.MessageBlocks()[i]; b.Kind == wire.KindToolResult {
		what = "tool result"
		if j := CallOf(v, i); j >= 0 {
			what = DescribeCall(v, &v.MessageBlocks()[j])
		}
	}
	// What a call says must not end the frame.
	what = strings.ReplaceAll(what, "]]", "] ]")
	return fmt.Sprintf("%s, %d lines, %d chars", what, CountLines(text), utf8.RuneCountInString(text))
}

// StubInput stands for one long string in the input of a call, or for lines of
// a patch in it.
func StubInput(name, s string) string {
	return fmt.Sprintf("%s%s: %d lines, %d chars]]", StubFrame, name, CountLines(s), utf8.RuneCountInString(s))
}

// Folded reports whether an edit puts stubs into a block, or one in its place.
func Folded(e *sessioncache.Edit) bool {
	return e != nil && (e.Stage == stage.Prune || e.Stage == stage.Inputs || e.Stage == stage.Replaced || e.Stage == stage.Compress)
}

// OriginalText is the text of a folded block, as the client has it: of a tool result
// its text, of a call its whole input.
func OriginalText(v *wire.View, b *wire.Block) string {
	if b.Kind != wire.KindToolUse {
		return Verbatim(v, b)
	}
	input := v.Bytes(b.Body)
	if input[0] == '"' { // OpenAI: JSON text in a string, or free text
		return gjson.ParseBytes(input).Str
	}
	return string(input)
}

// InputPart finds the nth of the long strings in the input of a call.
func InputPart(input, part string) (found string, ok bool) {
	n, err := strconv.Atoi(part)
	at := 0
	LongStrings(gjson.Parse(input), 0, func(_ string, x gjson.Result) {
		if at++; err == nil && at == n {
			found, ok = x.Str, true
		}
	})
	return found, ok
}

// StubNames returns the names in the stubs that a text holds.
func StubNames(text string) (names []string) {
	for {
		_, rest, ok := strings.Cut(text, StubFrame)
		if !ok {
			return names
		}
		text = rest
		end := strings.IndexFunc(rest, func(r rune) bool {
			return (r < '0' || r > '9') && (r < 'a' || r > 'f') && r != '.'
		})
		if end >= IDLen {
			names = append(names, rest[:end])
		}
	}
}

// StubLength is about how long what stands in for a block is.
const StubLength = 150
