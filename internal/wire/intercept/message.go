// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// BlockSize is the approximate overhead of a block, in bytes.
const BlockSize = 300

// Message is the client's message for one or more answers of an upstream. It receives the events of
// these answers.
type Message struct {
	Options       Options
	framing       framing.Framing
	by            Interception
	to            wire.Sink   // receives the events of the message; nil without a follower
	Past          []Iteration // the preceding answers
	Now           Iteration
	entries       []*Entry     // of Now, in the order in which they began
	calls         []*Entry     // by the reader's call numbers
	followerCalls int          // number of calls that to has received
	counts        *wire.Counts // the usage of Now so far
	event         wire.Event
	out           []byte
	passed        bool   // the last event was forwarded unmodified
	Buffered      bool   // the iteration has ended, and its last event is buffered
	Ended         bool   // the message has ended
	Full          bool   // the answer exceeds the memory limit: no more calls are intercepted
	size          int    // bytes remembered
	Begun         int    // entries of the iteration
	Visible       int    // entries sent to the client
	ID            string // of the message
	Last          []byte // the buffered last event
	Repeats       func() // called after each similar event forwarded without parsing

	known   *Marks     // set at the first watched call
	watched []*scanner // of incomplete entries
	fresh   *Entry     // the entry that waits for the next event
	keeper  *Entry     // the entry that buffered the last event
	gone    int64      // bytes sent to the client before out
	ready   int        // bytes of out sent since
	began   int64      // position of the last event's output
	failed  bool       // the answer ends in an error: a mark in a partly sent call
	failure int64      // position of the error

	Said
}

// Said is the content of the current event.
type Said struct {
	// Pieces are the parts of the event that belong to calls or entries.
	Pieces []Piece
	// Says reports whether the event has model output outside of the Pieces.
	Says bool
	// Names reports whether the event has the answer's id.
	Names bool
	// Stopped reports whether the event has a stop reason.
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
	// Entry is nil beyond the limit on entries.
	Entry *Entry
	// Raw is the fragment of a call, in formats without entries.
	Raw string
	// Text is the addition to the arguments of a watched call.
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
		if m.none { // no stop reason counts after an error
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

// open begins an entry. It returns nil beyond the memory limit.
func (m *Message) open(e *wire.Event) *Entry {
	m.finishText()
	if !m.Keep(BlockSize + len(e.Data)) {
		return nil
	}
	m.Begun++
	b := &Entry{Index: e.Index, Client: -1, Raw: strings.Clone(e.Data), followerCall: -1}
	m.entries = append(m.entries, b)
	m.piece(b)
	return b
}

func (m *Message) close(e *wire.Event) {
	b := m.entry(e.Index)
	// Some APIs only send the complete entry.
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

// say adds model output. Consecutive texts of one kind outside of entries form one entry.
func (m *Message) say(e *wire.Event) {
	b := m.entry(e.Index)
	switch kind := kindOf(e.Kind); {
	case e.Index >= 0:
	case e.Kind == wire.EventSignature, e.Kind == wire.EventImage, e.Kind == wire.EventRefusal:
		m.Says = true
	case e.Text != "":
		m.Says = true
		if b = m.text(); (b == nil || b.Kind != kind) && m.Keep(BlockSize) {
			m.finishText()
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

func (m *Message) text() *Entry {
	if n := len(m.entries); n > 0 && m.entries[n-1].loose && !m.entries[n-1].closed {
		return m.entries[n-1]
	}
	return nil
}

func (m *Message) finishText() {
	if b := m.text(); b != nil {
		m.finish(b)
	}
}

func (m *Message) gather(to *strings.Builder, text string) {
	if text != "" && m.Keep(len(text)) {
		to.WriteString(text)
	}
}

func (m *Message) piece(b *Entry) *Piece {
	if n := len(m.Pieces); n > 0 {
		if p := &m.Pieces[n-1]; p.Entry == b {
			return p
		}
	}
	m.Pieces = append(m.Pieces, Piece{Entry: b})
	return &m.Pieces[len(m.Pieces)-1]
}

// add records the event's addition to a call's arguments.
func (m *Message) add(b *Entry, inside string) {
	// Only watched calls need the text.
	if p := m.piece(b); b.watch != nil {
		p.Text += rawjson.Plain(inside)
	}
}

// addPiece handles an [wire.EventPiece].
func (m *Message) addPiece(e *wire.Event) {
	data, b := e.Data, m.entry(e.Index)
	switch {
	case e.Index < 0: // the fragment of a call
		if b = nil; e.Call >= 0 {
			b = m.calls[e.Call]
		}
		if n := len(m.Pieces); b != nil && n > 0 && m.Pieces[n-1] == (Piece{Entry: b}) { // the call begins with it
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

// call begins a call.
func (m *Message) call(e *wire.Event) {
	b := m.entry(e.Index)
	if b == nil && !e.Apart {
		b = m.open(&wire.Event{Index: e.Index})
	}
	if b == nil {
		// Beyond the memory limit a call is neither hidden nor watched.
		b = &Entry{Index: e.Index, Client: -1, beyond: true, followerCall: -1}
	}
	b.Kind, b.ID, b.Name, b.APIDefined, b.Free = wire.KindToolUse, strings.Clone(e.ID), strings.Clone(e.Name),
		e.APIDefined, e.Free
	m.calls = append(m.calls, b)
	if !b.beyond {
		// The tool's name decides.
		b.Intercepted = !e.APIDefined && !e.Free && m.Options.Intercepts(b.Name)
		if !b.Intercepted && m.Options.Watch(b.Name) {
			m.watch(b)
		}
	}
	m.add(b, strings.TrimPrefix(e.Text, "{}")) // arguments may follow in separate events
	b.initial = strings.Clone(e.Text)
	if !b.Intercepted && !b.buffered {
		m.tellCall(b)
	}
}

// more handles the later events of a call.
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
	if m.to != nil && b.followerCall >= 0 {
		// The follower has call numbers of its own.
		call := e.Call
		e.Call = b.followerCall
		m.to.Take(e)
		e.Call = call
	}
}

// tellCall sends a visible call to the follower, with its arguments so far.
func (m *Message) tellCall(b *Entry) {
	if m.to == nil {
		return
	}
	b.followerCall = m.followerCalls
	m.followerCalls++
	m.tell(wire.Event{
		Kind: wire.EventCall, Call: b.followerCall, ID: b.ID, Name: b.Name, APIDefined: b.APIDefined,
		Free: b.Free,
		Text: b.initial,
	})
	if b.Arguments.Len() > 0 {
		m.tell(wire.Event{Kind: wire.EventArguments, Call: b.followerCall, Text: b.Arguments.String()})
	}
}

// FinishEntries turns complete entries into parts. At the end of an answer all entries are complete.
func (m *Message) FinishEntries() {
	if m.Stopped {
		m.closed = m.entries
	}
	for _, b := range m.closed {
		m.finish(b)
	}
	m.closed = nil
}

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

// Asks reports whether the upstream must continue after the answer that the event ends. The event
// is then buffered.
func (m *Message) Asks(f Event) bool {
	if m.Now.Asks() && m.Now.Complete() {
		m.Buffered, m.Last = true, bytes.Clone(f.Data)
	}
	return m.Buffered
}

// tellEnd sends the event's usage, stop reason and end to the follower.
func (m *Message) tellEnd(word string) {
	if m.to == nil || m.Buffered {
		return
	}
	switch {
	case !m.counted:
	case len(m.Past) == 0:
		m.tell(wire.Event{Kind: wire.EventUsage, Counts: m.counts})
	default:
		// The client pays for all iterations.
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

// Usage returns the usage for the client: the sum over all iterations, or with [Options.LastUsage]
// the usage of the last one with the output of all.
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

// TotalUsage returns the client's usage object. Unless [Options.LastUsage] is set, it has a list of
// all iterations after the sum. counts appends the members of one usage, each is the prefix of the
// members of an iteration.
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

// Visibles returns the visible blocks of all answers, separated by commas.
func (m *Message) Visibles() (elements []byte) {
	for _, it := range m.Iterations() {
		for i := range it.Parts {
			if !it.Parts[i].Intercepted {
				elements = rawjson.AppendElement(elements, it.Parts[i].Raw)
			}
		}
	}
	return elements
}

// Keep counts n more bytes of memory. It returns false once the message is Full.
func (m *Message) Keep(n int) bool {
	if m.Full {
		return false
	}
	m.size += n
	return true
}

// fill stops remembering the answer.
func (m *Message) fill() {
	if m.Full {
		return
	}
	m.Full, m.Now.Opaque = true, true
	for _, b := range m.entries {
		// Hidden calls stay hidden, without a continuation. All else goes to the client.
		m.release(b)
		b.forget()
	}
	m.watched = nil
	m.Now.Parts = nil
}

// Shift returns the difference between the client's and the upstream's entry numbers.
func (m *Message) Shift() int { return m.Visible - m.Begun }

// Pass writes an event in its original bytes.
func (m *Message) Pass(f framing.Event) { m.out, m.passed = append(m.out, f.Raw...), true }

// Put writes an event.
func (m *Message) Put(name string, data []byte) {
	m.out = m.framing.Append(m.out, name, data)
}
