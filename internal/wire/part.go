// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// PartMembers names the special members of a part.
type PartMembers struct {
	// Marker is the name of the cache marker, empty for none.
	Marker string
	// Notes are annotation members of answers. Clients may send them back or omit them while they
	// are empty.
	Notes []string
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
			return !n.notes(key)
		}
		return true
	})
}

func (n *PartMembers) marks(key []byte) bool { return n.Marker != "" && string(key) == n.Marker }

func (n *PartMembers) notes(key []byte) bool { return slices.Contains(n.Notes, string(key)) }

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
