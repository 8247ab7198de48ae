// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ToolMembers configures the reading of a tool definition.
type ToolMembers struct {
	// Marker is the name of the cache marker, empty for none.
	Marker string
	// Typed allows the provider's own tools, which have a type and no name.
	Typed bool
	// Defers honors defer_loading, which hides a definition until the model searches for it.
	Defers bool
}

// Read reads the tool definition at b[at] into b, with Section, Role and Message already set. It
// returns the index after the definition, or -1.
func (n *ToolMembers) Read(p *Parser, at int, b *Block) int {
	b.Kind = KindToolDef
	var kind rawjson.Span
	m := rawjson.Walk(p.Body, at)
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		switch name := string(key); {
		case n.Marker != "" && name == n.Marker:
			if !b.Marker.Empty() {
				return p.Fail(ErrDuplicate)
			}
			b.Marker = value
			continue
		case name == "name":
			if !b.Name.Empty() {
				return p.Fail(ErrDuplicate)
			}
			b.Name = rawjson.Unquoted(p.Body, value)
		case name == "type":
			kind = rawjson.Unquoted(p.Body, value)
		case name == "defer_loading" && n.Defers:
			if string(value.Of(p.Body)) == "true" {
				b.Flags |= FlagDeferred
			}
		}
		p.Hasher.Member(key, value.Of(p.Body))
	}
	if m.Bad {
		return p.Fail(fmt.Errorf("%w: a tool is not an object", ErrShape))
	}
	if IsNull(p.Body, b.Marker) {
		b.Marker = rawjson.Span{}
	}
	// A tool of the provider's own may have a type and no name.
	if n.Typed && b.Name.Empty() {
		b.Name = kind
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	b.Hash = p.Hasher.Sum()
	return m.End
}

// Tool reads one entry of tools that is a single definition.
func (p *Parser) Tool(at int, members *ToolMembers) int {
	b := Block{Section: SectionTools, Message: -1}
	end := members.Read(p, at, &b)
	if end > 0 {
		p.AddTool(b)
	}
	return end
}
