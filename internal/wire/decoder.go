// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Decoder reads an answer while its bytes pass to the client. It takes pieces of any size, never
// fails and never blocks. It stops reading a malformed or too large answer, and the turn is then
// never done. The limit is 32 MiB for an event, for a JSON body and for the model's output. The
// cost is linear in the bytes. A Decoder is not safe for concurrent use.
type Decoder struct {
	codec     Codec // nil for an unregistered format
	traits    *Traits
	stream    bool
	form      answerForm
	sse       framing.SSEFramer // the value of events for most streams
	events    framing.Framer
	emit      func(framing.Event)
	answer    Answer
	same      Template
	following bool // see Follow

	text    strings.Builder // of a JSON object, up to its end
	nesting rawjson.Nesting
	closed  bool // the end of the JSON object was read
}

// answerForm is the detected form of an answer.
type answerForm uint8

const (
	answerUnknown  answerForm = iota // only white space so far
	answerStream                     // a stream of events
	answerWhole                      // one JSON object
	answerArray                      // a JSON array of the events of a stream (Gemini)
	answerFinished                   // reading has ended, with or without success
)

// NewDecoder returns a decoder for an answer in format f. stream reports whether the response's
// Content-Type is server-sent events; an answer that clearly begins in the other form is read in
// that form. For an unregistered format only the end of the answer is detected.
func NewDecoder(f Format, stream bool) *Decoder {
	d := new(Decoder)
	d.Begin(f, stream)
	return d
}

// Begin initializes d like [NewDecoder].
func (d *Decoder) Begin(f Format, stream bool) {
	*d = Decoder{codec: f.Codec(), traits: f.Traits(), stream: stream}
	d.emit = d.event
	if d.codec != nil {
		d.same.Reset(d.codec, &d.answer)
	}
}

// Follow makes d an observer of a stream with another reader. The reader must send its events to
// the returned sink. Feed then does not parse the bytes.
func (d *Decoder) Follow() Sink {
	d.following, d.form = true, answerStream
	return (*follower)(d)
}

// follower is a sink for a stream's events up to its end.
type follower Decoder

// Take implements [Sink].
func (d *follower) Take(e *Event) {
	if d.form == answerStream && !d.answer.Ended {
		d.answer.Take(e)
	}
}

// Feed takes the next bytes of the answer, after content decoding. It keeps no reference to p.
func (d *Decoder) Feed(p []byte) {
	if d.following {
		d.finishIfOver()
		return
	}
	if d.form == answerUnknown {
		p = bytes.TrimLeft(p, " \t\r\n")
		if len(p) == 0 {
			return
		}
		switch native := d.traits.Framing; {
		case d.stream && native != nil && native.Begins(p[0]):
			d.form, d.events = answerStream, native.Framer()
		case p[0] == '{':
			d.form = answerWhole
		case d.traits.ArrayStreams && framing.Array{}.Begins(p[0]):
			d.form, d.events = answerArray, framing.Array{}.Framer()
		case d.stream || framing.SSE{}.Begins(p[0]):
			d.form, d.events = answerStream, &d.sse
		default:
			d.form = answerFinished
		}
	}
	switch d.form {
	case answerStream, answerArray:
		d.events.Feed(p, d.emit)
		if d.form != answerFinished && d.events.Err() != nil {
			d.stop()
		}
		if d.form == answerFinished {
			d.sse, d.events = framing.SSEFramer{}, nil
		}
	case answerWhole:
		d.whole(p)
	}
}

// End ends a stream that was not cut off.
func (d *Decoder) End() {
	// Some servers omit the blank line after the last event.
	if d.form == answerStream && !d.following {
		d.events.End(d.emit)
	}
	if d.following {
		d.finishIfOver()
	}
	// Some servers omit the terminal event: the stop reason is enough.
	if d.form == answerStream && d.Stopped() {
		d.answer.Turn.Done = true
	}
}

// Stopped reports whether the answer has a stop reason. Only usage and the end of the stream may
// follow.
func (d *Decoder) Stopped() bool {
	return d.answer.Turn.StopReason != "" && !d.answer.Turn.Failed()
}

// Done reports whether the answer is complete, see [Turn.Done].
func (d *Decoder) Done() bool { return d.answer.Turn.Done }

// Ended reports whether the terminal event of a stream was read; reading ends there. Gemini's
// streams have no terminal event, so they may be done and still continue.
func (d *Decoder) Ended() bool { return d.answer.Turn.Done && d.form == answerFinished }

// Begun reports whether the model has produced any output: text, thinking or a tool call. Comments,
// pings and the answer's envelope do not count, so Begun turns true at the time to first token. A
// JSON answer turns true as a whole.
func (d *Decoder) Begun() bool { return d.answer.Begun }

// Turn returns the turn so far, at any time, without copying the texts.
func (d *Decoder) Turn() *Turn {
	a := &d.answer
	t := a.Turn
	t.Text, t.Thinking = a.Text.String(), a.Thinking.String()
	if len(a.Calls) > 0 {
		t.Calls = make([]Call, len(a.Calls))
	}
	for i, c := range a.Calls {
		t.Calls[i] = Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments.String(), Free: c.Free}
		// No fragments were sent: the call had its arguments from the start.
		if c.Arguments.Len() == 0 {
			t.Calls[i].Arguments = c.Initial
		}
	}
	return &t
}

// event reads one event of a stream.
func (d *Decoder) event(e framing.Event) {
	switch d.form {
	case answerStream:
	case answerArray:
		d.element(e)
		return
	default:
		return
	}
	data := bytes.TrimSpace(e.Data)
	switch {
	case len(data) == 0:
		return
	case string(data) == "[DONE]":
		// Some servers end a stream of Anthropic events with [DONE], too.
		if d.traits.EndsWithDone {
			d.finish()
		}
		return
	}
	// The sink copies the text, because data is only valid during this call.
	if d.same.Read(data) {
		if d.answer.Broken {
			d.stop()
		}
		return
	}
	if d.codec == nil || d.codec.Silent(e.Name) {
		return
	}
	text := rawjson.View(data)
	if !rawjson.Valid(text) {
		d.stop()
		return
	}
	root := gjson.Parse(text)
	if !root.IsObject() {
		return
	}
	d.same.Reader.Event(root, rawjson.View(e.Name))
	if !d.finishIfOver() {
		d.same.Learn(data)
	}
}

// finishIfOver ends the reading once the answer is complete or broken.
func (d *Decoder) finishIfOver() bool {
	switch {
	case d.form != answerStream:
	case d.answer.Broken, d.answer.Turn.Failed():
		d.stop()
	case d.answer.Ended:
		d.finish()
	default:
		return false
	}
	return true
}

// element reads an element of an array, or the closing bracket.
func (d *Decoder) element(e framing.Event) {
	if e.Data == nil {
		if d.answer.Turn.StopReason != "" {
			d.finish()
		} else {
			d.stop()
		}
		return
	}
	text := rawjson.View(e.Data)
	if !rawjson.Valid(text) {
		d.stop()
		return
	}
	d.same.Reader.Event(gjson.Parse(text), "")
	d.answer.Turn.Done = false // until the closing bracket
	if d.answer.Broken || d.answer.Turn.Failed() {
		d.stop()
	}
}

// whole reads the next bytes of a JSON answer.
func (d *Decoder) whole(p []byte) {
	if !d.closed {
		end, ok := d.nesting.Next(p)
		if d.closed = end >= 0; !d.closed {
			end = len(p)
		}
		if !ok || d.text.Len()+end > framing.DefaultLimit {
			d.stop()
			return
		}
		d.text.Write(p[:end])
		if p = p[end:]; !d.closed {
			return
		}
		text := d.text.String()
		d.text.Reset()
		if !rawjson.Valid(text) {
			d.stop()
			return
		}
		if d.codec != nil {
			d.same.Reader.Whole(gjson.Parse(text))
		}
		d.answer.Turn.Done = !d.answer.Broken
	}
	// Trailing data invalidates a complete object, too.
	if len(bytes.TrimLeft(p, " \t\r\n")) > 0 {
		d.stop()
	}
}

// finish ends a stream at its terminal event.
func (d *Decoder) finish() {
	d.answer.Turn.Done = true
	d.form = answerFinished
}

// stop ends the reading without success.
func (d *Decoder) stop() {
	d.answer.Turn.Done = false
	d.form = answerFinished
	d.text.Reset()
}

// Template is the common pattern of a stream's events. Hundreds of consecutive events differ only
// in the text and in fillers. A Template is inserted between a reader and its sink. It learns the
// pattern from an event and reads similar events itself: only their text needs parsing.
type Template struct {
	// Reader is the reader of the answer.
	Reader AnswerReader

	sink     Sink
	lastText Event // the last event's text
	texts    int   // number of texts in the last event
	other    bool  // the last event has data beyond the text and known values
	known    bool  // event is a pattern
	event    []byte
	gaps     []gap // in order, one of them is the text
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

// maxTemplate is the maximum size of a pattern, in bytes.
const maxTemplate = 8 << 10

// Reset starts reading an answer.
func (t *Template) Reset(c Codec, to Sink) {
	t.Forget()
	t.sink, t.Reader = to, c.Reader(t)
}

// Take implements [Sink].
func (t *Template) Take(e *Event) {
	switch e.Kind {
	case EventText, EventRefusal, EventThinking, EventArguments:
		t.texts++
		t.lastText = Event{Kind: e.Kind, Call: e.Call, Index: e.Index, Name: e.Name, Text: e.Text}
	case EventBegin, EventUsage, EventProgress:
		// The next events would only repeat these values.
	case EventPiece:
		t.other = t.other || e.Index >= 0 || e.Text != ""
	default:
		t.other = true
	}
	t.sink.Take(e)
}

// Learn makes the event just read the pattern, if it only added to a text and the text is a string
// of its data.
func (t *Template) Learn(data []byte) {
	alone, text := t.texts == 1 && !t.other, t.lastText.Text
	t.Forget()
	if !alone || len(data) > maxTemplate {
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
	case t.lastText.Kind == EventArguments: // the reader tracks the end of arguments
		t.Reader.Arguments(t.lastText.Call, text)
		t.texts = 0
	default:
		t.lastText.Text = text
		t.sink.Take(&t.lastText)
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

// gapLen returns the length of the number or of the string inside at the start of b, -1 for neither.
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
		// Escapes are only skipped, not validated.
		case c == '\\':
			i++
		case c < ' ':
			return -1
		}
	}
	return -1
}
