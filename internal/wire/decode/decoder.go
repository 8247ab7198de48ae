// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package decode reads streamed and JSON answers while their bytes pass.
package decode

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Decoder reads an answer while its bytes pass to the client. It takes pieces of any size, never
// fails and never blocks. It stops reading a malformed or too large answer, and the turn is then
// never done. The limit is 32 MiB for an event, for a JSON body and for the model's output. The
// cost is linear in the bytes. A Decoder is not safe for concurrent use.
type Decoder struct {
	codec  wire.Codec // nil for an unregistered format
	traits *wire.Traits
	stream bool
	form   answerForm
	sse    framing.SSEFramer // the value of events for most streams
	events framing.Framer
	emit   func(framing.Event)
	doc    framing.Document
	answer wire.Answer
	same   Template
	told   bool // see Follow
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

// New returns a decoder for an answer in format f. stream reports whether the response's
// Content-Type is server-sent events; an answer that clearly begins in the other form is read in
// that form. For an unregistered format only the end of the answer is detected.
func New(f wire.Format, stream bool) *Decoder {
	d := new(Decoder)
	d.Begin(f, stream)
	return d
}

// Begin initializes d like [New].
func (d *Decoder) Begin(f wire.Format, stream bool) {
	*d = Decoder{codec: f.Codec(), traits: f.Traits(), stream: stream}
	d.emit = d.event
	if d.codec != nil {
		d.same.Reset(d.codec, &d.answer)
	}
}

// Follow makes d an observer of a stream with another reader. The reader must send its events to
// the returned sink. Feed then does not parse the bytes.
func (d *Decoder) Follow() wire.Sink {
	d.told, d.form = true, answerStream
	return (*follower)(d)
}

// follower is a sink for a stream's events up to its end.
type follower Decoder

// Take implements [wire.Sink].
func (d *follower) Take(e *wire.Event) {
	if d.form == answerStream && !d.answer.Ended {
		d.answer.Take(e)
	}
}

// Feed takes the next bytes of the answer, after content decoding. It keeps no reference to p.
func (d *Decoder) Feed(p []byte) {
	if d.told {
		d.settle()
		return
	}
	if d.form == answerUnknown {
		p = bytes.TrimLeft(p, " \t\r\n")
		if len(p) == 0 {
			return
		}
		d.recognise(p[0])
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

// recognise detects the form by the first byte.
func (d *Decoder) recognise(first byte) {
	switch own := d.traits.Framing; {
	case d.stream && own != nil && own.Begins(first):
		d.form, d.events = answerStream, own.Framer()
	case first == '{':
		d.form = answerWhole
	case d.traits.ArrayStreams && framing.Array{}.Begins(first):
		d.form, d.events = answerArray, framing.Array{}.Framer()
	case d.stream || framing.SSE{}.Begins(first):
		d.form, d.events = answerStream, &d.sse
	default:
		d.form = answerFinished
	}
}

// End ends a stream that was not cut off.
func (d *Decoder) End() {
	// Some servers omit the blank line after the last event.
	if d.form == answerStream && !d.told {
		d.events.End(d.emit)
	}
	if d.told {
		d.settle()
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

// Done reports whether the answer is complete, see [wire.Turn.Done].
func (d *Decoder) Done() bool { return d.answer.Turn.Done }

// Ended reports whether the terminal event of a stream was read; reading ends there. Gemini's
// streams have no terminal event, so they may be done and still continue.
func (d *Decoder) Ended() bool { return d.answer.Turn.Done && d.form == answerFinished }

// Begun reports whether the model has produced any output: text, thinking or a tool call. Comments,
// pings and the answer's envelope do not count, so Begun turns true at the time to first token. A
// JSON answer turns true as a whole.
func (d *Decoder) Begun() bool { return d.answer.Begun }

// Turn returns the turn so far, at any time, without copying the texts.
func (d *Decoder) Turn() *wire.Turn { return d.answer.Snapshot() }

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
	d.same.Reader().Event(root, rawjson.View(e.Name))
	if !d.settle() {
		d.same.Learn(data)
	}
}

// settle ends the reading once the answer is complete or broken.
func (d *Decoder) settle() bool {
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
	d.same.Reader().Event(gjson.Parse(text), "")
	d.answer.Turn.Done = false // until the closing bracket
	if d.answer.Broken || d.answer.Turn.Failed() {
		d.stop()
	}
}

// whole reads the next bytes of a JSON answer.
func (d *Decoder) whole(p []byte) {
	open := !d.doc.Closed()
	ok := d.doc.Feed(p)
	if open && d.doc.Closed() {
		d.document()
	}
	// Trailing data invalidates a complete object, too.
	if !ok {
		d.answer.Turn.Done = false
		d.stop()
	}
}

// document reads a complete JSON answer.
func (d *Decoder) document() {
	text := d.doc.Take()
	if !rawjson.Valid(text) {
		d.stop()
		return
	}
	if d.codec != nil {
		d.same.Reader().Whole(gjson.Parse(text))
	}
	d.answer.Turn.Done = !d.answer.Broken
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
	d.doc = framing.Document{}
}
