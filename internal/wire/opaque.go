// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// This package does not reject a request for one unclear piece, such as a duplicate member, an
// unknown role or form, or a key with escapes. The piece becomes an opaque block: it is neither
// read nor edited, and counts by its bytes. Only members that decide the meaning of the whole
// request make it unreadable, see [Parse].

// Opaque reads the value at b[at] as one opaque block. It returns the block and the index after it,
// or -1 if the value is not well-formed.
func (p *Parser) Opaque(at int, b Block) (Block, int) {
	end := rawjson.SkipValue(p.Body, at)
	if end < 0 {
		return b, p.Fail(ErrSyntax)
	}
	// This reading replaces the first one, which has failed.
	p.err = nil
	b.Span = rawjson.Span{Start: int32(at), End: int32(end)}
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.Hasher.Add(b.Span.Of(p.Body))
	b.Hash = p.Hasher.Sum()
	return b, end
}

// Shut replaces the blocks from index n on, read from the value at b[at], by one opaque block.
func (p *Parser) Shut(at, n int, section Section, role Role, message int32) int {
	b, end := p.Opaque(at, Block{Kind: KindOther, Section: section, Role: role, Message: message})
	if end > 0 {
		p.Blocks = append(p.Blocks[:n], b)
	}
	return end
}

// shutMessage makes an unreadable message, with blocks from index n on, one opaque block.
func (p *Parser) shutMessage(at, n int) int {
	if p.Body[at] != '{' {
		return p.Fail(ErrShape)
	}
	index := len(p.View.Messages) - 1
	p.View.Messages[index] = Message{First: int32(n), Role: p.RoleOf(at)}
	return p.Shut(at, n, SectionMessages, p.View.Messages[index].Role, int32(index))
}

// RoleOf returns the role of the object at b[at], RoleNone if it is missing, unknown or duplicate.
func (p *Parser) RoleOf(at int) (role Role) {
	seen := false
	for m := rawjson.Walk(p.Body, at); m.Next(); {
		isRole := string(m.Key) == "role"
		value := m.Skip()
		switch {
		case m.Bad || isRole && seen:
			// A duplicate role could be read either way.
			return RoleNone
		case isRole:
			role, seen = roles[string(value.Of(p.Body))], true
		}
	}
	return role
}

// roles maps the JSON roles of all formats.
var roles = map[string]Role{
	`"user"`: RoleUser, `"assistant"`: RoleAssistant, `"model"`: RoleAssistant,
	`"system"`: RoleSystem, `"developer"`: RoleSystem, `"tool"`: RoleTool, `"function"`: RoleTool,
}
