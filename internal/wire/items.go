// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// ItemReader reads one item of a flat list. The item begins a message or joins the previous one,
// see [Parser.Enter].
type ItemReader interface {
	Item(at int) int
}

// Items reads the value of an input: a text, as one message of the user, or a list of items.
// Consecutive items of the model form one message, as do consecutive tool outputs. Every other item
// is a message.
func (p *Parser) Items(at int, by ItemReader) int {
	if !p.weigh() {
		return -1
	}
	if p.Body[at] == '"' {
		end := rawjson.SkipString(p.Body, at)
		if end < 0 {
			return p.Fail(ErrSyntax)
		}
		span := rawjson.Span{Start: int32(at), End: int32(end)}
		p.Add(p.Plain(span, SectionMessages, RoleUser, 0))
		p.View.Messages = reuse.Append(p.View.Messages, Message{Span: span, Content: span, Role: RoleUser, End: 1})
		p.recognition.raw = append(p.recognition.raw, rawHash(span.Of(p.Body)))
		p.recognition.firstTurn = 1
		return end
	}
	e := p.Elements(at)
	for e.Next() {
		if end := p.recallItems(e.At); end > 0 {
			e.At = end
			continue
		}
		if e.At = by.Item(e.At); e.At < 0 {
			return -1
		}
	}
	if e.Bad {
		return p.Fail(ErrSyntax)
	}
	// The last message may have grown.
	p.seal()
	if p.recognition.firstTurn == 0 {
		p.recognition.firstTurn = len(p.View.Messages)
	}
	return e.End
}

// Answered handles the first item of the model, or the first item after its answer, at b[at]. It
// looks up the conversation and returns the index after the recognised items, or 0.
func (p *Parser) Answered(at int) int {
	if p.recognition.firstTurn > 0 {
		return 0
	}
	if p.recognition.firstTurn = len(p.View.Messages); p.recognition.firstTurn == 0 {
		return 0
	}
	p.remember()
	return p.recallItems(at)
}

// joins reports whether an item of the role belongs to the previous message.
func (p *Parser) joins(r Role) bool {
	n := len(p.View.Messages)
	return n > 0 && (r == RoleAssistant || r == RoleTool) && p.View.Messages[n-1].Role == r
}

// recallItems recognises the items of the next message. It returns the index after them, or 0.
func (p *Parser) recallItems(at int) int {
	i := len(p.View.Messages)
	if p.recognition.known == nil || i >= len(p.recognition.known.messages) ||
		p.joins(p.recognition.known.messages[i].Role) {
		return 0
	}
	p.seal()
	return p.recallMessage(i, at)
}

// seal rehashes the bytes of the last message after items have joined it.
func (p *Parser) seal() {
	if !p.recognition.grown {
		return
	}
	n := len(p.View.Messages) - 1
	p.recognition.raw[n], p.recognition.grown = rawHash(p.View.Messages[n].Span.Of(p.Body)), false
}

// Enter begins a message with an item, or adds the item to the last message.
func (p *Parser) Enter(role Role, span rawjson.Span) {
	if p.joins(role) {
		last := len(p.View.Messages) - 1
		m := &p.View.Messages[last]
		m.Span.End, m.Content.End, p.recognition.grown = span.End, span.End, true
		p.recognition.shared = min(p.recognition.shared, last)
		return
	}
	p.seal()
	p.View.Messages = reuse.Append(p.View.Messages, Message{
		Span: span, Content: span, First: int32(len(p.Blocks)),
		Role: role,
	})
	p.recognition.raw = append(p.recognition.raw, rawHash(span.Of(p.Body)))
}

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

// PartMembers names the special members of a part.
type PartMembers struct {
	// Marker is the name of the cache marker, empty for none.
	Marker string
	// Annotations are annotation members of answers. Clients may send them back or omit them while they
	// are empty.
	Annotations []string
}

// Read reads the part at b[at] of a message: its type, text and marker. The index is -1 if the part
// is no object.
func (n *PartMembers) Read(p *Parser, at int, b *Block) (kind, text rawjson.Span, end int) {
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		var slot *rawjson.Span
		switch {
		case string(m.Key) == "type":
			slot = &kind
		case string(m.Key) == "text":
			slot = &text
		case n.marks(m.Key):
			slot = &b.Marker
		}
		p.Keep(&m, slot)
	}
	if m.Bad {
		return kind, text, p.Fail(ErrSyntax)
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	if IsNull(p.Body, b.Marker) {
		b.Marker = rawjson.Span{}
	}
	return kind, text, m.End
}

// Hash sets the canonical hash of a part. A text part hashes like a plain text.
func (n *PartMembers) Hash(p *Parser, b *Block) {
	p.HashMembers(b, func(key, value []byte) bool {
		switch {
		case n.marks(key):
			return false
		case string(key) == "type":
			// The kind is part of the hash already, unless it is unknown.
			return b.Kind == KindOther
		case string(value) == "[]" || string(value) == "null":
			// Clients may send empty annotations back or omit them.
			return !n.annotations(key)
		}
		return true
	})
}

func (n *PartMembers) marks(key []byte) bool { return n.Marker != "" && string(key) == n.Marker }

func (n *PartMembers) annotations(key []byte) bool {
	return slices.Contains(n.Annotations, string(key))
}

// HashMembers sets the canonical hash of an object block from the members accepted by counts.
func (p *Parser) HashMembers(b *Block, counts func(key, value []byte) bool) {
	h := &p.Hasher
	h.Begin(b.Section, b.Role, b.Kind)
	m := rawjson.Walk(p.Body, int(b.Span.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if bytes := value.Of(p.Body); counts(key, bytes) {
			h.Member(key, bytes)
		}
	}
	b.Hash = h.Sum()
}
