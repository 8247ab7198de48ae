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

// Members starts a walk over the item at b[at].
func (p *Parser) Members(at int) ItemMembers {
	return ItemMembers{Members: rawjson.Walk(p.Body, at), at: at}
}

// Keep stores the value of a member in its slot. A nil slot skips the member.
func (m *ItemMembers) Keep(slot *rawjson.Span) {
	value := m.Skip()
	if m.Bad || slot == nil {
		return
	}
	// A duplicate member makes the item opaque.
	m.closed = m.closed || !slot.Empty()
	*slot = value
}

// EndOf returns the index after a walked item, -1 for a value that is no object. closed reports an
// item that must stay opaque: it has a duplicate member or could not be read.
func (p *Parser) EndOf(m *ItemMembers) (end int, closed bool) {
	if !m.closed && !m.Bad {
		return m.End, false
	}
	if end = rawjson.SkipValue(p.Body, m.at); end < 0 || p.Body[m.at] != '{' {
		return p.Fail(ErrSyntax), true
	}
	return end, true
}

// Spoken is an item with a content, part of the last message.
type Spoken struct {
	// Item is the whole item, Content its content.
	Item, Content rawjson.Span
	// Role is the role of the item.
	Role Role
}

// PartReader reads one part of a message's content.
type PartReader interface {
	Part(at int, role Role, message int32) int
}

// Say reads the content of an item: a text, or parts. It returns false for other forms.
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
		// The only block of a model item spans the whole item, so that the item can be removed.
		said[0].Span, said[0].Flags = s.Item, said[0].Flags&^FlagString
		return true
	}
	for i := range said {
		// A part cannot be removed without its item.
		said[i].Flags |= FlagPart
	}
	return true
}

// parts reads the parts of a content. A part that cannot be read becomes an opaque block.
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

// OnlyParts reports whether a value is an array of objects, each with a type that satisfies is.
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
