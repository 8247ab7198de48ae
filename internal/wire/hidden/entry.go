// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Entry is one entry of an answer's list on its way to the client: a block, an item or a
// step. The client counts those that it gets.
type Entry struct {
	// Index is the upstream's, Client the client's, -1 as long as the client has not got it.
	Index  int64
	Client int
	// Hidden reports whether it is answered on the way.
	Hidden bool

	watch *scanner // nil where any text may pass
	held  bool     // the client has nothing of it yet: its events are kept
	kept  []Event
}

// Open begins an entry, which the client gets unless it is hidden. Of one that is watched
// it gets nothing before the first text that is free of marks.
func (m *Message) Open(index int64, hides, watches bool) Entry {
	m.Begun++
	e := Entry{Index: index, Client: -1, Hidden: hides}
	if watches && !hides {
		e.watch, e.held = &scanner{marks: m.marks()}, true
		m.watched = append(m.watched, e.watch)
	}
	if !hides && !watches {
		m.number(&e)
	}
	return e
}

func (m *Message) number(e *Entry) {
	e.Client = m.Visible
	m.Visible++
}

// Show hands on an event of an entry, by tell, as soon as the client may have it. The event
// adds a text to what the call is made with, "" where it adds none.
func (m *Message) Show(e *Entry, f Event, text string, tell func(Event)) {
	if e.Hidden {
		return
	}
	gets := m.gets(e, text)
	if e.held && e.watch.found == "" {
		gets = gets && e.watch.some && !e.watch.pending()
	}
	switch {
	case gets:
		m.Release(e, tell)
		tell(f)
	case e.held:
		m.keep(e, f, tell)
	}
}

// Shares reports whether the client gets what an event of several entries says of one of
// them. What it does not get yet is kept as an event of its own, which alone makes.
func (m *Message) Shares(e *Entry, text string, tell func(Event), alone func() []byte) bool {
	gets := m.gets(e, text)
	switch {
	case gets:
		m.Release(e, tell)
	case e.held:
		m.keep(e, Event{Event: framing.Event{Data: alone()}}, tell)
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
func (m *Message) keep(e *Entry, f Event, tell func(Event)) {
	m.Keep(len(f.Data))
	f.Raw, f.Data, f.Name = bytes.Clone(f.Raw), bytes.Clone(f.Data), bytes.Clone(f.Name)
	f.Root = gjson.Parse(rawjson.View(f.Data))
	e.kept = append(e.kept, f)
	m.keeper = e
	if !m.Options.Whole && e.watch.found == "" {
		m.fresh, m.freshen = e, func() { m.Release(e, tell) }
	}
}

// Judge decides about an entry that is complete, given what it came to.
func (m *Message) Judge(e *Entry, p *Part, tell func(Event)) {
	if e.watch == nil {
		p.Hidden = e.Hidden
		return
	}
	copied := m.Copies(p.Arguments)
	switch {
	case e.held && copied:
		e.Hidden, e.held, e.kept = true, false, nil
	case e.held:
		m.Release(e, tell)
	case copied:
		m.fail(m.began)
	}
	m.unwatch(e)
	p.Hidden = e.Hidden
}

// Copies reports whether the arguments of a call hold a mark.
func (m *Message) Copies(arguments string) bool { return m.marks().In(arguments) != "" }

// Release shows the client an entry that is held.
func (m *Message) Release(e *Entry, tell func(Event)) {
	if m.fresh == e {
		m.fresh, m.freshen = nil, nil
	}
	if !e.held {
		return
	}
	kept := e.kept
	e.held, e.kept = false, nil
	e.watch.move(m.end())
	m.number(e)
	for _, f := range kept {
		tell(f)
	}
}

// unwatch ends the watch over an entry: what may begin a mark has not become one.
func (m *Message) unwatch(e *Entry) {
	m.watched = slices.DeleteFunc(m.watched, func(s *scanner) bool { return s == e.watch })
	if m.fresh == e {
		m.fresh, m.freshen = nil, nil
	}
	e.watch = nil
}

// rest adds the rest of a line end to the event that was kept last.
func (m *Message) rest(f framing.Event) {
	if m.keeper != nil && len(m.keeper.kept) > 0 {
		last := &m.keeper.kept[len(m.keeper.kept)-1]
		last.Raw = append(last.Raw, f.Raw...)
	}
}
