// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

const (
	// maxBuffered is the limit on buffered content, and on the content that writers keep, in bytes.
	maxBuffered = 32 << 20
	// blockWeight is the approximate overhead of a block, in bytes.
	blockWeight = 300
)

// Flow puts a reader's events in the order of [AnswerWriter]: one block is open at a time and is
// closed before the next one opens. Upstreams may interleave calls; content of a block is buffered
// until its turn.
type Flow struct {
	Answer Answer
	to     AnswerWriter
	// Asked is the client's request.
	Asked *Answering
	// Client is the client's format.
	Client   wire.Format
	from     wire.Format
	queue    []*Block // blocks not closed yet, the first one may be open
	calls    []*Block // by call number, nil for a dropped call
	count    int      // number of calls
	named    string   // the answer's id derived from the upstream's
	ids      map[string]struct{}
	parked   []*Block // incomplete calls, for BufferCalls
	said     bool     // the last block is text
	buffered int
	kept     int // approximate size of the writer's copies, in bytes
	stops    Stops
	inline   inlineThinking
	service  wire.Service // reported by the upstream
	// Ended: the output is complete.
	Ended bool
}

// Take implements [wire.Sink].
func (f *Flow) Take(e *wire.Event) {
	switch e.Kind {
	case wire.EventBegin:
		f.begin(e.ID, e.Name)
	case wire.EventText:
		f.text(e.Text)
	case wire.EventRefusal:
		f.Answer.Refused = true
		f.text(e.Text)
	case wire.EventThinking:
		f.inline = inlineThinking{} // the server separates thinking itself
		f.more(ThinkingBlock, e.Text)
	case wire.EventSignature:
		if e.Signs == wire.SignsText {
			f.uncut()
		}
		f.sign(Block{Kind: ThinkingBlock, ID: e.ID, Signature: e.Data, Signs: e.Signs})
	case wire.EventImage:
		f.image(e.Name, e.Data)
	case wire.EventBlockEnd:
		f.endBlock()
	case wire.EventCall:
		f.calls = append(f.calls, f.call(e))
	case wire.EventCallName:
		if b := f.calls[e.Call]; b != nil {
			f.name(b, e.ID, e.Name)
		}
	case wire.EventArguments:
		if b := f.calls[e.Call]; b != nil {
			f.arguments(b, e.Text)
		}
	case wire.EventCallEnd:
		if b := f.calls[e.Call]; b != nil {
			f.endCall(b, e.Text)
		}
	case wire.EventUsage:
		f.Answer.Usage, f.Answer.Reasoning = e.Counts.Usage, e.Counts.Reasoning
		f.service = e.Counts.Service
	case wire.EventProgress:
		if !f.Answer.Started {
			f.Answer.Usage = e.Counts.Usage
		}
	case wire.EventStop:
		if e.Text != "" {
			f.Answer.Sequence = strings.Clone(e.Text)
		}
		f.stoppedBy(e.Name)
	case wire.EventBlocked:
		f.stopped(wire.StopFilter)
	case wire.EventEnd:
		f.end()
	case wire.EventError, wire.EventNoAnswer:
		f.fail(readFailure(f.from, 0, gjson.Parse(e.Data)))
	case wire.EventPing:
		f.ping()
	}
}

func (f *Flow) begin(id, model string) {
	if f.Answer.Started || f.Ended {
		return
	}
	f.Answer.Started = true
	f.named = f.answerID(strings.Clone(id))
	f.Answer.ID, f.Answer.Model = f.named, strings.Clone(model)
	// The upstream's id may not be unique.
	if f.Asked.UniqueID != "" {
		f.Answer.ID = cmp.Or(dialectOf(f.Client).rules.IDPrefix, "msg") + "_" + f.Asked.UniqueID
	}
	if f.Asked.Model != "" {
		f.Answer.Model = f.Asked.Model
	}
	f.to.Start(&f.Answer)
}

// answerID returns the answer's id in the form of the client's API. It contains the upstream's id.
func (f *Flow) answerID(id string) string {
	prefix := dialectOf(f.Client).rules.IDPrefix
	switch {
	case id == "":
		return f.Invent(cmp.Or(prefix, "msg"), 0)
	case prefix == "" || strings.HasPrefix(id, prefix):
		return id
	}
	return prefix + "_" + id
}

// Invent returns a generated id. It is the same for the same request and number.
func (f *Flow) Invent(prefix string, n int) string {
	h := fnv.New128a()
	if f.Asked.Seed != nil {
		_, _ = h.Write([]byte(f.Asked.Seed()))
	}
	_, _ = h.Write([]byte(f.named))
	_, _ = h.Write(strconv.AppendInt(nil, int64(n), 10))
	return prefix + "_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// text adds text, after inline thinking and stop sequences have been processed.
func (f *Flow) text(s string) {
	if f.inline.state != thinkOff {
		thinking, text := f.inline.feed(rawjson.Plain(s))
		f.more(ThinkingBlock, string(rawjson.Escaped(thinking)))
		s = string(rawjson.Escaped(text))
	}
	f.say(s)
}

// say adds text without inline thinking.
func (f *Flow) say(s string) {
	if len(f.stops.Sequences) == 0 {
		f.more(TextBlock, s)
		return
	}
	f.more(TextBlock, string(rawjson.Escaped(f.stops.Feed(rawjson.Plain(s)))))
	f.cut()
}

// cut ends the answer at a matched stop sequence. Later content is dropped.
func (f *Flow) cut() {
	if f.stops.Hit == "" || f.Answer.stop == wire.StopSequence {
		return
	}
	f.stopped(wire.StopSequence)
	f.Answer.Sequence = string(rawjson.Escaped(f.stops.Hit))
}

// uncut forwards the buffered text: a possible beginning of a tag or stop sequence.
func (f *Flow) uncut() {
	if f.inline.state != thinkOff {
		thinking, text := f.inline.rest()
		f.more(ThinkingBlock, string(rawjson.Escaped(thinking)))
		f.say(string(rawjson.Escaped(text)))
	}
	if rest := f.stops.Rest(); rest != "" {
		f.more(TextBlock, string(rawjson.Escaped(rest)))
	}
}

func (f *Flow) more(kind BlockKind, s string) {
	if s == "" || f.over() {
		return
	}
	b := f.tail()
	if b == nil || b.Kind != kind || b.Done {
		b = f.push(&Block{Kind: kind})
	}
	f.fill(b, s)
}

// image adds an image. For client APIs without images in answers, and for URLs and other media, it
// adds a text instead.
func (f *Flow) image(media, data string) {
	f.uncut()
	if !dialectOf(f.Client).rules.Images || !strings.HasPrefix(media, "image/") {
		f.more(TextBlock, string(rawjson.Escaped(imageNote(media, data))))
		return
	}
	if f.over() {
		return
	}
	b := f.push(&Block{Kind: ImageBlock, Name: strings.Clone(media)})
	f.fill(b, rawjson.View(rawjson.Escaped(data)))
	b.Done = true
	f.advance()
}

// sign sets the signature of the current thinking.
func (f *Flow) sign(as Block) {
	if f.over() || as.Signature == "" {
		return
	}
	as.ID, as.Signature = strings.Clone(as.ID), strings.Clone(as.Signature)
	b := f.tail()
	if b == nil || b.Kind != ThinkingBlock || b.Done || as.Signs == wire.SignsRedacted || as.Signs == wire.SignsText {
		// Hidden thinking and other signed parts get a block of their own.
		b = f.push(&as)
	}
	b.ID, b.Signature, b.Signs = as.ID, as.Signature, as.Signs
	b.Done = true
	f.advance()
}

func (f *Flow) endBlock() {
	f.uncut()
	if b := f.tail(); b != nil && b.Kind != CallBlock {
		b.Done = true
		f.advance()
	}
}

// call opens a call. Calls of tools defined by the upstream's API are dropped.
func (f *Flow) call(e *wire.Event) *Block {
	f.uncut()
	if f.over() || e.APIDefined {
		return nil
	}
	if f.count == wire.MaxCalls {
		f.fail(&Failure{Message: "the upstream's answer has too many tool calls"})
		return nil
	}
	id, signature := strings.Clone(e.ID), strings.Clone(e.Data)
	// A thinking block before the call carries the signature instead.
	if f.tooLong(id, signature) {
		f.sign(Block{Kind: ThinkingBlock, Signature: signature, Signs: wire.SignsCall})
		signature = ""
	}
	b := &Block{Kind: CallBlock, Name: strings.Clone(e.Name), Signature: signature, Place: f.count}
	b.Call = Call{loose: e.Loose, free: e.Free, initial: strings.Clone(e.Text)}
	f.identify(b, id)
	f.count++
	f.Answer.calls++
	if f.Asked.BufferCalls {
		f.queueParked(false)
		f.parked = append(f.parked, b)
		return b
	}
	return f.push(b)
}

// identify sets a call's id, unless another call of the answer has the same id.
func (f *Flow) identify(b *Block, id string) {
	if id == "" {
		return
	}
	// Results of calls with equal ids could not be matched. The call gets a generated id.
	if _, taken := f.ids[id]; taken {
		return
	}
	if f.ids == nil {
		f.ids = map[string]struct{}{}
	}
	f.ids[id] = struct{}{}
	b.ID = id
}

// name sets a late id or name of a call.
func (f *Flow) name(b *Block, id, name string) {
	// An open call was sent with its id and name.
	if b.opened || f.Ended {
		return
	}
	if b.ID == "" {
		f.identify(b, strings.Clone(id))
	}
	b.Name = strings.Clone(name)
	f.advance()
}

// arguments adds to a call's arguments.
func (f *Flow) arguments(b *Block, s string) {
	switch {
	case s == "" || f.Ended || b.Done:
	case b.Call.free:
		// wrap converts the complete text to JSON.
		f.buffer(b, s)
	default:
		b.Call.args.Read(s)
		f.fill(b, s)
	}
}

// endCall ends a call. The arguments are used if no fragment was received.
func (f *Flow) endCall(b *Block, arguments string) {
	if f.Ended || b.Done {
		return
	}
	if !b.Filled && len(b.buffered) == 0 {
		f.arguments(b, cmp.Or(arguments, b.Call.initial))
	}
	f.wrap(b)
	b.Done = true
	f.queueParked(false)
	f.advance()
}

// wrap converts a call's free text to arguments: the member "input" of an object.
func (f *Flow) wrap(b *Block) {
	if !b.Call.free || len(b.buffered) == 0 {
		return
	}
	text := b.buffered
	f.buffered, b.buffered, b.Call.free = f.buffered-len(text), nil, false
	f.arguments(b, rawjson.View(rawjson.Escaped(`{"input":"`+rawjson.View(text)+`"}`)))
}

// SameFormat reports whether the upstream and the client use the same format.
func (f *Flow) SameFormat() bool { return f.from == f.Client }

// Seal returns the string that carries a block's thinking through the client. Within one format it
// is the signature itself. The text is the part of the thinking that the client would not send
// back.
func (f *Flow) Seal(b *Block, text string) string {
	if f.SameFormat() {
		return b.Signature
	}
	return seal.Sealed{
		Format: f.from, ID: b.ID, Text: text, Data: b.Signature, Redacted: b.Signs == wire.SignsRedacted,
		Call: b.Signs == wire.SignsCall, Said: b.Signs == wire.SignsText, Late: b.Late,
	}.Seal()
}

// CallID returns the id that the client gets for a call.
func (f *Flow) CallID(b *Block) string {
	if dialectOf(f.Client).rules.SignedCalls { // the call has its own member for the signature
		return b.ID
	}
	return seal.ID(b.ID, b.Signature)
}

// maxGeneratedID is the maximum length of generated ids.
const maxGeneratedID = 40

// tooLong reports whether a call's id with its signature exceeds the client's limit.
func (f *Flow) tooLong(id, signature string) bool {
	rules := dialectOf(f.Client).rules
	return rules.MaxClientID > 0 && !rules.SignedCalls && signature != "" && max(len(id), maxGeneratedID)+
		len(seal.ID("", signature)) > rules.MaxClientID
}

// stopped sets the stop reason and completes all blocks.
func (f *Flow) stopped(r wire.StopReason) {
	f.uncut()
	if f.over() {
		return
	}
	f.complete()
	f.Answer.stop = r
}

// over reports whether further content is dropped.
func (f *Flow) over() bool {
	return f.Ended || f.Asked.Empty || f.Answer.stop == wire.StopSequence && f.stops.Hit != ""
}

// stoppedBy handles the upstream's stop reason.
func (f *Flow) stoppedBy(word string) {
	r := wire.StopReasonOf(word)
	// An aborted answer ends in an error, so that the client does not treat it as complete.
	if r == wire.StopFailed {
		f.uncut()
		f.fail(&Failure{Message: "the provider broke the answer off: " + strings.Clone(word)})
		return
	}
	if r == wire.StopOther {
		f.Answer.Word = strings.Clone(word)
	}
	f.stopped(r)
}

func (f *Flow) complete() {
	for _, b := range f.calls {
		if b != nil && !b.Done {
			f.wrap(b)
		}
	}
	f.queueParked(true)
	for _, b := range f.queue {
		b.Done = true
	}
	f.advance()
}

// end finishes the answer.
func (f *Flow) end() {
	if f.Ended {
		return
	}
	f.begin("", "")
	f.uncut()
	f.complete()
	// An answer to max_tokens of 0 ends by its length.
	if f.Asked.Empty {
		f.Answer.stop = wire.StopLength
	}
	f.Ended = true
	f.to.Finish(&f.Answer)
}

// fail ends the answer with an error.
func (f *Flow) fail(e *Failure) {
	if f.Ended {
		return
	}
	f.Ended = true
	e.complete()
	f.to.Fail(e)
}

// ping forwards a sign of life.
func (f *Flow) ping() {
	if !f.Ended {
		f.to.Ping()
	}
}

func (f *Flow) tail() *Block {
	if len(f.queue) == 0 {
		return nil
	}
	return f.queue[len(f.queue)-1]
}

// push appends a block to the queue.
func (f *Flow) push(b *Block) *Block {
	f.begin("", "")
	f.Answer.Written = true
	// A new block ends the current text or thinking. Calls may be interleaved.
	if t := f.tail(); t != nil && t.Kind != CallBlock {
		t.Done = true
	}
	b.Late, f.said = f.said, b.Kind == TextBlock
	f.queue = append(f.queue, b)
	f.keep(blockWeight + len(b.ID) + len(b.Name) + len(b.Signature))
	f.advance()
	return b
}

// fill adds content to a block, directly or to its buffer.
func (f *Flow) fill(b *Block, s string) {
	b.Filled = true
	if b.opened {
		f.write(b, s)
		return
	}
	f.buffer(b, s)
	f.advance()
}

// buffer buffers content until the block's turn.
func (f *Flow) buffer(b *Block, s string) {
	if f.buffered += len(s); f.buffered > maxBuffered {
		f.fail(&Failure{Message: "the upstream's answer is too long to be put in order"})
		return
	}
	b.buffered = append(b.buffered, s...)
}

// queueParked moves complete calls from parked to the queue.
func (f *Flow) queueParked(all bool) {
	for len(f.parked) > 0 {
		b := f.parked[0]
		// Calls go out in order, so an incomplete one stops those after it.
		if !b.Done && !all && (!b.Call.loose || !b.Call.args.Complete()) {
			return
		}
		b.Done = true
		f.parked = f.parked[1:]
		f.push(b)
	}
}

// advance writes the blocks at the front of the queue as far as possible.
func (f *Flow) advance() {
	for len(f.queue) > 0 && !f.Ended {
		b := f.queue[0]
		if !b.opened {
			// A call's name may arrive in pieces before the arguments. A call without a name is
			// dropped.
			if b.Kind == CallBlock && !b.Done && (b.Name == "" || b.Call.loose && !b.Filled) {
				return
			}
			if b.Kind == CallBlock && b.Name == "" {
				f.buffered -= len(b.buffered)
				f.Answer.calls--
				f.queue = f.queue[1:]
				continue
			}
			f.open(b)
		}
		// No event ends a loose call: it is complete when its arguments are and another block
		// follows.
		if !b.Done && len(f.queue) > 1 && b.Call.loose && b.Call.args.Complete() {
			b.Done = true
		}
		if !b.Done {
			return
		}
		// A call without arguments gets an empty object.
		if b.Kind == CallBlock && !b.Filled {
			f.to.Delta(b, "{}")
		}
		if f.Ended {
			return
		}
		f.to.Close(b)
		f.queue[0] = nil
		f.queue = f.queue[1:]
	}
	if len(f.queue) == 0 {
		f.queue = nil
	}
}

func (f *Flow) open(b *Block) {
	b.opened = true
	if b.Kind == CallBlock && b.ID == "" {
		f.identify(b, f.Invent("call", b.Place))
	}
	f.to.Open(b)
	if len(b.buffered) > 0 && !b.Call.free {
		f.buffered -= len(b.buffered)
		f.write(b, rawjson.View(b.buffered))
		b.buffered = nil
	}
}

func (f *Flow) write(b *Block, s string) {
	before := len(b.Content)
	f.to.Delta(b, s)
	// Some writers keep a copy for a later event; its size is limited.
	f.keep(len(b.Content) - before)
}

func (f *Flow) keep(n int) {
	if f.kept += n; f.kept > maxBuffered {
		f.fail(&Failure{Message: "the upstream's answer is too long to be translated"})
	}
}
