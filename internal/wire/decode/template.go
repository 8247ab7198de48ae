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

// Template is the common pattern of a stream's events. Hundreds of consecutive events differ only
// in the text and in fillers. A Template is inserted between a reader and its sink. It learns the
// pattern from an event and reads similar events itself: only their text needs parsing.
type Template struct {
	sink   wire.Sink
	reader wire.AnswerReader
	told   wire.Event // the last event's text
	texts  int        // number of texts in the last event
	other  bool       // the last event has data beyond the text and known values
	known  bool       // event is a pattern
	event  []byte
	gaps   []gap // in order, one of them is the text
}

// gap is a variable part of the pattern: the inside of a string, or a number.
type gap struct {
	from, to int
	text     bool // the model's output
	number   bool
}

// fillers are members that vary between events and are not part of the turn. OpenAI numbers the
// events of Responses and pads them with random letters, to hide their lengths from eavesdroppers.
var fillers = [...]struct {
	begins []byte
	number bool
}{
	{[]byte(`"sequence_number":`), true},
	{[]byte(`"obfuscation":"`), false},
}

// longestTemplate is the maximum size of a pattern, in bytes.
const longestTemplate = 8 << 10

// Reset starts reading an answer.
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
		// The next events would only repeat these values.
	case wire.EventPiece:
		t.other = t.other || e.Index >= 0 || e.Text != ""
	default:
		t.other = true
	}
	t.sink.Take(e)
}

// Learn makes the event just read the pattern, if it only added to a text and the text is a string
// of its data.
func (t *Template) Learn(data []byte) {
	alone, text := t.texts == 1 && !t.other, t.told.Text
	t.Forget()
	if !alone || len(data) > longestTemplate {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.StringData(text))) - uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if at == 0 || at >= uintptr(len(data)-len(text)) { // the text was copied
		return
	}
	g := gap{from: int(at), to: int(at) + len(text), text: true}
	if data[g.from-1] != '"' || data[g.to] != '"' {
		return
	}
	t.event, t.gaps = append(t.event[:0], data...), append(t.gaps[:0], g)
	for _, f := range &fillers {
		i := bytes.Index(data, f.begins) // cannot match inside a string, where quotes are escaped
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

// Forget drops the pattern.
func (t *Template) Forget() { t.texts, t.other, t.known = 0, false, false }

// Read reads an event of the pattern and sends its text to the sink. It returns false for any other
// event.
func (t *Template) Read(data []byte) bool {
	text, ok := t.Match(data)
	switch {
	case !ok:
	case t.told.Kind == wire.EventArguments: // the reader tracks the end of arguments
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

// gapLen returns the length of the number or of the string inside at the start of b, -1 for
// neither. Escapes are not validated.
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
