// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package intercept combines several answers of an upstream into one message for the client, without
// the calls that are answered on the way. The part specific to a format is its [Codec].
package intercept

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

const (
	// maxKept is the largest buffer kept for reuse, in bytes.
	maxKept = 1 << 20
	// forMore is the room for an event that began in an earlier piece of the stream, in bytes.
	forMore = 256
)

// Interceptor combines several answers of an upstream into one message for the client and removes
// the intercepted calls. Unaffected events are forwarded in the upstream's bytes. An Interceptor is not
// safe for concurrent use.
type Interceptor struct {
	m      Message
	codec  wire.Codec
	traits *wire.Traits
	frames framing.Framer
	emit   func(framing.Event)
	same   wire.Template
	broken bool // an event exceeded the limit: everything is forwarded unread
}

// Interception is a format's part of one message for the client.
type Interception interface {
	// Of returns the only entry that an event belongs to, nil for none.
	Of(f Event) *Entry
	// Event writes the client's part of a stream event that was read.
	Event(f Event)
	// Tell writes an event of a single entry, under the client's number.
	Tell(f Event, e *Entry)
	// Part returns a complete entry in its form for a request. An empty entry has no Raw.
	Part(e *Entry) Part
	// Flush ends the client's message and returns its stop reason.
	Flush() (word string)
	// Join combines all iterations to one JSON answer. The argument is the last answer.
	Join(last []byte) []byte
	// Failure returns the event for a failed stream.
	Failure(kind, message string) []byte
}

// Options select the calls that an [Interceptor] removes.
type Options struct {
	// Intercepts reports whether a tool's calls are answered on the way.
	Intercepts func(name string) bool
	// Watch reports whether a tool's calls are watched for marks. A call with a mark is answered on
	// the way, if none of it was sent to the client yet. Otherwise the stream ends with an error
	// before the mark. Default: no calls.
	Watch func(name string) bool
	// Marks returns the marks that watched calls must not contain. It is called once, at the first
	// watched call.
	Marks func() *Marks
	// Whole buffers watched calls until they are complete.
	Whole bool
	// LastUsage reports the usage of the last answer to the client, with the output of all answers:
	// its prompt is the client's current context. Default: the sum of all answers, with a list of
	// them.
	LastUsage bool
}

// Event is a stream event with its parsed data.
type Event struct {
	framing.Event
	Root gjson.Result
}

// NewInterceptor returns an interceptor for the answers to a request. The request must be
// [Possible].
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

func (r *Interceptor) begin() {
	r.frames = r.m.framing.Framer()
	r.same.Reset(r.codec, &r.m)
}

// Follow sends the events of the client's stream to a sink. They are the same as from a reader of
// the client's bytes.
func (r *Interceptor) Follow(to wire.Sink) { r.m.to = to }

// Feed takes the next bytes of a stream and returns the output for the client. The result is valid
// until the next call.
func (r *Interceptor) Feed(p []byte) []byte {
	r.m.begin()
	switch {
	case r.m.failed:
		return nil
	case r.broken:
		return p
	}
	r.m.out = slices.Grow(r.m.out, len(p)+forMore) // nearly all of it goes to the client
	r.frames.Feed(p, r.emit)
	switch {
	case r.m.failed:
		return r.cut()
	case r.frames.Err() != nil:
		// The event cannot be read, so the rest of the stream is forwarded unread.
		r.m.fill()
		r.broken = true
		r.m.out = append(r.m.out, r.frames.Rest()...)
		r.frames = r.m.framing.Framer()
	}
	return r.m.give(false)
}

// begin drops the output that the client already has.
func (r *Message) begin() {
	rest := r.out[r.ready:]
	if cap(r.out) > maxKept { // after a long event
		r.out = nil
	}
	r.out = append(r.out[:0], rest...)
	r.gone, r.ready = r.gone+int64(r.ready), 0
}

// end returns the position in the client's stream after the output so far.
func (r *Message) end() int64 { return r.gone + int64(len(r.out)) }

// give returns the output for the client, up to the first event with a possible mark.
func (r *Message) give(all bool) []byte {
	r.ready = len(r.out)
	for _, s := range r.watched {
		if at, ok := s.waits(); ok && !all {
			r.ready = min(r.ready, max(int(at-r.gone), 0))
		}
	}
	return r.out[:r.ready]
}

func (r *Message) fail(at int64) {
	if !r.failed {
		// The client must retry, because it must not run a call with a mark.
		r.failed, r.failure = true, at
	}
}

func (r *Interceptor) cut() []byte {
	r.m.out = append(r.m.out[:max(int(r.m.failure-r.m.gone), 0)],
		r.m.by.Failure("overloaded_error",
			"The model has copied a note of llm_cache in place of the text that it stands for. Try again.")...)
	return r.m.give(true)
}

// Failed reports whether the stream ended with an error because of a mark in a partly sent call.
func (r *Interceptor) Failed() bool { return r.m.failed }

func (r *Message) marks() *Marks {
	if r.known == nil {
		if r.known = new(Marks); r.Options.Marks != nil {
			r.known = r.Options.Marks()
		}
	}
	return r.known
}

// End ends a stream and returns the remaining output. A last event without its blank line counts.
// Without a terminal event the message has ended if it has a stop reason.
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
	if _, ok := r.m.framing.(framing.SSE); ok && r.m.Buffered && len(r.m.out) > 0 &&
		!bytes.HasSuffix(r.m.out, []byte("\n\n")) {
		r.m.out = append(r.m.out, "\n\n"...) // the next iteration's events follow
	}
	r.m.Ended = r.m.Ended || r.m.Now.StopReason != "" && !r.m.Buffered
	return r.m.give(true)
}

// Rest returns the remaining output of a stream that was cut off: a possible mark, and a partial
// event.
func (r *Interceptor) Rest() []byte {
	if r.m.Buffered || r.m.failed || len(r.m.Past) > 0 {
		return nil
	}
	r.m.begin()
	r.m.loosen()
	r.m.out = append(r.m.out, r.frames.Rest()...)
	return r.m.give(true)
}

// frame handles one event. Events without a JSON object are forwarded.
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
	// Beyond the limits the answer is forwarded without hiding any more calls.
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

func (r *Interceptor) read(f Event) {
	m := &r.m
	r.same.Reader.Event(f.Root, rawjson.View(f.Name))
	// An event of another entry releases the waiting one, which keeps the order of events.
	if m.fresh != nil && m.by.Of(f) != m.fresh {
		m.loosen()
	}
	m.began = m.end()
	m.by.Event(f)
	m.FinishEntries()
	m.Ended = m.Ended || m.over && !m.Buffered
	m.tellEnd(m.Now.StopReason)
	// The next similar events need no parsing if this event was forwarded and only added to a text.
	watched := slices.ContainsFunc(m.Pieces, func(p Piece) bool { return p.Entry == nil || p.Entry.watch != nil })
	if m.passed && !watched && m.Now.StopReason == "" {
		r.same.Learn(f.Data)
	} else {
		r.same.Forget()
	}
}

// done handles `data: [DONE]`. Some servers send it in any format.
func (r *Interceptor) done(f framing.Event) {
	m := &r.m
	m.loosen()
	// The client's stream goes on with the next iteration.
	if m.Buffered {
		return
	}
	if r.traits.EndsWithDone {
		m.Ended, m.over = true, true
		m.tellEnd("")
	}
	m.Pass(f)
}

// Asks reports whether the answer ended with intercepted calls only. The caller then continues with
// [Interceptor.Next], or ends the message with [Interceptor.Close].
func (r *Interceptor) Asks() bool { return r.m.Buffered }

// Ended reports whether the client's message is complete.
func (r *Interceptor) Ended() bool { return r.m.Ended }

// Plain reports whether the client's message equals the upstream's answer.
func (r *Interceptor) Plain() bool {
	return len(r.m.Past) == 0 && !r.m.Buffered && len(r.m.Now.Intercepted()) == 0
}

// Iteration returns the last answer.
func (r *Interceptor) Iteration() *Iteration { return &r.m.Now }

// Iterations returns all answers so far.
func (r *Interceptor) Iterations() []Iteration { return r.m.Iterations() }

// Next prepares for the answer to a continuation.
func (r *Interceptor) Next() {
	r.m.Past = append(r.m.Past, r.m.Now)
	r.m.Now = Iteration{Opaque: r.m.Full}
	r.m.entries, r.m.calls, r.m.counts = nil, nil, nil
	r.m.watched, r.m.fresh, r.m.keeper = nil, nil, nil
	r.m.Begun = 0
	r.m.Buffered = false
	r.begin()
}

// Close returns the buffered end of the client's message.
func (r *Interceptor) Close() []byte {
	r.m.begin()
	if r.m.Buffered && !r.m.Ended {
		r.m.Buffered, r.m.Ended = false, true
		r.m.Said = Said{Stopped: true, word: wire.EventStop, over: true, counted: r.m.counts != nil}
		r.m.tellEnd(r.m.by.Flush())
	}
	return r.m.give(true)
}

// Whole takes a JSON answer and returns the response for the client. It returns false if the answer
// [Interceptor.Asks] for a continuation.
func (r *Interceptor) Whole(body []byte) ([]byte, bool) {
	text := rawjson.View(body)
	// Unreadable responses are forwarded.
	if !rawjson.Valid(text) {
		return body, true
	}
	r.m.Said = Said{}
	r.same.Reader.Whole(gjson.Parse(text))
	if r.m.none {
		return body, true
	}
	r.m.Stopped = true
	r.m.FinishEntries()
	if r.m.Buffered = r.m.Now.Asks() && r.m.Now.Complete(); r.m.Buffered {
		r.m.Last = bytes.Clone(body)
		return nil, false
	}
	r.m.Ended = true
	if len(r.m.Past) == 0 && len(r.m.Now.Intercepted()) == 0 {
		return body, true
	}
	return r.m.by.Join(body), true
}

// CloseWhole is [Interceptor.Close] for JSON answers.
func (r *Interceptor) CloseWhole() []byte {
	r.m.Buffered, r.m.Ended = false, true
	return r.m.by.Join(r.m.Last)
}

// Failure returns an error event that ends the client's stream. Kinds are the format's own,
// api_error or timeout_error.
func (r *Interceptor) Failure(kind, message string) []byte { return r.m.by.Failure(kind, message) }
