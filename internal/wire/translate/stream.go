// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// maxDocument bounds an answer in one piece.
const maxDocument = 32 << 20

// Stream turns one answer of an upstream into the client's format. It is fed
// the upstream's bytes in whatever pieces they come; how they are cut makes no
// difference to what comes out. It never fails: what it cannot read ends the
// answer in an error of the client's format. A Stream belongs to one goroutine.
type Stream struct {
	flow   Flow
	read   wire.AnswerReader
	events framing.SSEFramer
	emit   func(framing.Event)
	form   form
	doc    []byte
	out    Buffer
	failed *Failure
}

// form is the form of the upstream's answer.
type form uint8

const (
	formUnknown form = iota
	formStream
	formWhole
)

// NewStream returns a Stream for one answer of an upstream that speaks from, to
// a client that speaks to. Both must be formats that this package knows.
func NewStream(from, to wire.Format, asked *Answering) *Stream {
	s := new(Stream)
	s.read = from.Codec().Reader(&s.flow)
	s.flow = Flow{Asked: asked, from: from, Client: to, stops: Stops{Sequences: asked.Stop}}
	if asked.InlineThinking {
		s.flow.inline.state = thinkMaybe
	}
	if asked.Stream {
		s.flow.to = dialectOf(to).AnswerWriter(&s.flow, &s.out)
	} else {
		s.flow.to = &collector{Collected: Collected{Flow: &s.flow}, out: &s.out, failed: &s.failed}
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
		return s.out.Buf
	}
	if len(s.doc)+len(p) > maxDocument {
		s.broken("the upstream's answer is too long")
		return s.out.Buf
	}
	s.doc = append(s.doc, p...)
	return s.out.Buf
}

// Close ends the answer and returns what the client is to get last. With cut,
// or if the upstream stopped before the end of its answer, nothing is made up
// to complete it.
func (s *Stream) Close(cut bool) []byte {
	s.out.Buf = s.out.Buf[:0]
	if cut {
		return nil
	}
	if s.form == formWhole {
		s.document()
		return s.out.Buf
	}
	// Some servers leave out the blank line behind their last event. Half of one is a cut.
	half := false
	s.events.End(func(e framing.Event) {
		data := bytes.TrimSpace(e.Data)
		if half = len(data) > 0 && string(data) != "[DONE]" && !rawjson.ValidBytes(data); !half {
			s.event(e)
		}
	})
	if !half {
		s.read.EOF()
	}
	return s.out.Buf
}

// Ended reports whether the answer has come to its end, be it in an error.
func (s *Stream) Ended() bool { return s.flow.Ended }

// UnknownReason returns the upstream's word for why the answer ended, if it is one that nobody
// here knows.
func (s *Stream) UnknownReason() string { return s.flow.Answer.Word }

// Service returns how the upstream says that it serves the request, as far as it has.
func (s *Stream) Service() wire.Service { return s.flow.service }

// Failure returns the error that an answer in one piece turned out to be, nil
// if it is none.
func (s *Stream) Failure() *Failure { return s.failed }

// broken ends the answer where it cannot be read any further.
func (s *Stream) broken(message string) { s.flow.fail(&Failure{Message: message}) }

// valid returns what an upstream sent as UTF-8: llama.cpp cuts characters in two, and strict
// readers would refuse the whole answer.
func valid(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}

func (s *Stream) event(e framing.Event) {
	data := valid(bytes.TrimSpace(e.Data))
	switch {
	case s.flow.Ended, len(data) == 0:
		return
	case string(data) == "[DONE]":
		s.read.Done()
		return
	}
	text := rawjson.View(data)
	if !rawjson.Valid(text) {
		s.broken("an event of the upstream's answer is not valid JSON")
		return
	}
	if root := gjson.Parse(text); root.IsObject() {
		s.read.Event(root, rawjson.View(e.Name))
	}
}

// document reads an answer that came in one piece.
func (s *Stream) document() {
	text := rawjson.View(valid(bytes.TrimSpace(s.doc)))
	if !rawjson.Valid(text) {
		return // cut
	}
	root := gjson.Parse(text)
	if root.IsArray() { // a stream of gemini without alt=sse
		root.ForEach(func(_, item gjson.Result) bool {
			s.read.Event(item, "")
			return !s.flow.Ended
		})
		s.read.EOF()
		return
	}
	s.read.Whole(root)
}
