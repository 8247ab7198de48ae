// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Template is what the events of a stream have in common while the model writes: hundreds
// follow each other that differ in the text only, and in fillers. A Template stands between
// a reader and its sink. It learns from an event that the reader has told of, and tells of
// the ones like it by itself: only their text has to be read.
type Template struct {
	sink   wire.Sink
	reader wire.AnswerReader
	told   wire.Event // the text of the last event
	texts  int        // how many texts the last event has told
	other  bool       // it has told what the next ones need not tell
	known  bool       // the last event is a pattern
	event  []byte
	gaps   []gap // in order, one of them the text
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

// Reset begins to read an answer.
func (t *Template) Reset(c wire.Codec, to wire.Sink) {
	t.Forget()
	t.sink, t.reader = to, c.Reader(t)
}

// Reader returns the reader of the answer.
func (t *Template) Reader() wire.AnswerReader { return t.reader }

// Take implements [wire.Sink].
func (t *Template) Take(e *wire.Event) {
	switch e.Kind {
	case wire.EventText, wire.EventRefusal, wire.EventThinking, wire.EventArguments:
		t.texts++
		t.told = wire.Event{Kind: e.Kind, Call: e.Call, Index: e.Index, Name: e.Name, Text: e.Text}
	case wire.EventBegin, wire.EventUsage, wire.EventProgress:
		// The next events would only tell the same again.
	case wire.EventPiece:
		t.other = t.other || e.Index >= 0 || e.Text != ""
	default:
		t.other = true
	}
	t.sink.Take(e)
}

// Learn makes the event that was just read the pattern of the next ones, if all
// it did was to add to a text that stands in it.
func (t *Template) Learn(data []byte) {
	alone, text := t.texts == 1 && !t.other, t.told.Text
	t.Forget()
	if !alone || len(data) > longestTemplate {
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
	t.event, t.gaps = append(t.event[:0], data...), append(t.gaps[:0], g)
	for _, f := range &fillers {
		i := bytes.Index(data, f.begins) // nowhere inside of a string: its quotes would be escaped
		if i < 0 {
			continue
		}
		i += len(f.begins)
		if n := gapLen(data[i:], f.number); n >= 0 && bytes.IndexByte(data[i:i+n], '\\') < 0 {
			t.gaps = append(t.gaps, gap{from: i, to: i + n, number: f.number})
		}
	}
	slices.SortFunc(t.gaps, func(a, b gap) int { return a.from - b.from })
	t.known = true
}

// Forget forgets the last event.
func (t *Template) Forget() { t.texts, t.other, t.known = 0, false, false }

// Read reads an event of the pattern and tells the sink of its text. It reports false for
// any other event.
func (t *Template) Read(data []byte) bool {
	text, ok := t.Match(data)
	switch {
	case !ok:
	case t.told.Kind == wire.EventArguments: // of which the reader looks for the end
		t.reader.Arguments(t.told.Call, text)
		t.texts = 0
	default:
		t.told.Text = text
		t.sink.Take(&t.told)
	}
	return ok
}

// Match returns the text of an event of the pattern, the inside of a JSON string.
func (t *Template) Match(data []byte) (text string, ok bool) {
	if !t.known {
		return "", false
	}
	var quoted string
	at, done := 0, 0
	for i := range t.gaps {
		g := &t.gaps[i]
		same := t.event[done:g.from]
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
	if !bytes.Equal(data[at:], t.event[done:]) {
		return "", false
	}
	return quoted[1 : len(quoted)-1], strings.IndexByte(quoted, '\\') < 0 || rawjson.Valid(quoted)
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
