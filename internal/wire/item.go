// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ItemMembers walks the members of one item of a flat list.
type ItemMembers struct {
	rawjson.Members
	at     int
	closed bool
}

// Members begins to walk the item at b[at].
func (p *Parser) Members(at int) ItemMembers {
	return ItemMembers{Members: rawjson.Walk(p.Body, at), at: at}
}

// Keep takes the value of a member into its slot, nil for one that does not matter.
func (m *ItemMembers) Keep(slot *rawjson.Span) {
	value := m.Skip()
	if m.Bad || slot == nil {
		return
	}
	m.closed = m.closed || !slot.Empty()
	*slot = value
}

// EndOf returns the index behind an item whose members were walked, and whether it stays
// closed: a member stands twice in it, or it could not be read. The index is -1 for what
// is no object.
func (p *Parser) EndOf(m *ItemMembers) (end int, closed bool) {
	if !m.closed && !m.Bad {
		return m.End, false
	}
	if end = rawjson.SkipValue(p.Body, m.at); end < 0 || p.Body[m.at] != '{' {
		return p.Fail(ErrSyntax), true
	}
	return end, true
}

// Spoken is a member of the last message that says something in a content.
type Spoken struct {
	// Item is the item as a whole, and Content what it says.
	Item, Content rawjson.Span
	// Role is whose it is.
	Role Role
}

// PartReader reads one part of a content, which is of a message.
type PartReader interface {
	Part(at int, role Role, message int32) int
}

// Say reads what an item of the last message says: a text, or parts. An item of the model
// that holds one of them is its block, so that it can be taken out as a whole. It reports
// false for other forms.
func (p *Parser) Say(s Spoken, by PartReader) bool {
	if s.Content.Empty() || IsNull(p.Body, s.Content) {
		return true
	}
	message := int32(len(p.View.Messages) - 1)
	c := p.Body[s.Content.Start]
	switch {
	case c != '"' && c != '[':
		p.Fail(fmt.Errorf("%w: content is neither text nor parts", ErrShape))
		return false
	case s.Role != RoleAssistant:
		p.View.Messages[message].Content = s.Content
	}
	first := len(p.Blocks)
	if c == '"' {
		p.Add(p.Plain(s.Content, SectionMessages, s.Role, message))
	} else if !p.parts(s, message, by) {
		return false
	}
	if s.Role != RoleAssistant {
		return true
	}
	said := p.Blocks[first:]
	if len(said) == 1 {
		said[0].Span, said[0].Flags = s.Item, said[0].Flags&^FlagString
		return true
	}
	for i := range said {
		said[i].Flags |= FlagPart
	}
	return true
}

// parts reads the parts of a content. One that cannot be read stays closed.
func (p *Parser) parts(s Spoken, message int32, by PartReader) bool {
	e := p.Elements(int(s.Content.Start))
	for e.Next() {
		at, n := e.At, len(p.Blocks)
		if e.At = by.Part(at, s.Role, message); e.At < 0 {
			if e.At = p.Shut(at, n, SectionMessages, s.Role, message); e.At < 0 {
				return false
			}
		}
	}
	if e.Bad {
		p.Fail(ErrSyntax)
		return false
	}
	return true
}

// OnlyParts reports whether a value is an array of objects whose types are all so.
func (p *Parser) OnlyParts(value rawjson.Span, is func(kind []byte) bool) bool {
	if p.Body[value.Start] != '[' {
		return false
	}
	e := p.Elements(int(value.Start))
	for e.Next() {
		part := false
		m := rawjson.Walk(p.Body, e.At)
		for m.Next() {
			typed := string(m.Key) == "type"
			if s := m.Skip(); typed {
				part = is(s.Of(p.Body))
			}
		}
		if m.Bad || !part {
			return false
		}
		e.At = m.End
	}
	return !e.Bad
}
