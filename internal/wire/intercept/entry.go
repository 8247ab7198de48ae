// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Entry is one entry of an answer on its way to the client: a block, an item, a step, a call, or a
// text outside of these. Entries sent to the client are renumbered.
type Entry struct {
	// Index is the upstream's number, Client the client's. Client is -1 until the entry is sent.
	Index  int64
	Client int
	// Intercepted reports whether the call is answered on the way.
	Intercepted bool
	// Kind distinguishes calls and texts outside of entries.
	Kind wire.Kind
	// ID and Name are a call's id and name. A text outside of entries has the name of its member.
	ID, Name string
	// APIDefined and Free have their meaning in [wire.EventCall].
	APIDefined, Free bool
	// Raw is the entry's JSON at its beginning, Whole at its end, if the API sends them.
	Raw, Whole string
	// Text, Signature and Arguments are collected from later events. Texts and arguments are the
	// insides of JSON strings.
	Text, Signature, Arguments strings.Builder
	// Pieces are the data of each [wire.EventPiece].
	Pieces []string

	initial      string // arguments at the beginning or end of a call
	loose        bool   // a text outside of entries
	beyond       bool   // beyond the memory limit, not remembered
	numbered     bool
	closed       bool
	followerCall int      // the follower's call number, -1 before it has the call
	watch        *scanner // nil for an unwatched entry
	buffered     bool     // nothing was sent to the client yet; events are buffered in kept
	kept         []Event
}

// Input returns the arguments of a call, as JSON or free text.
func (e *Entry) Input() string {
	if e.Arguments.Len() > 0 {
		return rawjson.Plain(e.Arguments.String())
	}
	return rawjson.Plain(e.initial)
}

func (e *Entry) forget() {
	e.Text, e.Signature, e.Arguments, e.Pieces = strings.Builder{}, strings.Builder{}, strings.Builder{}, nil
	e.Raw, e.Whole = "", ""
}

// watch searches an entry for marks.
func (m *Message) watch(e *Entry) {
	// Its events wait until the first text without a mark.
	e.watch, e.buffered = &scanner{marks: m.marks()}, true
	m.watched = append(m.watched, e.watch)
}

// Watched returns a watched entry with its beginning already sent to the client.
func (m *Message) Watched() *Entry {
	e := &Entry{followerCall: -1}
	m.watch(e)
	m.release(e)
	return e
}

func (m *Message) number(e *Entry) {
	switch {
	case e.numbered || e.Intercepted || e.buffered:
		return
	case e.beyond:
		m.Begun++
	}
	e.Client, e.numbered = m.Visible, true
	m.Visible++
}

// Show sends an entry's event to the client as soon as allowed. The text is the event's addition to
// the call's arguments, "" for none.
func (m *Message) Show(e *Entry, f Event, text string) {
	if e.Intercepted {
		return
	}
	m.number(e)
	gets := m.gets(e, text)
	// Nothing is sent before the first text without a possible mark.
	if e.buffered && e.watch.found == "" {
		gets = gets && e.watch.some && !e.watch.pending()
	}
	switch {
	case gets:
		m.release(e)
		m.by.Tell(f, e)
	case e.buffered:
		m.keep(e, f)
	}
}

// Shares reports whether the client gets an entry's part of an event with several entries. A part
// that must wait is buffered as a separate event, built by alone.
func (m *Message) Shares(e *Entry, text string, alone func() []byte) bool {
	m.number(e)
	gets := m.gets(e, text)
	switch {
	case gets:
		m.release(e)
	case e.buffered:
		m.keep(e, Event{Event: framing.Event{Data: alone()}})
	}
	return gets
}

// gets reports whether the client may get an event of an entry, with the given text.
func (m *Message) gets(e *Entry, text string) bool {
	switch {
	case e.Intercepted:
		return false
	case e.watch == nil:
		return true
	case m.Options.Whole && e.buffered:
		return false
	case !e.watch.feed(text, m.end()):
		return true
	case !e.buffered:
		// The client has a part of the call: end the stream before the mark.
		m.fail(e.watch.from[0])
	}
	return false
}

func (m *Message) keep(e *Entry, f Event) {
	m.Keep(len(f.Data))
	f.Raw, f.Data, f.Name = bytes.Clone(f.Raw), bytes.Clone(f.Data), bytes.Clone(f.Name)
	f.Root = gjson.Parse(rawjson.View(f.Data))
	e.kept = append(e.kept, f)
	m.keeper = e
	// The next event of another entry releases this one, so that it does not wait and the order of
	// events is kept.
	if !m.Options.Whole && e.watch.found == "" {
		m.fresh = e
	}
}

// judge decides about a complete entry by its final arguments.
func (m *Message) judge(e *Entry, p *Part) {
	if e.watch != nil {
		copied := m.marks().In(p.Arguments) != ""
		switch {
		case e.buffered && copied:
			// Nothing of the call was sent: the model can be asked again.
			e.Intercepted, e.buffered, e.kept = true, false, nil
		case e.buffered:
			m.release(e)
		case copied:
			// The client has a part of the call. Only an error keeps it from running the call.
			m.fail(m.began)
		}
		m.Unwatch(e)
	}
	p.Intercepted = e.Intercepted
}

func (m *Message) release(e *Entry) {
	if m.fresh == e {
		m.fresh = nil
	}
	if !e.buffered {
		return
	}
	kept := e.kept
	e.buffered, e.kept = false, nil
	// The buffered pieces are sent at this position.
	e.watch.move(m.end())
	m.number(e)
	if e.Kind == wire.KindToolUse {
		m.tellCall(e)
	}
	for _, f := range kept {
		m.by.Tell(f, e)
	}
}

// Unwatch ends the watch over an entry. A partial mark at its end is plain text.
func (m *Message) Unwatch(e *Entry) {
	m.watched = slices.DeleteFunc(m.watched, func(s *scanner) bool { return s == e.watch })
	if m.fresh == e {
		m.fresh = nil
	}
	e.watch = nil
}

// loosen releases the buffered entry before another event.
func (m *Message) loosen() {
	if m.fresh != nil {
		m.release(m.fresh)
	}
}

// rest adds the rest of a line end to the last buffered event.
func (m *Message) rest(f framing.Event) {
	if m.keeper != nil && len(m.keeper.kept) > 0 {
		last := &m.keeper.kept[len(m.keeper.kept)-1]
		last.Raw = append(last.Raw, f.Raw...)
	}
}
