// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package hidden makes one message for the client of several answers of an upstream, and keeps
// calls from it that are answered on the way. What a format does for that is its [Codec].
package hidden

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/decode"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// largestKept bounds the memory that is kept to be used again, in bytes.
const largestKept = 1 << 20

// BlockSize is about what a block takes beside its content, in bytes.
const BlockSize = 300

// Interceptor makes one message for the client of several answers of an upstream, and
// keeps calls from the client that are answered on the way. What need not be
// changed passes in the upstream's own bytes, event by event. An Interceptor belongs
// to one goroutine.
type Interceptor struct {
	m      Message
	by     Interception
	frames framing.Framer
	emit   func(framing.Event)
	same   decode.Template
	beside int  // what events of the template take beside their text, see [Message.Keep]
	broken bool // an event is too long to be read: all passes
}

// Message is the message that a client gets for several answers of an upstream,
// as far as it has come.
type Message struct {
	Options Options
	framing framing.Framing
	Past    []Iteration // the answers before the one that comes now
	Now     Iteration
	out     []byte
	passed  bool       // the last event passed as it came
	Held    bool       // the iteration has ended, and its end was kept back
	Ended   bool       // the message has ended
	Full    bool       // the answer is too long to be remembered: nothing more is hidden
	size    int        // bytes remembered
	added   wire.Added // by the event that is read
	Begun   int        // blocks, items or calls of the iteration that were told apart
	Visible int        // blocks or calls that the client has
	ID      string     // of the message
	Last    []byte     // the event that was kept back

	known   *Marks     // once a call was watched
	watched []*scanner // of entries that are not complete
	fresh   *Entry     // the client has nothing of it as long as no other event comes
	freshen func()     // shows it
	keeper  *Entry     // the last event was kept by it
	gone    int64      // bytes that the client has, in front of out
	ready   int        // bytes of out that it has since
	began   int64      // where what the last event put out begins
	failed  bool       // the answer ends in an error: a mark has come behind the beginning of its call
	failure int64      // where it ends
}

// Interception is what a format makes of one message for the client, and what it
// remembers of it.
type Interception interface {
	// Event reads one event of a stream and puts out what the client gets.
	Event(f Event)
	// Flush ends the client's message.
	Flush()
	// Index returns the number of the entry that an event is of alone, as [Entry] has it.
	Index(f Event) (index int64, ok bool)
	// Spill puts out what is kept back to be judged, and forgets the rest.
	Spill()
	// Next forgets the answer that came last.
	Next()
	// Document reads an answer in one piece, and reports whether it is one.
	Document(body []byte) bool
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
	r := &Interceptor{m: Message{Options: o, framing: f.Traits().Streams()}}
	r.frames = r.m.framing.Framer()
	if i := codec(f); i != nil {
		r.by = i.Intercept(&r.m)
	}
	if r.m.Options.Watch == nil {
		r.m.Options.Watch = func(string) bool { return false }
	}
	r.emit = r.frame
	return r
}

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
		r.fill()
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
	r.m.out = append(r.m.out[:max(int(r.m.failure-r.m.gone), 0)], r.by.Failure("overloaded_error", "The model has copied a note of llm_cache in place of the text that it stands for. Try again.")...)
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

// Keep notes that so many more bytes are remembered of the answer, and tells
// whether they may be.
func (r *Message) Keep(n int) bool {
	if r.Full {
		return false
	}
	r.size += n
	return true
}

// fill gives up remembering. What was kept back to be judged is the client's, and so
// is all that follows; what is hidden already stays so, and nobody asks the upstream
// to go on with an answer that cannot be repeated.
func (r *Interceptor) fill() {
	if r.m.Full {
		return
	}
	r.m.Full, r.m.Now.Opaque, r.same.To = true, true, nil
	r.by.Spill()
	r.m.watched = nil
	r.m.Now.Parts = nil
}

// Shift is what the client's numbers of blocks are beyond the upstream's.
func (r *Message) Shift() int { return r.Visible - r.Begun }

// frame reads one event. What is no JSON object passes.
func (r *Interceptor) frame(f framing.Event) {
	switch {
	case r.m.failed:
		return
	case len(f.Raw) == 1 && f.Raw[0] == '\n': // the rest of a line end
		if r.m.passed {
			r.m.Pass(f)
		} else {
			r.m.rest(f)
		}
		return
	}
	r.m.passed, r.m.keeper = false, nil
	if r.m.size > wire.MaxAnswer || r.m.Begun > wire.MaxCalls {
		r.fill()
	}
	data := bytes.TrimSpace(f.Data)
	if len(data) == 0 {
		r.m.loosen()
		r.m.Pass(f)
		return
	}
	f.Data = data
	if quoted, ok := r.same.Quoted(data); ok {
		r.m.Keep(r.beside + len(quoted))
		r.same.To.WriteString(quoted[1 : len(quoted)-1])
		r.m.Pass(f)
		return
	}
	of := Event{Event: f}
	if data[0] == '{' {
		text := rawjson.View(data)
		if !rawjson.Valid(text) {
			r.m.loosen()
			r.m.Pass(f)
			return
		}
		of.Root = gjson.Parse(text)
	}
	if r.m.fresh != nil {
		if index, ok := r.by.Index(of); !ok || index != r.m.fresh.Index {
			r.m.loosen()
		}
	}
	r.m.began = r.m.end()
	r.read(of)
}

// loosen shows the client the entry that it has nothing of, because something else comes.
func (r *Message) loosen() {
	if r.fresh != nil {
		r.freshen()
	}
}

// read has an event read. If all that it did was to add to a text, and it passed, others like
// it need not be.
func (r *Interceptor) read(f Event) {
	m := &r.m
	size, begun, visible, parts := m.size, m.Begun, m.Visible, len(m.Now.Parts)
	m.added = wire.Added{}
	r.by.Event(f)
	if !m.passed || m.Now.StopReason != "" || m.Begun != begun || m.Visible != visible || len(m.Now.Parts) != parts {
		m.added = wire.Added{}
	}
	r.same.Learn(f.Data, m.added)
	r.beside = m.size - size - len(m.added.Text) - len(`""`)
	m.added = wire.Added{}
}

// Write adds a string of an event to a text, which is the inside of a JSON string.
func (r *Message) Write(to *strings.Builder, s gjson.Result) {
	text := rawjson.Inner(s)
	if text == "" {
		return
	}
	to.WriteString(text)
	r.added.Texts++
	r.added.To, r.added.Text = to, text
}

// Pass puts an event out as it came.
func (r *Message) Pass(f framing.Event) { r.out, r.passed = append(r.out, f.Raw...), true }

// Put puts an event out.
func (r *Message) Put(name string, data []byte) {
	r.out = r.framing.Append(r.out, name, data)
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

// Iterations returns all answers so far.
func (r *Message) Iterations() []Iteration {
	return append(r.Past[:len(r.Past):len(r.Past)], r.Now)
}

// Visibles returns the blocks of all answers that the client sees, with commas between.
func (r *Message) Visibles() (elements []byte) {
	for _, it := range r.Iterations() {
		for i := range it.Parts {
			if !it.Parts[i].Hidden {
				elements = rawjson.AppendElement(elements, it.Parts[i].Raw)
			}
		}
	}
	return elements
}

// Next makes ready for the answer to a continuation.
func (r *Interceptor) Next() {
	r.m.Past = append(r.m.Past, r.m.Now)
	r.m.Now = Iteration{Opaque: r.m.Full}
	r.frames, r.same.To = r.m.framing.Framer(), nil
	r.by.Next()
	r.m.watched, r.m.fresh, r.m.freshen, r.m.keeper = nil, nil, nil, nil
	r.m.Begun = 0
	r.m.Held = false
}

// Close returns what ends the client's message where its end was kept back.
func (r *Interceptor) Close() []byte {
	r.m.begin()
	if r.m.Held && !r.m.Ended {
		r.m.Held = false
		r.by.Flush()
	}
	return r.m.give(true)
}

// Whole takes an answer in one piece and returns what the client is to get. It
// reports false where that is not known yet, because the answer [Interceptor.Asks].
func (r *Interceptor) Whole(body []byte) ([]byte, bool) {
	text := rawjson.View(body)
	if !rawjson.Valid(text) || !r.by.Document(body) {
		return body, true
	}
	if r.m.Held = r.m.Now.Asks() && r.m.Now.Complete(); r.m.Held {
		r.m.Last = bytes.Clone(body)
		return nil, false
	}
	r.m.Ended = true
	if len(r.m.Past) == 0 && len(r.m.Now.Hidden()) == 0 {
		return body, true
	}
	return r.by.Join(body), true
}

// CloseWhole is [Interceptor.Close] for answers in one piece.
func (r *Interceptor) CloseWhole() []byte {
	r.m.Held, r.m.Ended = false, true
	return r.by.Join(r.m.Last)
}

// Failure returns the event by which the client's stream ends in an error. Kinds
// are the format's own, or api_error or timeout_error.
func (r *Interceptor) Failure(kind, message string) []byte { return r.by.Failure(kind, message) }

// Usage is what the client is told: the sum over all iterations, unless it is to
// be told of the last.
func (r *Message) Usage() wire.Usage {
	sum := r.Now.Usage
	for _, it := range r.Past {
		if r.Options.LastUsage {
			sum.Output += it.Usage.Output
		} else {
			sum = sum.Add(it.Usage)
		}
	}
	return sum
}

// TotalUsage returns what the client is told of the usage of all iterations, with each
// of them on record behind the sum unless it is to be told of the last. counts appends
// the members of one usage, each is what stands before those of an iteration.
func (r *Message) TotalUsage(each string, counts func(dst []byte, u wire.Usage, reasoning int64) []byte) []byte {
	its, reasoning := r.Iterations(), int64(0)
	for _, it := range its {
		reasoning += it.Reasoning
	}
	out := counts([]byte{'{'}, r.Usage(), reasoning)
	if r.Options.LastUsage {
		return append(out, '}')
	}
	out = append(out, `,"iterations":[`...)
	for i, it := range its {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(counts(append(append(out, '{'), each...), it.Usage, it.Reasoning), '}')
	}
	return append(out, "]}"...)
}
