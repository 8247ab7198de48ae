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
	"cmp"
	"encoding/base64"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	// maxCalls bounds the calls of one answer, as wire's decoders do.
	maxCalls = 4096
	// maxHeld bounds what waits for its turn, in bytes, and what is kept of an
	// answer.
	maxHeld = 32 << 20
	// blockWeight is about what a block takes beside its text, in bytes.
	blockWeight = 300
)

// flow puts what a reader finds into the order that a writer gets: one block is
// open at a time, and it is closed before the next one opens. Upstreams may
// interleave calls; what comes before its block's turn is held.
type flow struct {
	message
	to     answerWriter
	asked  *Answering
	from   wire.Format
	client wire.Format
	queue  []*block // blocks not closed yet, the first one is open
	calls  []*block // all calls
	parked []*block // calls that are held until they are complete
	held   int
	kept   int // by the writer, about, in bytes
	stops  Stops
	// counted tells that a usage of chat completions came: timings count less.
	counted bool
	ended   bool
}

// begin starts the answer, once. Readers call it as soon as they know its id.
func (f *flow) begin(id, model string) {
	if f.started || f.ended {
		return
	}
	f.started = true
	f.id, f.model = f.answerID(strings.Clone(id)), strings.Clone(model)
	if f.asked.Model != "" {
		f.model = f.asked.Model
	}
	f.to.start(&f.message)
}

// answerID returns the answer's id as the client's API would have it: the
// upstream's stands in it.
func (f *flow) answerID(id string) string {
	prefix := dialects[f.client].rules.idPrefix
	switch {
	case id == "":
		return f.invent(cmp.Or(prefix, "msg"), 0)
	case prefix == "" || strings.HasPrefix(id, prefix):
		return id
	}
	return prefix + "_" + id
}

// invent makes an id up: the same one for the same request and place.
func (f *flow) invent(prefix string, n int) string {
	h := fnv.New128a()
	_, _ = h.Write([]byte(f.asked.Seed))
	_, _ = h.Write([]byte(f.message.id))
	_, _ = h.Write(strconv.AppendInt(nil, int64(n), 10))
	return prefix + "_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// text takes more of a text, up to the first of the stop sequences that the
// upstream was not told of.
func (f *flow) text(s string) {
	if len(f.stops.Sequences) == 0 {
		f.more(blockText, s)
		return
	}
	f.more(blockText, string(escaped(f.stops.Feed(plain(s)))))
	f.cut()
}

// cut notes that a stop sequence was met: what follows was never asked for.
func (f *flow) cut() {
	if f.stops.Hit == "" || f.stop == stopSequence {
		return
	}
	f.stopped(stopSequence)
	f.sequence = string(escaped(f.stops.Hit))
}

// uncut passes on what was held back for it might have been the beginning of a
// stop sequence.
func (f *flow) uncut() {
	if rest := f.stops.Rest(); rest != "" {
		f.more(blockText, string(escaped(rest)))
	}
}

// thinking takes more of the model's reasoning.
func (f *flow) thinking(s string) { f.more(blockThinking, s) }

func (f *flow) more(kind blockKind, s string) {
	if s == "" || f.over() {
		return
	}
	b := f.tail()
	if b == nil || b.kind != kind || b.done {
		b = f.push(&block{kind: kind})
	}
	f.fill(b, s)
}

// sign gives the thinking that is being written its signature. Thinking that
// shows no text has a block all the same.
func (f *flow) sign(id, signature string, redacted bool) {
	if f.over() || signature == "" {
		return
	}
	b := f.tail()
	if b == nil || b.kind != blockThinking || b.done || redacted {
		b = f.push(&block{kind: blockThinking, id: id, signature: signature, redacted: redacted})
	}
	b.id, b.signature = id, signature
	b.done = true
	f.advance()
}

// endBlock tells that the text or thinking being written is complete.
func (f *flow) endBlock() {
	f.uncut()
	if b := f.tail(); b != nil && b.kind != blockCall {
		b.done = true
		f.advance()
	}
}

// call opens a call. With explicit, the reader tells when it ends.
func (f *flow) call(index int64, id, name, signature string, explicit bool) *block {
	f.uncut()
	if f.over() {
		return nil
	}
	if len(f.calls) == maxCalls {
		f.fail(&Failure{Message: "the upstream's answer has too many tool calls"})
		return nil
	}
	b := &block{kind: blockCall, index: index, name: name, signature: signature, explicit: explicit, place: len(f.calls)}
	f.identify(b, id)
	f.calls = append(f.calls, b)
	f.message.calls++
	if f.asked.BufferCalls {
		f.settleParked(false)
		f.parked = append(f.parked, b)
		return b
	}
	return f.push(b)
}

// identify gives a call the id that came with it. One that another call of the
// answer has got already would leave their results to be told apart by nothing.
func (f *flow) identify(b *block, id string) {
	if id == "" || slices.ContainsFunc(f.calls, func(o *block) bool { return o != b && o.id == id }) {
		return
	}
	b.id, b.givenID = id, true
}

// find returns the latest call of that index.
func (f *flow) find(index int64) *block {
	for i := len(f.calls) - 1; i >= 0; i-- {
		if f.calls[i].index == index {
			return f.calls[i]
		}
	}
	return nil
}

// last returns the latest call, nil if there is none.
func (f *flow) last() *block {
	if len(f.calls) == 0 {
		return nil
	}
	return f.calls[len(f.calls)-1]
}

// arguments takes more of a call's arguments. What comes behind their end is
// dropped once another block has begun.
func (f *flow) arguments(b *block, s string) {
	if s == "" || f.ended || b.done {
		return
	}
	b.args.read(s)
	f.fill(b, s)
}

// name completes a call whose id or name came late.
func (f *flow) name(b *block, id, name string) {
	if b.opened || f.ended {
		return
	}
	if !b.givenID {
		f.identify(b, strings.Clone(id))
	}
	if b.name == "" && name != "" {
		b.name = strings.Clone(name)
		f.advance()
	}
}

// own reports whether the upstream speaks the client's format.
func (f *flow) own() bool { return f.from == f.client }

// seal returns the string that carries a block of thinking through the client:
// the signature itself if it is of the client's own format. The text is what
// the client would not hand back otherwise.
func (f *flow) seal(b *block, text string) string {
	if f.own() {
		return b.signature
	}
	return Sealed{Format: f.from, ID: b.id, Text: text, Data: b.signature, Redacted: b.redacted}.Seal()
}

// callID returns the id that the client gets for a call.
func (f *flow) callID(b *block) string {
	if dialects[f.client].rules.signedCalls { // it has a place for the signature
		return b.id
	}
	return SealID(b.id, b.signature)
}

// endCall tells that a call is complete.
func (f *flow) endCall(b *block) {
	if f.ended || b.done {
		return
	}
	b.done = true
	f.settleParked(false)
	f.advance()
}

// stopped takes the reason why the answer ended: its blocks are complete.
func (f *flow) stopped(r stopReason) {
	f.uncut()
	if f.over() {
		return
	}
	f.complete()
	f.stop = r
}

// over tells that nothing more of the answer is wanted.
func (f *flow) over() bool {
	return f.ended || f.asked.Empty || f.stop == stopSequence && f.stops.Hit != ""
}

func (f *flow) complete() {
	f.settleParked(true)
	for _, b := range f.queue {
		b.done = true
	}
	f.advance()
}

// end finishes the answer.
func (f *flow) end() {
	if f.ended {
		return
	}
	f.begin("", "")
	f.uncut()
	f.complete()
	if f.asked.Empty {
		f.stop = stopLength
	}
	f.ended = true
	f.to.finish(&f.message)
}

// failIf ends the answer in the error that an event is, and reports whether it is one.
func (f *flow) failIf(event string, root gjson.Result) bool {
	if !isFailure(event, root) {
		return false
	}
	f.failWith(root)
	return true
}

// failWith ends the answer in the error that an object is or holds.
func (f *flow) failWith(root gjson.Result) { f.fail(readFailure(f.from, 0, root)) }

// fail ends the answer in an error.
func (f *flow) fail(e *Failure) {
	if f.ended {
		return
	}
	f.ended = true
	e.complete()
	f.to.fail(e)
}

// ping passes a sign of life on.
func (f *flow) ping() {
	if !f.ended {
		f.to.ping()
	}
}

func (f *flow) tail() *block {
	if len(f.queue) == 0 {
		return nil
	}
	return f.queue[len(f.queue)-1]
}

// push puts a block behind those that are open.
func (f *flow) push(b *block) *block {
	f.begin("", "")
	f.blocks = true
	if t := f.tail(); t != nil && t.kind != blockCall {
		t.done = true
	}
	f.queue = append(f.queue, b)
	f.keep(blockWeight + len(b.id) + len(b.name) + len(b.signature))
	f.advance()
	return b
}

// fill takes more of a block, which may have to wait.
func (f *flow) fill(b *block, s string) {
	b.filled = true
	if b.opened {
		f.write(b, s)
		return
	}
	if f.held += len(s); f.held > maxHeld {
		f.fail(&Failure{Message: "the upstream's answer is too long to be put in order"})
		return
	}
	b.held = append(b.held, s...)
	f.advance()
}

// settleParked lets calls that are complete take their turn: all of them at the
// end, before it those in front of the first that is not.
func (f *flow) settleParked(all bool) {
	for len(f.parked) > 0 {
		b := f.parked[0]
		if !b.done && !all && (b.explicit || !b.args.complete()) {
			return
		}
		b.done = true
		f.parked = f.parked[1:]
		f.push(b)
	}
}

// advance writes what can be written.
func (f *flow) advance() {
	for len(f.queue) > 0 && !f.ended {
		b := f.queue[0]
		if !b.opened {
			// A call's name may come in pieces of its own.
			if b.kind == blockCall && b.name == "" && !b.done {
				return
			}
			f.open(b)
		}
		if !b.done && len(f.queue) > 1 && !b.explicit && b.args.complete() {
			b.done = true
		}
		if !b.done {
			return
		}
		if b.kind == blockCall && !b.filled {
			f.to.delta(b, "{}")
		}
		if f.ended {
			return
		}
		f.to.close(b)
		f.queue[0] = nil
		f.queue = f.queue[1:]
	}
	if len(f.queue) == 0 {
		f.queue = nil
	}
}

func (f *flow) open(b *block) {
	b.opened = true
	if b.kind == blockCall && b.id == "" {
		b.id = f.invent("call", b.place)
	}
	f.to.open(b)
	if len(b.held) > 0 {
		f.held -= len(b.held)
		f.write(b, view(b.held))
		b.held = nil
	}
}

// write writes more of an open block. What writers keep of it, to say it again at
// the end or to say it whole, is bounded.
func (f *flow) write(b *block, s string) {
	before := len(b.content)
	f.to.delta(b, s)
	f.keep(len(b.content) - before)
}

func (f *flow) keep(n int) {
	if f.kept += n; f.kept > maxHeld {
		f.fail(&Failure{Message: "the upstream's answer is too long to be translated"})
	}
}
