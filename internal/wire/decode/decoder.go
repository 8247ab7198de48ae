// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package decode reads answers, streams or JSON, as their bytes pass.
package decode

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Decoder reads an answer on the side, as its bytes pass on to the client. It
// is fed them in whatever pieces they come, never fails and never blocks: where
// an answer is malformed, or larger than 32 MiB in an event, in a JSON body or
// in what the model wrote, it stops reading and the turn is never done. The
// cost is linear in the bytes fed. A Decoder belongs to one goroutine.
type Decoder struct {
	codec  wire.Codec // nil for a format that is not known
	traits *wire.Traits
	stream bool
	form   answerForm
	sse    framing.SSEFramer // what events is for nearly all streams
	events framing.Framer
	emit   func(framing.Event)
	doc    framing.Document
	answer wire.Answer
	same   Template
	told   bool // see Follow
}

// answerForm is the form that an answer has turned out to have.
type answerForm uint8

const (
	answerUnknown  answerForm = iota // only white space so far
	answerStream                     // events
	answerWhole                      // one JSON object
	answerArray                      // a JSON array of the events of a stream (Gemini)
	answerFinished                   // nothing more to read, for better or worse
)

// New returns a decoder for an answer in format f. The flag stream says
// whether to expect server-sent events, by the Content-Type of the response;
// an answer that plainly begins as the other form is read as that. Of a format
// that this package does not read it knows nothing but the end.
func New(f wire.Format, stream bool) *Decoder {
	d := new(Decoder)
	d.Begin(f, stream)
	return d
}

// Begin makes d what [New] returns.
func (d *Decoder) Begin(f wire.Format, stream bool) {
	*d = Decoder{codec: f.Codec(), traits: f.Traits(), stream: stream}
	d.emit = d.event
	if d.codec != nil {
		d.same.Reset(d.codec, &d.answer)
	}
}

// Follow makes d an observer of a stream that is read elsewhere: the reader tells the sink that
// Follow returns, and Feed takes the same bytes without reading them.
func (d *Decoder) Follow() wire.Sink {
	d.told, d.form = true, answerStream
	return (*follower)(d)
}

// follower is told of a stream up to its end.
type follower Decoder

// Take implements [wire.Sink].
func (d *follower) Take(e *wire.Event) {
	if d.form == answerStream && !d.answer.Ended {
		d.answer.Take(e)
	}
}

// Feed takes the next bytes of the answer, after content decoding. It keeps no
// reference to p.
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

// recognise tells the form by the first byte.
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

// End tells that the stream came to its end and was not cut: an event that it broke
// off in counts if it is whole, for some servers leave out the blank line behind
// their last one; and the answer is done if the model has said why it stopped, for
// some leave out the terminal event.
func (d *Decoder) End() {
	if d.form == answerStream && !d.told {
		d.events.End(d.emit)
	}
	if d.told {
		d.settle()
	}
	if d.form == answerStream && d.Stopped() {
		d.answer.Turn.Done = true
	}
}

// Stopped reports whether the model has said why it stopped: nothing but what the
// answer costs, and the end of the stream, is to follow.
func (d *Decoder) Stopped() bool {
	return d.answer.Turn.StopReason != "" && !d.answer.Turn.Failed()
}

// Done reports whether the answer has come to its proper end, see [wire.Turn.Done].
func (d *Decoder) Done() bool { return d.answer.Turn.Done }

// Ended reports whether the terminal event of a stream has come, behind which
// nothing is read. A stream of Gemini's has none, only an end: it may be done
// and still go on.
func (d *Decoder) Ended() bool { return d.answer.Turn.Done && d.form == answerFinished }

// Begun reports whether the model has written anything yet: text, thinking or a
// tool call. Comments, pings and the envelope of the answer do not count, so
// that the moment at which it turns true is the time to first token. A JSON
// answer turns true as a whole.
func (d *Decoder) Begun() bool { return d.answer.Begun }

// Turn returns what is known of the answer so far. It may be called at any
// time and costs no copy of the texts.
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
		// Some servers end a stream of Anthropic events with it as well.
		if d.traits.EndsWithDone {
			d.finish()
		}
		return
	}
	// What is kept of the text is copied: it is gone when this returns.
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

// settle ends the reading of a stream where the answer is over, for better or worse.
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

// element reads an element of an array, or the bracket that closes it.
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
	d.answer.Turn.Done = false // before the bracket
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
	if !ok {
		d.answer.Turn.Done = false
		d.stop()
	}
}

// document reads a JSON answer that has come to its end.
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

// stop gives up reading.
func (d *Decoder) stop() {
	d.answer.Turn.Done = false
	d.form = answerFinished
	d.doc = framing.Document{}
}
