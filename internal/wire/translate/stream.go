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

// maxDocument is the maximum size of a JSON answer.
const maxDocument = 32 << 20

// Stream converts one answer of an upstream to the client's format. It takes the upstream's bytes
// in pieces of any size. Unreadable input ends the answer with an error in the client's format. A
// Stream is not safe for concurrent use.
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

// NewStream returns a Stream for one answer, from the upstream's format to the client's. Both must
// be in [Formats].
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
	// Upstreams send comments as a sign of life.
	s.events.Comment = s.flow.ping
	return s
}

// Feed takes the next bytes of the upstream's answer, after content decoding, and returns the
// output for the client. The result is valid until the next call.
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

// Close ends the answer and returns the remaining output. A cut or incomplete answer is not
// completed.
func (s *Stream) Close(cut bool) []byte {
	s.out.Buf = s.out.Buf[:0]
	if cut {
		return nil
	}
	if s.form == formWhole {
		s.document()
		return s.out.Buf
	}
	// Some servers omit the blank line after the last event. A partial event means a cut.
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

// CloseEmpty ends a closed answer that has not begun, in an error. It returns the output, nil for any other answer.
func (s *Stream) CloseEmpty() []byte {
	if s.flow.Answer.Started || s.flow.Ended {
		return nil
	}
	s.out.Buf = s.out.Buf[:0]
	s.broken("the upstream's answer is empty")
	return s.out.Buf
}

// Ended reports whether the answer has ended, possibly in an error.
func (s *Stream) Ended() bool { return s.flow.Ended }

// UnknownReason returns the upstream's stop reason if it is unknown, else "".
func (s *Stream) UnknownReason() string { return s.flow.Answer.Word }

// Service returns the service level reported by the upstream so far.
func (s *Stream) Service() wire.Service { return s.flow.service }

// Failure returns the error in place of a JSON answer, nil for none.
func (s *Stream) Failure() *Failure { return s.failed }

// broken ends an answer that cannot be read further.
func (s *Stream) broken(message string) { s.flow.fail(&Failure{Message: message}) }

// valid returns the upstream's bytes as valid UTF-8, with escapes of whole characters only.
func valid(data []byte) []byte {
	if !utf8.Valid(data) {
		// llama.cpp splits characters, and strict clients would reject the whole answer.
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return rawjson.Paired(data)
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

// document reads a JSON answer.
func (s *Stream) document() {
	text := rawjson.View(valid(bytes.TrimSpace(s.doc)))
	if !rawjson.Valid(text) {
		return // cut off
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
