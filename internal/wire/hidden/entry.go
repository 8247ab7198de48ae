// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Entry is one entry of an answer on its way to the client: a block, an item, a step, a call,
// or a text that stands outside of these. The client counts those that it gets.
type Entry struct {
	// Index is the upstream's, Client the client's, -1 as long as the client has not got it.
	Index  int64
	Client int
	// Hidden reports whether it is answered on the way.
	Hidden bool
	// Kind tells calls, and texts outside of entries, from each other.
	Kind wire.Kind
	// ID and Name are those of a call, or Name the member of a text.
	ID, Name string
	// Own and Free are those of [wire.EventCall].
	Own, Free bool
	// Raw is the entry as it began, Whole as it ended, where the API says that.
	Raw, Whole string
	// Text, Signature and Arguments are what came since it began: the insides of JSON
	// strings, but for the signature.
	Text, Signature, Arguments strings.Builder
	// Pieces are the data of each [wire.EventPiece].
	Pieces []string

	initial  string // the arguments that a call had as it began, or ended
	loose    bool   // a text outside of entries
	beyond   bool   // it is not remembered
	numbered bool
	closed   bool
	told     int      // the number of the call in the client's message, -1 before the follower has it
	watch    *scanner // nil where any text may pass
	held     bool     // the client has nothing of it yet: its events are kept
	kept     []Event
}

// Input returns the arguments of a call, as JSON or free text.
func (e *Entry) Input() string {
	if e.Arguments.Len() > 0 {
		return rawjson.Plain(e.Arguments.String())
	}
	return rawjson.Plain(e.initial)
}

// forget drops what came since the entry began.
func (e *Entry) forget() {
	e.Text, e.Signature, e.Arguments, e.Pieces = strings.Builder{}, strings.Builder{}, strings.Builder{}, nil
	e.Raw, e.Whole = "", ""
}

// watch has an entry watched: the client gets nothing of it before the first text that is
// free of marks.
func (m *Message) watch(e *Entry) {
	e.watch, e.held = &scanner{marks: m.marks()}, true
	m.watched = append(m.watched, e.watch)
}

// Watched returns a watched entry of which the client has the beginning.
func (m *Message) Watched() *Entry {
	e := &Entry{told: -1}
	m.watch(e)
	m.release(e)
	return e
}

// number gives an entry the client's next number.
func (m *Message) number(e *Entry) {
	switch {
	case e.numbered || e.Hidden || e.held:
		return
	case e.beyond:
		m.Begun++
	}
	e.Client, e.numbered = m.Visible, true
	m.Visible++
}

// Show hands on an event of an entry as soon as the client may have it. The event
// adds a text to what the call is made with, "" where it adds none.
func (m *Message) Show(e *Entry, f Event, text string) {
	if e.Hidden {
		return
	}
	m.number(e)
	gets := m.gets(e, text)
	if e.held && e.watch.found == "" {
		gets = gets && e.watch.some && !e.watch.pending()
	}
	switch {
	case gets:
		m.release(e)
		m.by.Tell(f, e)
	case e.held:
		m.keep(e, f)
	}
}

// Shares reports whether the client gets what an event of several entries says of one of
// them. What it does not get yet is kept as an event of its own, which alone makes.
func (m *Message) Shares(e *Entry, text string, alone func() []byte) bool {
	m.number(e)
	gets := m.gets(e, text)
	switch {
	case gets:
		m.release(e)
	case e.held:
		m.keep(e, Event{Event: framing.Event{Data: alone()}})
	}
	return gets
}

// gets reports whether the client may get a piece of an entry, given the text that it adds.
func (m *Message) gets(e *Entry, text string) bool {
	switch {
	case e.Hidden:
		return false
	case e.watch == nil:
		return true
	case m.Options.Whole && e.held:
		return false
	case !e.watch.feed(text, m.end()):
		return true
	case !e.held:
		m.fail(e.watch.from[0])
	}
	return false
}

// keep keeps an event of an entry that the client has nothing of. Unless all of the call
// is to be kept, the next event that is of anything else lets the entry go: it is not to
// wait, and events keep their order.
func (m *Message) keep(e *Entry, f Event) {
	m.Keep(len(f.Data))
	f.Raw, f.Data, f.Name = bytes.Clone(f.Raw), bytes.Clone(f.Data), bytes.Clone(f.Name)
	f.Root = gjson.Parse(rawjson.View(f.Data))
	e.kept = append(e.kept, f)
	m.keeper = e
	if !m.Options.Whole && e.watch.found == "" {
		m.fresh = e
	}
}

// judge decides about an entry that is complete, given what it came to.
func (m *Message) judge(e *Entry, p *Part) {
	if e.watch != nil {
		copied := m.marks().In(p.Arguments) != ""
		switch {
		case e.held && copied:
			e.Hidden, e.held, e.kept = true, false, nil
		case e.held:
			m.release(e)
		case copied:
			m.fail(m.began)
		}
		m.Unwatch(e)
	}
	p.Hidden = e.Hidden
}

// release shows the client an entry that is held.
func (m *Message) release(e *Entry) {
	if m.fresh == e {
		m.fresh = nil
	}
	if !e.held {
		return
	}
	kept := e.kept
	e.held, e.kept = false, nil
	e.watch.move(m.end())
	m.number(e)
	if e.Kind == wire.KindToolUse {
		m.tellCall(e)
	}
	for _, f := range kept {
		m.by.Tell(f, e)
	}
}

// Unwatch ends the watch over an entry: what may begin a mark has not become one.
func (m *Message) Unwatch(e *Entry) {
	m.watched = slices.DeleteFunc(m.watched, func(s *scanner) bool { return s == e.watch })
	if m.fresh == e {
		m.fresh = nil
	}
	e.watch = nil
}

// loosen shows the client the entry that it has nothing of, because something else comes.
func (m *Message) loosen() {
	if m.fresh != nil {
		m.release(m.fresh)
	}
}

// rest adds the rest of a line end to the event that was kept last.
func (m *Message) rest(f framing.Event) {
	if m.keeper != nil && len(m.keeper.kept) > 0 {
		last := &m.keeper.kept[len(m.keeper.kept)-1]
		last.Raw = append(last.Raw, f.Raw...)
	}
}
