// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

import (
	"bytes"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// BlockSize is about what a block takes beside its content, in bytes.
const BlockSize = 300

// Message is the message that a client gets for several answers of an upstream,
// as far as it has come. It takes the events of those answers.
type Message struct {
	Options Options
	framing framing.Framing
	by      Interception
	to      wire.Sink   // receives the events of the message; nil without a follower
	Past    []Iteration // the answers before the one that comes now
	Now     Iteration
	entries []*Entry     // of Now, in the order in which they began
	calls   []*Entry     // by the reader's numbers
	told    int          // number of calls that to has received
	counts  *wire.Counts // the usage of Now so far
	event   wire.Event
	out     []byte
	passed  bool   // the last event passed as it came
	Held    bool   // the iteration has ended, and its end was kept back
	Ended   bool   // the message has ended
	Full    bool   // the answer is too long to be remembered: nothing more is hidden
	size    int    // bytes remembered
	Begun   int    // entries of the iteration
	Visible int    // entries that the client has
	ID      string // of the message
	Last    []byte // the event that was kept back
	Repeats func() // called after each event that passes unread, since it is like the one before

	known   *Marks     // once a call was watched
	watched []*scanner // of entries that are not complete
	fresh   *Entry     // the client has nothing of it as long as no other event comes
	keeper  *Entry     // the last event was kept by it
	gone    int64      // bytes that the client has, in front of out
	ready   int        // bytes of out that it has since
	began   int64      // where what the last event put out begins
	failed  bool       // the answer ends in an error: a mark has come behind the beginning of its call
	failure int64      // where it ends

	Said
}

// Said is the content of the event that is being read.
type Said struct {
	// Pieces are the parts of the event that belong to calls or entries.
	Pieces []Piece
	// Says reports whether the event has output of the model beside the Pieces.
	Says bool
	// Names reports whether the event names the answer by its ID.
	Names bool
	// Stopped reports whether the event gives the reason why the answer ended.
	Stopped bool

	counted  bool
	word     wire.EventKind // EventStop or EventBlocked
	complete bool
	over     bool // the answer is complete
	none     bool // an error, or no answer
	closed   []*Entry
}

// Piece is the part of an event that belongs to one entry.
type Piece struct {
	// Entry is nil beyond the bound on entries.
	Entry *Entry
	// Raw is the fragment of a call, in formats without entries.
	Raw string
	// Text is added to the arguments of a watched call.
	Text string
}

// Take implements [wire.Sink].
func (m *Message) Take(e *wire.Event) {
	switch e.Kind {
	case wire.EventBegin, wire.EventPing:
		m.Names = m.Names || e.ID != ""
		if e.Kind == wire.EventBegin && m.ID == "" {
			m.ID = strings.Clone(e.ID)
		}
	case wire.EventOpen:
		m.open(e)
	case wire.EventClose:
		m.close(e)
	case wire.EventText, wire.EventThinking, wire.EventRefusal, wire.EventSignature, wire.EventImage:
		m.say(e)
	case wire.EventCall:
		m.call(e)
		return
	case wire.EventCallName, wire.EventArguments, wire.EventCallEnd:
		m.more(m.calls[e.Call], e)
		return
	case wire.EventPiece:
		m.addPiece(e)
		return
	case wire.EventOpaque:
		m.Now.Opaque = true
		return
	case wire.EventUsage:
		m.counts, m.counted = e.Counts, true
		m.Now.Usage, m.Now.Reasoning = e.Counts.Usage, e.Counts.Reasoning
		return
	case wire.EventStop, wire.EventBlocked:
		if m.none { // an error ends nothing properly
			break
		}
		m.Stopped, m.word = true, e.Kind
		m.Now.StopReason = strings.Clone(e.Name)
		return
	case wire.EventComplete:
		m.complete = true
		return
	case wire.EventEnd:
		m.over = true
		return
	case wire.EventError, wire.EventNoAnswer:
		m.none = true
	}
	if m.to != nil {
		m.to.Take(e)
	}
}

// entry returns the entry under a number of the upstream's, nil if there is none.
func (m *Message) entry(index int64) *Entry {
	if index < 0 {
		return nil
	}
	for i := len(m.entries) - 1; i >= 0; i-- {
		if m.entries[i].Index == index {
			return m.entries[i]
		}
	}
	return nil
}

// open begins an entry, nil if there is no room to remember it.
func (m *Message) open(e *wire.Event) *Entry {
	m.settleText()
	if !m.Keep(BlockSize + len(e.Data)) {
		return nil
	}
	m.Begun++
	b := &Entry{Index: e.Index, Client: -1, Raw: strings.Clone(e.Data), told: -1}
	m.entries = append(m.entries, b)
	m.piece(b)
	return b
}

// close notes that an entry is complete. One that the upstream repeats whole may begin with that.
func (m *Message) close(e *wire.Event) {
	b := m.entry(e.Index)
	if b == nil && e.Data != "" {
		b = m.open(e)
	}
	if b == nil {
		return
	}
	if b.Whole = b.Raw; e.Data != b.Raw {
		b.Whole = strings.Clone(e.Data)
	}
	m.closed = append(m.closed, b)
}

// say takes what the model says. Outside of entries, texts of one kind that follow each
// other are one.
func (m *Message) say(e *wire.Event) {
	b := m.entry(e.Index)
	switch kind := kindOf(e.Kind); {
	case e.Index >= 0:
	case e.Kind == wire.EventSignature, e.Kind == wire.EventImage, e.Kind == wire.EventRefusal:
		m.Says = true
	case e.Text != "":
		m.Says = true
		if b = m.text(); (b == nil || b.Kind != kind) && m.Keep(BlockSize) {
			m.settleText()
			b = &Entry{Index: -1, Client: -1, Kind: kind, Name: strings.Clone(e.Name), loose: true}
			m.entries = append(m.entries, b)
		}
	}
	if b == nil {
		return
	}
	m.gather(&b.Text, e.Text)
	if e.Kind == wire.EventSignature {
		m.gather(&b.Signature, e.Data)
	}
}

func kindOf(e wire.EventKind) wire.Kind {
	if e == wire.EventThinking {
		return wire.KindThinking
	}
	return wire.KindText
}

// text returns the text outside of entries that the last event may have added to.
func (m *Message) text() *Entry {
	if n := len(m.entries); n > 0 && m.entries[n-1].loose && !m.entries[n-1].closed {
		return m.entries[n-1]
	}
	return nil
}

// settleText ends a text that stands outside of entries.
func (m *Message) settleText() {
	if b := m.text(); b != nil {
		m.finish(b)
	}
}

func (m *Message) gather(to *strings.Builder, text string) {
	if text != "" && m.Keep(len(text)) {
		to.WriteString(text)
	}
}

// piece returns the part of the event that belongs to an entry.
func (m *Message) piece(b *Entry) *Piece {
	if n := len(m.Pieces); n > 0 {
		if p := &m.Pieces[n-1]; p.Entry == b {
			return p
		}
	}
	m.Pieces = append(m.Pieces, Piece{Entry: b})
	return &m.Pieces[len(m.Pieces)-1]
}

// add notes a text that the event adds to the arguments of a call. Only watched calls need it.
func (m *Message) add(b *Entry, inside string) {
	if p := m.piece(b); b.watch != nil {
		p.Text += rawjson.Plain(inside)
	}
}

// addPiece takes an [wire.EventPiece].
func (m *Message) addPiece(e *wire.Event) {
	data, b := e.Data, m.entry(e.Index)
	switch {
	case e.Index < 0: // the fragment of a call
		if b = nil; e.Call >= 0 {
			b = m.calls[e.Call]
		}
		if n := len(m.Pieces); b != nil && n > 0 && m.Pieces[n-1] == (Piece{Entry: b}) { // that begins with it
			m.Pieces = m.Pieces[:n-1]
		}
		m.Pieces = append(m.Pieces, Piece{Entry: b, Raw: e.Data})
		data = e.Text
	case b != nil:
		m.gather(&b.Arguments, e.Text)
		m.add(b, e.Text)
	}
	if b != nil && data != "" && m.Keep(len(data)) {
		b.Pieces = append(b.Pieces, strings.Clone(data))
	}
}

// call begins a call: whether it is answered on the way, or watched, goes by its name. What
// cannot be remembered is neither.
func (m *Message) call(e *wire.Event) {
	b := m.entry(e.Index)
	if b == nil && !e.Apart {
		b = m.open(&wire.Event{Index: e.Index})
	}
	if b == nil {
		b = &Entry{Index: e.Index, Client: -1, beyond: true, told: -1}
	}
	b.Kind, b.ID, b.Name, b.Own, b.Free = wire.KindToolUse, strings.Clone(e.ID), strings.Clone(e.Name), e.Own, e.Free
	m.calls = append(m.calls, b)
	if !b.beyond {
		b.Hidden = !e.Own && !e.Free && m.Options.Hide(b.Name)
		if !b.Hidden && m.Options.Watch(b.Name) {
			m.watch(b)
		}
	}
	m.add(b, strings.TrimPrefix(e.Text, "{}")) // arguments may come by events of their own
	b.initial = strings.Clone(e.Text)
	if !b.Hidden && !b.held {
		m.tellCall(b)
	}
}

// more takes the events of a call behind its beginning.
func (m *Message) more(b *Entry, e *wire.Event) {
	switch e.Kind {
	case wire.EventCallName:
		b.ID, b.Name = strings.Clone(e.ID), strings.Clone(e.Name)
	case wire.EventArguments:
		m.gather(&b.Arguments, e.Text)
		m.add(b, e.Text)
	case wire.EventCallEnd:
		if e.Text != "" {
			b.initial = strings.Clone(e.Text)
		}
	}
	if m.to != nil && b.told >= 0 {
		call := e.Call
		e.Call = b.told
		m.to.Take(e)
		e.Call = call
	}
}

// tellCall tells of a call that the client gets, as far as it has come.
func (m *Message) tellCall(b *Entry) {
	if m.to == nil {
		return
	}
	b.told = m.told
	m.told++
	m.tell(wire.Event{Kind: wire.EventCall, Call: b.told, ID: b.ID, Name: b.Name, Own: b.Own, Free: b.Free, Text: b.initial})
	if b.Arguments.Len() > 0 {
		m.tell(wire.Event{Kind: wire.EventArguments, Call: b.told, Text: b.Arguments.String()})
	}
}

// Settle makes parts of the entries that are complete: at the end of an answer, all.
func (m *Message) Settle() {
	if m.Stopped {
		m.closed = m.entries
	}
	for _, b := range m.closed {
		m.finish(b)
	}
	m.closed = nil
}

// finish makes a part of an entry that is complete.
func (m *Message) finish(b *Entry) {
	if b.closed || m.Full {
		return
	}
	b.closed = true
	p := m.by.Part(b)
	m.judge(b, &p)
	if p.Raw != nil && m.Keep(len(p.Raw)+len(p.Arguments)) {
		m.Now.Parts = append(m.Now.Parts, p)
	}
	b.forget()
}

// Asks reports whether the answer that the event ends is one for which the upstream is to be
// asked to go on: the event is kept back then.
func (m *Message) Asks(f Event) bool {
	if m.Now.Asks() && m.Now.Complete() {
		m.Held, m.Last = true, bytes.Clone(f.Data)
	}
	return m.Held
}

// tellEnd tells the follower the usage, the reason and the end of the message, as far as the
// event has them. The usage is that of all iterations.
func (m *Message) tellEnd(word string) {
	if m.to == nil || m.Held {
		return
	}
	switch {
	case !m.counted:
	case len(m.Past) == 0:
		m.tell(wire.Event{Kind: wire.EventUsage, Counts: m.counts})
	default:
		m.tell(wire.Event{Kind: wire.EventUsage, Counts: &wire.Counts{Usage: m.Usage(), Service: m.counts.Service}})
	}
	if m.Stopped {
		m.tell(wire.Event{Kind: m.word, Name: word})
	}
	if m.complete {
		m.tell(wire.Event{Kind: wire.EventComplete})
	}
	if m.over {
		m.tell(wire.Event{Kind: wire.EventEnd})
	}
}

func (m *Message) tell(e wire.Event) {
	m.event = e
	m.to.Take(&m.event)
}

// Usage is what the client is told: the sum over all iterations, unless it is to
// be told of the last.
func (m *Message) Usage() wire.Usage {
	sum := m.Now.Usage
	for _, it := range m.Past {
		if m.Options.LastUsage {
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
func (m *Message) TotalUsage(each string, counts func(dst []byte, u wire.Usage, reasoning int64) []byte) []byte {
	its, reasoning := m.Iterations(), int64(0)
	for _, it := range its {
		reasoning += it.Reasoning
	}
	out := counts([]byte{'{'}, m.Usage(), reasoning)
	if m.Options.LastUsage {
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

// Iterations returns all answers so far.
func (m *Message) Iterations() []Iteration {
	return append(m.Past[:len(m.Past):len(m.Past)], m.Now)
}

// Visibles returns the blocks of all answers that the client sees, with commas between.
func (m *Message) Visibles() (elements []byte) {
	for _, it := range m.Iterations() {
		for i := range it.Parts {
			if !it.Parts[i].Hidden {
				elements = rawjson.AppendElement(elements, it.Parts[i].Raw)
			}
		}
	}
	return elements
}

// Keep notes that so many more bytes are remembered of the answer, and tells
// whether they may be.
func (m *Message) Keep(n int) bool {
	if m.Full {
		return false
	}
	m.size += n
	return true
}

// fill gives up remembering. What was kept back to be judged is the client's, and so
// is all that follows; what is hidden already stays so, and nobody asks the upstream
// to go on with an answer that cannot be repeated.
func (m *Message) fill() {
	if m.Full {
		return
	}
	m.Full, m.Now.Opaque = true, true
	for _, b := range m.entries {
		m.release(b)
		b.forget()
	}
	m.watched = nil
	m.Now.Parts = nil
}

// Shift is what the client's numbers of entries are beyond the upstream's.
func (m *Message) Shift() int { return m.Visible - m.Begun }

// Pass puts an event out as it came.
func (m *Message) Pass(f framing.Event) { m.out, m.passed = append(m.out, f.Raw...), true }

// Put puts an event out.
func (m *Message) Put(name string, data []byte) {
	m.out = m.framing.Append(m.out, name, data)
}
