// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// What this package cannot make out with certainty (a member that stands twice, a
// role or a form that it does not know, a key with escapes) costs a conversation
// no more than that one piece of it: the piece is a block that nobody looks into
// and nothing is done to, and counts by its bytes. Only what decides about the
// whole request, see [Parse], makes all of it unreadable.

// Opaque takes the value at b[at] for one closed block, in the place of what was
// read of it, and returns the block and the index behind it, or -1 if it is no
// well-formed value.
func (p *Parser) Opaque(at int, b Block) (Block, int) {
	end := rawjson.SkipValue(p.Body, at)
	if end < 0 {
		return b, p.Fail(ErrSyntax)
	}
	p.err = nil
	b.Span = rawjson.Span{Start: int32(at), End: int32(end)}
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.Hasher.Add(b.Span.Of(p.Body))
	b.Hash = p.Hasher.Sum()
	return b, end
}

// Shut puts a closed block in the place of blocks n and further, which were read
// of the value at b[at].
func (p *Parser) Shut(at, n int, section Section, role Role, message int32) int {
	b, end := p.Opaque(at, Block{Kind: KindOther, Section: section, Role: role, Message: message})
	if end > 0 {
		p.Blocks = append(p.Blocks[:n], b)
	}
	return end
}

// shutMessage makes the message that began with block n and could not be read one
// closed block. Whose it is, it says in one plain member, or nobody knows.
func (p *Parser) shutMessage(at, n int) int {
	if p.Body[at] != '{' {
		return p.Fail(ErrShape)
	}
	index := len(p.View.Messages) - 1
	p.View.Messages[index] = Message{First: int32(n), Role: p.RoleOf(at)}
	return p.Shut(at, n, SectionMessages, p.View.Messages[index].Role, int32(index))
}

// RoleOf returns what the object at b[at] says of whose it is.
func (p *Parser) RoleOf(at int) (role Role) {
	seen := false
	for m := rawjson.Walk(p.Body, at); m.Next(); {
		isRole := string(m.Key) == "role"
		value := m.Skip()
		switch {
		case m.Bad || isRole && seen:
			return RoleNone
		case isRole:
			role, seen = roles[string(value.Of(p.Body))], true
		}
	}
	return role
}

// roles are those of all formats, as they stand in JSON.
var roles = map[string]Role{
	`"user"`: RoleUser, `"assistant"`: RoleAssistant, `"model"`: RoleAssistant,
	`"system"`: RoleSystem, `"developer"`: RoleSystem, `"tool"`: RoleTool, `"function"`: RoleTool,
}
