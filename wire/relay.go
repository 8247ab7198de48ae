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

package wire

import (
	"bytes"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire/sse"
)

// largestKept bounds the memory that is kept to be used again, in bytes.
const largestKept = 1 << 20

// blockSize is about what a block takes beside its content, in bytes.
const blockSize = 300

// Relay makes one message for the client of several answers of an upstream, and
// keeps calls from the client that are answered on the way. What need not be
// changed passes in the upstream's own bytes, event by event. A Relay belongs
// to one goroutine.
type Relay struct {
	m      clientMessage
	by     interception
	frames sse.Framer
	emit   func(sse.Frame)
	broken bool // an event is too long to be read: all passes
}

// clientMessage is the message that a client gets for several answers of an upstream,
// as far as it has come.
type clientMessage struct {
	o       RelayOptions
	past    []Iteration // the answers before the one that comes now
	now     Iteration
	out     []byte
	passed  bool   // the last event passed as it came
	held    bool   // the iteration has ended, and its end was kept back
	ended   bool   // the message has ended
	full    bool   // the answer is too long to be remembered: nothing more is hidden
	size    int    // bytes remembered
	begun   int    // blocks, items or calls of the iteration that were told apart
	visible int    // blocks or calls that the client has
	id      string // of the message
	end     []byte // the event that was kept back
}

// interception is what a format makes of one message for the client, and what it
// remembers of it.
type interception interface {
	// frame reads one event of a stream and puts out what the client gets.
	frame(f frameOf)
	// flush ends the client's message.
	flush()
	// spill puts out what is kept back to be judged, and forgets the rest.
	spill()
	// next forgets the answer that came last.
	next()
	// document reads an answer in one piece, and reports whether it is one.
	document(body []byte) bool
	// join makes one answer of all iterations; the last document is last.
	join(last []byte) []byte
	// failure makes the event that tells a client of a failed stream.
	failure(kind, message string) []byte
}

// RelayOptions say which calls a [Relay] keeps.
type RelayOptions struct {
	// Hide tells whether calls of a tool are answered on the way.
	Hide func(name string) bool
	// Hold tells whether calls of a tool are kept back until they are
	// complete, to be judged. Default: none.
	Hold func(name string) bool
	// Judge tells whether a complete call that was kept back is to be answered
	// on the way after all.
	Judge func(name, arguments string) bool
	// LastUsage tells the client the usage of the last answer, with the output
	// of all: how long its context is now. Default: the sum of all answers, each
	// on record.
	LastUsage bool
}

type frameOf struct {
	sse.Frame
	root gjson.Result
}

// NewRelay returns a relay of answers to a request that [View.HidesCalls].
func NewRelay(f Format, o RelayOptions) *Relay {
	r := &Relay{m: clientMessage{o: o}}
	if i := interceptor(f); i != nil {
		r.by = i.Intercept(&r.m)
	}
	if r.m.o.Hold == nil {
		r.m.o.Hold = func(string) bool { return false }
	}
	r.emit = r.frame
	return r
}

// Feed takes the next bytes of a stream and returns what the client is to get
// of them, good until the next call.
func (r *Relay) Feed(p []byte) []byte {
	if cap(r.m.out) > largestKept { // after a long event
		r.m.out = nil
	}
	r.m.out = r.m.out[:0]
	if r.broken {
		return p
	}
	r.frames.Feed(p, r.emit)
	if len(r.frames.Rest()) > maxAnswer {
		r.fill()
		r.broken = true
		r.m.out = append(r.m.out, r.frames.Rest()...)
		r.frames = sse.Framer{}
	}
	return r.m.out
}

// End takes the end of a stream and returns what the client is to get of an event
// that it broke off in: some servers leave out the blank line behind their last one.
func (r *Relay) End() []byte {
	r.m.out = r.m.out[:0]
	r.frames.End(r.emit)
	if r.m.held && len(r.m.out) > 0 && !bytes.HasSuffix(r.m.out, []byte("\n\n")) {
		r.m.out = append(r.m.out, "\n\n"...) // more will follow
	}
	return r.m.out
}

// Rest returns what the client has not got of a stream that was cut: the beginning
// of an event.
func (r *Relay) Rest() []byte {
	if r.m.held || len(r.m.past) > 0 {
		return nil
	}
	return r.frames.Rest()
}

// keep notes that so many more bytes are remembered of the answer, and tells
// whether they may be.
func (r *clientMessage) keep(n int) bool {
	if r.full {
		return false
	}
	r.size += n
	return true
}

// fill gives up remembering. What was kept back to be judged is the client's, and so
// is all that follows; what is hidden already stays so, and nobody asks the upstream
// to go on with an answer that cannot be repeated.
func (r *Relay) fill() {
	if r.m.full {
		return
	}
	r.m.full, r.m.now.Opaque = true, true
	r.by.spill()
	r.m.now.Parts = nil
}

// shift is what the client's numbers of blocks are beyond the upstream's.
func (r *clientMessage) shift() int { return r.visible - r.begun }

// frame reads one event. What is no JSON object passes.
func (r *Relay) frame(f sse.Frame) {
	if len(f.Raw) == 1 && f.Raw[0] == '\n' { // the rest of a line end
		if r.m.passed {
			r.m.pass(f)
		}
		return
	}
	r.m.passed = false
	if r.m.size > maxAnswer || r.m.begun > maxAnswerCalls {
		r.fill()
	}
	data := bytes.TrimSpace(f.Data)
	if len(data) == 0 {
		r.m.pass(f)
		return
	}
	f.Data = data
	of := frameOf{Frame: f}
	if data[0] == '{' {
		text := answerText(data)
		if !Valid(text) {
			r.m.pass(f)
			return
		}
		of.root = gjson.Parse(text)
	}
	r.by.frame(of)
}

// pass puts an event out as it came.
func (r *clientMessage) pass(f sse.Frame) { r.out, r.passed = append(r.out, f.Raw...), true }

// put puts an event out.
func (r *clientMessage) put(name string, data []byte) {
	if name != "" {
		r.out = append(append(append(r.out, "event: "...), name...), '\n')
	}
	r.out = append(append(append(r.out, "data: "...), data...), "\n\n"...)
}

// Asks tells whether the answer has ended in nothing but calls that are
// answered on the way: the upstream is to be asked to go on, by [Relay.Next],
// or the message to be ended by [Relay.Close].
func (r *Relay) Asks() bool { return r.m.held }

// Ended tells whether the client's message has come to its proper end.
func (r *Relay) Ended() bool { return r.m.ended }

// Plain tells whether the client's message is what the upstream said, and nothing else.
func (r *Relay) Plain() bool { return len(r.m.past) == 0 && !r.m.held && len(r.m.now.Hidden()) == 0 }

// Iteration returns the answer that came last.
func (r *Relay) Iteration() *Iteration { return &r.m.now }

// Iterations returns all answers so far.
func (r *Relay) Iterations() []Iteration { return r.m.Iterations() }

// Iterations returns all answers so far.
func (r *clientMessage) Iterations() []Iteration {
	return append(r.past[:len(r.past):len(r.past)], r.now)
}

// Next makes ready for the answer to a continuation.
func (r *Relay) Next() {
	r.m.past = append(r.m.past, r.m.now)
	r.m.now = Iteration{Opaque: r.m.full}
	r.frames = sse.Framer{}
	r.by.next()
	r.m.begun = 0
	r.m.held = false
}

// Close returns what ends the client's message where its end was kept back.
func (r *Relay) Close() []byte {
	r.m.out = r.m.out[:0]
	if r.m.held && !r.m.ended {
		r.m.held = false
		r.by.flush()
	}
	return r.m.out
}

// Whole takes an answer in one piece and returns what the client is to get. It
// reports false where that is not known yet, because the answer [Relay.Asks].
func (r *Relay) Whole(body []byte) ([]byte, bool) {
	text := answerText(body)
	if !Valid(text) || !r.by.document(body) {
		return body, true
	}
	if r.m.held = r.m.now.asks() && r.m.now.Complete(); r.m.held {
		r.m.end = bytes.Clone(body)
		return nil, false
	}
	r.m.ended = true
	if len(r.m.past) == 0 && len(r.m.now.Hidden()) == 0 {
		return body, true
	}
	return r.by.join(body), true
}

// CloseWhole is [Relay.Close] for answers in one piece.
func (r *Relay) CloseWhole() []byte {
	r.m.held, r.m.ended = false, true
	return r.by.join(r.m.end)
}

// Failure returns the event by which the client's stream ends in an error. Kinds
// are the format's own, or api_error or timeout_error.
func (r *Relay) Failure(kind, message string) []byte { return r.by.failure(kind, message) }

// usage is what the client is told: the sum over all iterations, unless it is to
// be told of the last.
func (r *clientMessage) usage() Usage {
	sum := r.now.Usage
	for _, it := range r.past {
		if r.o.LastUsage {
			sum.Output += it.Usage.Output
		} else {
			sum = sum.Add(it.Usage)
		}
	}
	return sum
}

// object copies an object with some members replaced. A replacement of nil
// leaves the member out; those that the object lacks are put at its end.
func object(root gjson.Result, order []string, with map[string][]byte) []byte {
	out := make([]byte, 0, len(root.Raw)+256)
	out = append(out, '{')
	done := make(map[string]bool, len(with))
	put := func(key, value []byte) {
		if value == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	root.ForEach(func(k, v gjson.Result) bool {
		value, ok := with[k.Str]
		if !ok {
			value = []byte(v.Raw)
		}
		done[k.Str] = true
		put([]byte(k.Raw), value)
		return true
	})
	for _, k := range order {
		if !done[k] {
			put(strconv.AppendQuote(nil, k), with[k])
		}
	}
	return append(out, '}')
}

// inner returns what stands between the quotes of a JSON string.
func inner(v gjson.Result) string {
	if v.Type != gjson.String || len(v.Raw) < 2 {
		return ""
	}
	return v.Raw[1 : len(v.Raw)-1]
}

// quoteText encodes a text as a JSON string.
func quoteText(s string) []byte { return gjson.AppendJSONString(nil, s) }

func appendCount(dst []byte, key string, n int64) []byte {
	dst = append(append(append(dst, '"'), key...), `":`...)
	return append(strconv.AppendInt(dst, n, 10), ',')
}

func appendElement(dst, element []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, element...)
}
