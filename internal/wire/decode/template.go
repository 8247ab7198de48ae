// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Template is what the events of a stream have in common while the model writes:
// hundreds follow each other that differ in the text only, and in what says nothing
// of the answer, see fillers. What the others say of such an event is known from the
// first, so that only its text has to be read.
type Template struct {
	// To is where the text goes, nil for no template.
	To    *strings.Builder
	event []byte
	gaps  []gap // in order, one of them the text
}

// gap is where events of a template differ: inside the quotes of a string, or in a number.
type gap struct {
	from, to int
	text     bool // what the model wrote
	number   bool
}

// fillers are members that differ from event to event and are not part of the turn.
// OpenAI numbers the events of Responses, and fills all events up with random
// letters against those who listen to their lengths.
var fillers = [...]struct {
	begins []byte
	number bool
}{
	{[]byte(`"sequence_number":`), true},
	{[]byte(`"obfuscation":"`), false},
}

// longestTemplate bounds the events that are kept, in bytes.
const longestTemplate = 8 << 10

// Learn makes the event that was just read the pattern of the next ones, if all
// it did was to add to a text, and that text stands in it without escapes. Whatever
// else it told, of the answer's id or of the usage so far, it would only tell again.
func (r *Template) Learn(data []byte, a wire.Added) {
	text := a.Text
	r.To = nil
	if a.Texts != 1 || a.Calls > 0 || len(data) > longestTemplate {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.StringData(text))) - uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if at == 0 || at >= uintptr(len(data)-len(text)) { // it lies elsewhere
		return
	}
	g := gap{from: int(at), to: int(at) + len(text), text: true}
	if data[g.from-1] != '"' || data[g.to] != '"' {
		return
	}
	r.event, r.gaps = append(r.event[:0], data...), append(r.gaps[:0], g)
	for _, f := range &fillers {
		i := bytes.Index(data, f.begins) // nowhere inside of a string: its quotes would be escaped
		if i < 0 {
			continue
		}
		i += len(f.begins)
		if n := gapLen(data[i:], f.number); n >= 0 && bytes.IndexByte(data[i:i+n], '\\') < 0 {
			r.gaps = append(r.gaps, gap{from: i, to: i + n, number: f.number})
		}
	}
	slices.SortFunc(r.gaps, func(a, b gap) int { return a.from - b.from })
	r.To = a.To
}

// Quoted returns the text of an event of the pattern as the JSON string that it stands in;
// ok is false for any other event. The text is good as long as the data is.
func (r *Template) Quoted(data []byte) (quoted string, ok bool) {
	if r.To == nil {
		return "", false
	}
	at, done := 0, 0
	for i := range r.gaps {
		g := &r.gaps[i]
		same := r.event[done:g.from]
		if !bytes.HasPrefix(data[at:], same) {
			return "", false
		}
		at, done = at+len(same), g.to
		n := gapLen(data[at:], g.number)
		if n < 0 || !g.text && bytes.IndexByte(data[at:at+n], '\\') >= 0 {
			return "", false
		}
		if g.text {
			quoted = rawjson.View(data[at-1 : at+n+1])
		}
		at += n
	}
	if !bytes.Equal(data[at:], r.event[done:]) {
		return "", false
	}
	return quoted, strings.IndexByte(quoted, '\\') < 0 || rawjson.Valid(quoted)
}

// text returns the text of an event of the pattern, as Quoted does.
func (r *Template) text(data []byte) (text string, ok bool) {
	quoted, ok := r.Quoted(data)
	switch {
	case !ok:
		return "", false
	case strings.IndexByte(quoted, '\\') < 0:
		return quoted[1 : len(quoted)-1], true
	}
	return gjson.Parse(quoted).Str, true
}

// gapLen returns the length of the digits or of the inside of the string that b begins
// with, -1 if it is no such thing. Escapes are not looked at.
func gapLen(b []byte, number bool) int {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case number && c >= '0' && c <= '9':
		case number:
			if i == 0 || i > 1 && b[0] == '0' {
				return -1
			}
			return i
		case c == '"':
			return i
		case c == '\\':
			i++
		case c < ' ':
			return -1
		}
	}
	return -1
}
