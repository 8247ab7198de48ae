// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Stub builds the replacements of folded text, and parses them.

// A stub has a frame of its own, so neither a model nor a program takes it for content:
//
//	[[llm_cache:folded 1f3a9c27: Read /src/a.go, 300 lines, 9041 chars. mcp__llm_cache__expand returns it.]]
const (
	// StubFrame is the beginning of a stub.
	StubFrame = "[[llm_cache:folded "
	// IDLen is the length of a name, in hexadecimal digits.
	IDLen = 8
)

// CompactedNote precedes the rest of a compacted result.
const CompactedNote = "[Compacted: "

// ClearedPlaceholder replaces a cleared result. The Messages API documents no wording; coding
// agents that clear results themselves use this one.
const ClearedPlaceholder = "[Old tool result content cleared]"

// The parts of stubs and notes that no escaping changes.
var (
	// cacheMark is the end of "llm_cache:". Its first byte, for which a search looks, is rarer than "l".
	cacheMark   = []byte("_cache:")
	compacted   = []byte(strings.Trim(CompactedNote, "["))
	placeholder = []byte(strings.Trim(ClearedPlaceholder, "[]"))
)

// QuotesMarks reports whether a block may contain a stub or a note.
func QuotesMarks(body []byte) bool {
	for rest := body; ; {
		i := bytes.Index(rest, cacheMark)
		if i < 0 {
			return bytes.Contains(body, compacted) || bytes.Contains(body, placeholder)
		}
		if bytes.HasSuffix(rest[:i], []byte("llm")) {
			return true
		}
		rest = rest[i+len(cacheMark):]
	}
}

// StubName returns the name of a block in its stub. It is a keyed hash, so a name is valid only in
// its own conversation.
func StubName(s *sessioncache.Session, v *wire.View, b *wire.Block) string {
	first := v.First()
	mac := s.MAC(first[:], b.Hash[:])
	return hex.EncodeToString(mac[:IDLen/2])
}

// StubResult returns the stub of a tool result: a description of the text, the way to restore it,
// and its first lines.
func StubResult(v *wire.View, i int, name, text, back string, preview int) string {
	text = Unheaded(text)
	head := fmt.Sprintf("%s%s: %s. %s]]", StubFrame, name, described(v, i, text), back)
	return strings.Join(append([]string{head}, HeadLines(text, preview, 100)...), "\n")
}

// ShortenedResult returns the replacement of a compressed block: a description of the text, the way
// to restore it, and the short text.
func ShortenedResult(v *wire.View, i int, name, text, back, short string) string {
	return fmt.Sprintf("%s%s: %s, shortened below by leaving out words. %s]]\n%s", StubFrame, name, described(v, i, text),
		back, short)
}

// described describes a block with its text.
func described(v *wire.View, i int, text string) string {
	what := "text"
	if b := &v.MessageBlocks()[i]; b.Kind == wire.KindToolResult {
		what = "tool result"
		if j := CallOf(v, i); j >= 0 {
			what = DescribeCall(v, &v.MessageBlocks()[j])
		}
	}
	// A description must not end the frame.
	what = strings.ReplaceAll(what, "]]", "] ]")
	return fmt.Sprintf("%s, %d lines, %d chars", what, CountLines(text), utf8.RuneCountInString(text))
}

// StubInput returns the stub of a long string, or of lines of a patch, in a call's input.
func StubInput(name, s string) string {
	return fmt.Sprintf("%s%s: %d lines, %d chars]]", StubFrame, name, CountLines(s), utf8.RuneCountInString(s))
}

// Folded reports whether an edit replaces a block, or parts of it, by stubs.
func Folded(e *sessioncache.Edit) bool {
	return e != nil && (e.Stage == stage.Prune || e.Stage == stage.Inputs || e.Stage == stage.Replaced ||
		e.Stage == stage.Compress)
}

// OriginalText returns the client's text of a folded block: a tool result's text, or a call's whole
// input.
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

// InputPart returns the nth long string in a call's input.
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

// StubNames returns the names of the stubs in a text.
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

// StubLength is the approximate length of a stub, in bytes.
const StubLength = 150

// MinFold is the minimum saving of a folded block, in bytes.
const MinFold = 300

// MinTrait is the minimum length of a result to prune, in bytes.
const MinTrait = 200
