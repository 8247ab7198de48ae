// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package hidden makes one message for the client of several answers of an upstream, and keeps
// calls from it that are answered on the way. What a format does for that is its [Codec].
package hidden

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/decode"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// largestKept bounds the memory that is kept to be used again, in bytes.
const largestKept = 1 << 20

// Interceptor makes one message for the client of several answers of an upstream, and
// keeps calls from the client that are answered on the way. What need not be
// changed passes in the upstream's own bytes, event by event. An Interceptor belongs
// to one goroutine.
type Interceptor struct {
	m      Message
	codec  wire.Codec
	traits *wire.Traits
	frames framing.Framer
	emit   func(framing.Event)
	same   decode.Template
	broken bool // an event is too long to be read: all passes
}

// Interception is what a format makes of one message for the client.
type Interception interface {
	// Of returns the entry that an event is of alone, nil if there is none.
	Of(f Event) *Entry
	// Event puts out what the client gets of an event of a stream that was read.
	Event(f Event)
	// Tell puts out an event that is of one entry alone, under the client's number of it.
	Tell(f Event, e *Entry)
	// Part returns an entry that is complete as it stands in a request. One that says nothing
	// has no Raw.
	Part(e *Entry) Part
	// Flush ends the client's message, and returns the word for why it ended.
	Flush() (word string)
	// Join makes one answer of all iterations; the last document is last.
	Join(last []byte) []byte
	// Failure makes the event that tells a client of a failed stream.
	Failure(kind, message string) []byte
}

// Options say which calls a [Interceptor] keeps.
type Options struct {
	// Hide reports whether calls of a tool are answered on the way.
	Hide func(name string) bool
	// Watch reports whether calls of a tool are watched: one that holds a mark is answered
	// on the way, if the client has nothing of it yet. Else the stream ends in an error
	// in front of the mark. Default: none.
	Watch func(name string) bool
	// Marks returns the marks that no watched call may hold. It is called once, when
	// a call is watched.
	Marks func() *Marks
	// Whole has watched calls kept back until they are complete.
	Whole bool
	// LastUsage tells the client the usage of the last answer, with the output
	// of all: how long its context is now. Default: the sum of all answers, each
	// on record.
	LastUsage bool
}

// Event is an event of a stream, with what its data says.
type Event struct {
	framing.Event
	Root gjson.Result
}

// NewInterceptor returns an interceptor of the answers to a request that [Possible].
func NewInterceptor(f wire.Format, o Options) *Interceptor {
	r := &Interceptor{codec: f.Codec(), traits: f.Traits()}
	r.m = Message{Options: o, framing: r.traits.Streams()}
	r.m.by = codec(f).Intercept(&r.m)
	if r.m.Options.Watch == nil {
		r.m.Options.Watch = func(string) bool { return false }
	}
	r.emit = r.frame
	r.begin()
	return r
}

// begin begins to read an answer.
func (r *Interceptor) begin() {
	r.frames = r.m.framing.Framer()
	r.same.Reset(r.codec, &r.m)
}

// Follow has a sink told of the client's stream, as a reader of the bytes that the client gets
// would tell it.
func (r *Interceptor) Follow(to wire.Sink) { r.m.to = to }

// Feed takes the next bytes of a stream and returns what the client is to get
// of them, good until the next call.
func (r *Interceptor) Feed(p []byte) []byte {
	r.m.begin()
	switch {
	case r.m.failed:
		return nil
	case r.broken:
		return p
	}
	r.frames.Feed(p, r.emit)
	switch {
	case r.m.failed:
		return r.cut()
	case r.frames.Err() != nil:
		r.m.fill()
		r.broken = true
		r.m.out = append(r.m.out, r.frames.Rest()...)
		r.frames = r.m.framing.Framer()
	}
	return r.m.give(false)
}

// begin drops what the client has.
func (r *Message) begin() {
	rest := r.out[r.ready:]
	if cap(r.out) > largestKept { // after a long event
		r.out = nil
	}
	r.out = append(r.out[:0], rest...)
	r.gone, r.ready = r.gone+int64(r.ready), 0
}

// end is where the next byte that is put out stands in the client's stream.
func (r *Message) end() int64 { return r.gone + int64(len(r.out)) }

// give returns what the client is to get now: all that is put out, in front of the first
// event that may begin a mark.
func (r *Message) give(all bool) []byte {
	r.ready = len(r.out)
	for _, s := range r.watched {
		if at, ok := s.waits(); ok && !all {
			r.ready = min(r.ready, max(int(at-r.gone), 0))
		}
	}
	return r.out[:r.ready]
}

// fail ends the stream at a place, in an error. The client is to ask again: a call with
// a mark must not be run.
func (r *Message) fail(at int64) {
	if !r.failed {
		r.failed, r.failure = true, at
	}
}

// cut ends a stream that has failed.
func (r *Interceptor) cut() []byte {
	r.m.out = append(r.m.out[:max(int(r.m.failure-r.m.gone), 0)], r.m.by.Failure("overloaded_error", "The model has copied a note of llm_cache in place of the text that it stands for. Try again.")...)
	return r.m.give(true)
}

// Failed reports whether the stream ends in an error because a call that the client has
// the beginning of holds a mark.
func (r *Interceptor) Failed() bool { return r.m.failed }

func (r *Message) marks() *Marks {
	if r.known == nil {
		if r.known = new(Marks); r.Options.Marks != nil {
			r.known = r.Options.Marks()
		}
	}
	return r.known
}

// End takes the end of a stream and returns what the client is to get of an event
// that it broke off in: some servers leave out the blank line behind their last one,
// and some the terminal event. The message has ended then if the model said why.
func (r *Interceptor) End() []byte {
	r.m.begin()
	if r.m.failed {
		return nil
	}
	r.frames.End(r.emit)
	if r.m.failed {
		return r.cut()
	}
	r.m.loosen()
	if _, ok := r.m.framing.(framing.SSE); ok && r.m.Held && len(r.m.out) > 0 && !bytes.HasSuffix(r.m.out, []byte("\n\n")) {
		r.m.out = append(r.m.out, "\n\n"...) // more will follow
	}
	r.m.Ended = r.m.Ended || r.m.Now.StopReason != "" && !r.m.Held
	return r.m.give(true)
}

// Rest returns what the client has not got of a stream that was cut: what may have begun
// a mark, and the beginning of an event.
func (r *Interceptor) Rest() []byte {
	if r.m.Held || r.m.failed || len(r.m.Past) > 0 {
		return nil
	}
	r.m.begin()
	r.m.loosen()
	r.m.out = append(r.m.out, r.frames.Rest()...)
	return r.m.give(true)
}

// frame reads one event. What is no JSON object passes.
func (r *Interceptor) frame(f framing.Event) {
	m := &r.m
	switch {
	case m.failed:
		return
	case len(f.Raw) == 1 && f.Raw[0] == '\n': // the rest of a line end
		if m.passed {
			m.Pass(f)
		} else {
			m.rest(f)
		}
		return
	}
	m.passed, m.keeper = false, nil
	if m.size > wire.MaxAnswer || m.Begun > wire.MaxCalls {
		m.fill()
		r.same.Forget()
	}
	m.Said = Said{Pieces: m.Pieces[:0]}
	data := bytes.TrimSpace(f.Data)
	if string(data) == "[DONE]" {
		r.done(f)
		return
	}
	text := rawjson.View(data)
	switch {
	case r.same.Read(data):
		m.Pass(f)
		if m.Repeats != nil {
			m.Repeats()
		}
	case len(data) == 0 || data[0] != '{' || !rawjson.Valid(text):
		m.loosen()
		m.Pass(f)
	default:
		f.Data = data
		r.read(Event{Event: f, Root: gjson.Parse(text)})
	}
}

// read reads an event and has the format put out what the client gets of it.
func (r *Interceptor) read(f Event) {
	m := &r.m
	r.same.Reader().Event(f.Root, rawjson.View(f.Name))
	if m.fresh != nil && m.by.Of(f) != m.fresh {
		m.loosen()
	}
	m.began = m.end()
	m.by.Event(f)
	m.Settle()
	m.Ended = m.Ended || m.over && !m.Held
	m.tellEnd(m.Now.StopReason)
	// The next events like this need not be read if all that it did was to add to a text, and
	// it passed.
	watched := slices.ContainsFunc(m.Pieces, func(p Piece) bool { return p.Entry == nil || p.Entry.watch != nil })
	if m.passed && !watched && m.Now.StopReason == "" {
		r.same.Learn(f.Data)
	} else {
		r.same.Forget()
	}
}

// done reads `data: [DONE]`, by which some servers end streams of any format.
func (r *Interceptor) done(f framing.Event) {
	m := &r.m
	m.loosen()
	if m.Held {
		return
	}
	if r.traits.EndsWithDone {
		m.Ended, m.over = true, true
		m.tellEnd("")
	}
	m.Pass(f)
}

// Asks reports whether the answer has ended in nothing but calls that are
// answered on the way: the upstream is to be asked to go on, by [Interceptor.Next],
// or the message to be ended by [Interceptor.Close].
func (r *Interceptor) Asks() bool { return r.m.Held }

// Ended reports whether the client's message has come to its proper end.
func (r *Interceptor) Ended() bool { return r.m.Ended }

// Plain reports whether the client's message is what the upstream said, and nothing else.
func (r *Interceptor) Plain() bool {
	return len(r.m.Past) == 0 && !r.m.Held && len(r.m.Now.Hidden()) == 0
}

// Iteration returns the answer that came last.
func (r *Interceptor) Iteration() *Iteration { return &r.m.Now }

// Iterations returns all answers so far.
func (r *Interceptor) Iterations() []Iteration { return r.m.Iterations() }

// Next makes ready for the answer to a continuation.
func (r *Interceptor) Next() {
	r.m.Past = append(r.m.Past, r.m.Now)
	r.m.Now = Iteration{Opaque: r.m.Full}
	r.m.entries, r.m.calls, r.m.counts = nil, nil, nil
	r.m.watched, r.m.fresh, r.m.keeper = nil, nil, nil
	r.m.Begun = 0
	r.m.Held = false
	r.begin()
}

// Close returns what ends the client's message where its end was kept back.
func (r *Interceptor) Close() []byte {
	r.m.begin()
	if r.m.Held && !r.m.Ended {
		r.m.Held, r.m.Ended = false, true
		r.m.Said = Said{Stopped: true, word: wire.EventStop, over: true, counted: r.m.counts != nil}
		r.m.tellEnd(r.m.by.Flush())
	}
	return r.m.give(true)
}

// Whole takes an answer in one piece and returns what the client is to get. It
// reports false where that is not known yet, because the answer [Interceptor.Asks].
func (r *Interceptor) Whole(body []byte) ([]byte, bool) {
	text := rawjson.View(body)
	if !rawjson.Valid(text) {
		return body, true
	}
	r.m.Said = Said{}
	r.same.Reader().Whole(gjson.Parse(text))
	if r.m.none {
		return body, true
	}
	r.m.Stopped = true
	r.m.Settle()
	if r.m.Held = r.m.Now.Asks() && r.m.Now.Complete(); r.m.Held {
		r.m.Last = bytes.Clone(body)
		return nil, false
	}
	r.m.Ended = true
	if len(r.m.Past) == 0 && len(r.m.Now.Hidden()) == 0 {
		return body, true
	}
	return r.m.by.Join(body), true
}

// CloseWhole is [Interceptor.Close] for answers in one piece.
func (r *Interceptor) CloseWhole() []byte {
	r.m.Held, r.m.Ended = false, true
	return r.m.by.Join(r.m.Last)
}

// Failure returns the event by which the client's stream ends in an error. Kinds
// are the format's own, or api_error or timeout_error.
func (r *Interceptor) Failure(kind, message string) []byte { return r.m.by.Failure(kind, message) }
