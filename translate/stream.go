// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/sse"
)

// maxDocument bounds an answer in one piece.
const maxDocument = 32 << 20

// answerReader reads one format's answers into a flow.
type answerReader interface {
	// event reads one event of a stream; name is that of the SSE event.
	event(f *flow, name string, root gjson.Result)
	// whole reads an answer in one piece.
	whole(f *flow, root gjson.Result)
	// done is told of `data: [DONE]`.
	done(f *flow)
	// eof is told that the stream has come to a clean end.
	eof(f *flow)
}

// Stream turns one answer of an upstream into the client's format. It is fed
// the upstream's bytes in whatever pieces they come; how they are cut makes no
// difference to what comes out. It never fails: what it cannot read ends the
// answer in an error of the client's format. A Stream belongs to one goroutine.
type Stream struct {
	flow   flow
	read   answerReader
	events sse.Parser
	emit   func(sse.Event)
	form   form
	doc    []byte
	out    output
	failed *Failure
}

// form is the form of the upstream's answer.
type form uint8

const (
	formUnknown form = iota
	formStream
	formWhole
)

// output is what goes to the client next.
type output struct {
	buf []byte
	// What a [Hold] has read last: the event, its data, and whether it has passed
	// as it came.
	came   sse.Frame
	read   []byte
	passed bool
}

// largestKept bounds the memory that is kept behind a long event to be used again.
const largestKept = 1 << 20

// reset makes ready for what comes next.
func (o *output) reset() {
	if cap(o.buf) > largestKept {
		o.buf = nil
	}
	o.buf = o.buf[:0]
}

// NewStream returns a Stream for one answer of an upstream that speaks from, to
// a client that speaks to. Both must be formats that this package knows.
func NewStream(from, to wire.Format, asked *Answering) *Stream {
	s := &Stream{read: dialects[from].reader()}
	s.flow = flow{asked: asked, from: from, client: to, stops: Stops{Sequences: asked.Stop}}
	if asked.Stream {
		s.flow.to = dialects[to].writer(&s.flow, &s.out)
	} else {
		s.flow.to = &collector{collected: collected{flow: &s.flow}, out: &s.out, failed: &s.failed}
	}
	s.emit = s.event
	s.events.Comment = s.flow.ping
	return s
}

// Feed takes the next bytes of the upstream's answer, after content decoding,
// and returns what the client is to get now. The result is good until the next
// call.
func (s *Stream) Feed(p []byte) []byte {
	s.out.reset()
	if s.form == formUnknown {
		p = bytes.TrimLeft(bytes.TrimPrefix(p, []byte("\xEF\xBB\xBF")), " \t\r\n")
		if len(p) == 0 {
			return nil
		}
		s.form = formStream
		if p[0] == '{' || p[0] == '[' {
			s.form = formWhole
		}
	}
	if s.form == formStream {
		s.events.Feed(p, s.emit)
		if s.events.Err() != nil {
			s.broken("an event of the upstream's answer is too long")
		}
		return s.out.buf
	}
	if len(s.doc)+len(p) > maxDocument {
		s.broken("the upstream's answer is too long")
		return s.out.buf
	}
	s.doc = append(s.doc, p...)
	return s.out.buf
}

// Close ends the answer and returns what the client is to get last. With cut,
// or if the upstream stopped before the end of its answer, nothing is made up
// to complete it.
func (s *Stream) Close(cut bool) []byte {
	s.out.buf = s.out.buf[:0]
	if cut {
		return nil
	}
	if s.form == formWhole {
		s.document()
		return s.out.buf
	}
	// Some servers leave out the blank line behind their last event. Half of one is none.
	s.events.End(func(e sse.Event) {
		if data := bytes.TrimSpace(e.Data); string(data) == "[DONE]" || wire.ValidBytes(data) {
			s.event(e)
		}
	})
	s.read.eof(&s.flow)
	return s.out.buf
}

// Ended reports whether the answer has come to its end, be it in an error.
func (s *Stream) Ended() bool { return s.flow.ended }

// Failure returns the error that an answer in one piece turned out to be, nil
// if it is none.
func (s *Stream) Failure() *Failure { return s.failed }

// broken ends the answer where it cannot be read any further.
func (s *Stream) broken(message string) { s.flow.fail(&Failure{Message: message}) }

func (s *Stream) event(e sse.Event) {
	data := bytes.TrimSpace(e.Data)
	switch {
	case s.flow.ended, len(data) == 0:
		return
	case string(data) == "[DONE]":
		s.read.done(&s.flow)
		return
	}
	text := view(data)
	if !wire.Valid(text) {
		s.broken("an event of the upstream's answer is not valid JSON")
		return
	}
	if root := gjson.Parse(text); root.IsObject() {
		s.read.event(&s.flow, view(e.Name), root)
	}
}

// document reads an answer that came in one piece.
func (s *Stream) document() {
	text := view(bytes.TrimSpace(s.doc))
	if !wire.Valid(text) {
		return // cut
	}
	root := gjson.Parse(text)
	if root.IsArray() { // a stream of gemini without alt=sse
		root.ForEach(func(_, item gjson.Result) bool {
			s.read.event(&s.flow, "", item)
			return !s.flow.ended
		})
		s.read.eof(&s.flow)
		return
	}
	s.read.whole(&s.flow, root)
}

// sse appends an event with a name; what follows up to its end is its data.
func (o *output) sse(name string) {
	o.buf = append(o.buf, "event: "...)
	o.buf = append(o.buf, name...)
	o.buf = append(o.buf, "\ndata: "...)
}

func (o *output) data() { o.buf = append(o.buf, "data: "...) }
func (o *output) end()  { o.buf = append(o.buf, "\n\n"...) }

func (o *output) raw(s string) { o.buf = append(o.buf, s...) }
func (o *output) int(n int64)  { o.buf = strconv.AppendInt(o.buf, n, 10) }

// string appends a text as a JSON string.
func (o *output) string(s string) {
	o.buf = append(o.buf, '"')
	o.buf = appendEscaped(o.buf, s)
	o.buf = append(o.buf, '"')
}

// inside appends the inside of a JSON string in quotes.
func (o *output) inside(s string) {
	o.buf = append(o.buf, '"')
	o.buf = append(o.buf, s...)
	o.buf = append(o.buf, '"')
}
