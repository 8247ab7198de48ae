// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"bytes"
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

var (
	keyError  = []byte("is_error")
	valueTrue = []byte("true")
)

// parser reads requests of the Messages API.
type parser struct{ *wire.Parser }

// tools describes tool definitions.
var tools = wire.ToolMembers{Marker: "cache_control", Defers: true}

// Message reads one entry of messages.
func (p parser) Message(at int) int {
	msg := &p.View.Messages[len(p.View.Messages)-1]
	seen := 0
	m := rawjson.Walk(p.Body, at)
	var content rawjson.Span
	for m.Next() {
		bit := 0
		switch string(m.Key) {
		case "role":
			bit = 1
			switch s := m.Skip(); string(s.Of(p.Body)) {
			case `"user"`:
				msg.Role = wire.RoleUser
			case `"assistant"`:
				msg.Role = wire.RoleAssistant
			case `"system"`:
				msg.Role = wire.RoleSystem
			default:
				return p.Fail(fmt.Errorf("%w: unknown role", wire.ErrShape))
			}
		case "content":
			bit = 2
			// Hashes of blocks contain the role. In all known clients the role comes first, so the
			// blocks are read in the same pass.
			if msg.Role != wire.RoleNone && seen&bit == 0 {
				start := m.At
				m.At = p.content(rawjson.Span{Start: int32(start), End: int32(len(p.Body))}, wire.SectionMessages, msg.Role)
				if m.At < 0 {
					return -1
				}
				msg.Content = rawjson.Span{Start: int32(start), End: int32(m.At)}
			} else {
				content = m.Skip()
			}
		default:
			m.Skip()
		}
		if seen&bit != 0 {
			return p.Fail(wire.ErrDuplicate)
		}
		seen |= bit
	}
	if m.Bad || msg.Role == wire.RoleNone {
		return p.Fail(fmt.Errorf("%w: a message has no role", wire.ErrShape))
	}
	if !content.Empty() {
		if p.content(content, wire.SectionMessages, msg.Role) < 0 {
			return -1
		}
		msg.Content = content
	}
	return m.End
}

// content reads a string or an array of blocks at the span's start, and appends its blocks.
func (p parser) content(s rawjson.Span, section wire.Section, role wire.Role) int {
	at := int(s.Start)
	message := int32(-1)
	if section == wire.SectionMessages {
		message = int32(len(p.View.Messages) - 1)
	}
	switch p.Body[at] {
	case '"':
		end := rawjson.SkipString(p.Body, at)
		if end < 0 {
			return p.Fail(wire.ErrSyntax)
		}
		span := rawjson.Span{Start: int32(at), End: int32(end)}
		p.Add(p.Plain(span, section, role, message))
		return end
	case 'n':
		if end := rawjson.SkipWord(p.Body, at, "null"); end > 0 {
			return end
		}
	case '[':
		e := p.Elements(at)
		for e.Next() {
			at, n := e.At, len(p.Blocks)
			if e.At = p.block(at, section, role, message); e.At < 0 {
				if e.At = p.Shut(at, n, section, role, message); e.At < 0 {
					return -1
				}
			}
		}
		if e.Bad {
			return p.Fail(wire.ErrSyntax)
		}
		return e.End
	}
	return p.Fail(fmt.Errorf("%w: content is neither text nor blocks", wire.ErrShape))
}

// blockMembers are the members of a content block that the parser reads.
type blockMembers struct {
	kind, text, thinking, data, id, useID, name, input, content, isError, caller, marker rawjson.Span

	// all has the first members of the block in order. It is complete if count, the number of
	// members, is at most its length.
	all   [6]member
	count int
}

// member is a member of an object, without the quotes of its key.
type member struct{ key, value rawjson.Span }

// slot returns the field for the member with a name, nil for other members.
func (m *blockMembers) slot(key []byte) *rawjson.Span {
	switch string(key) {
	case "type":
		return &m.kind
	case "text":
		return &m.text
	case "thinking":
		return &m.thinking
	case "data":
		return &m.data
	case "id":
		return &m.id
	case "tool_use_id":
		return &m.useID
	case "name":
		return &m.name
	case "input":
		return &m.input
	case "content":
		return &m.content
	case "is_error":
		return &m.isError
	case "caller":
		return &m.caller
	case "cache_control":
		return &m.marker
	}
	return nil
}

// block reads one content block.
func (p parser) block(at int, section wire.Section, role wire.Role, message int32) int {
	b := wire.Block{Section: section, Role: role, Message: message}
	var f blockMembers
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		slot := f.slot(m.Key)
		key := rawjson.Span{Start: int32(m.From + 1), End: int32(m.From + 1 + len(m.Key))}
		value := m.Skip()
		if m.Bad {
			break
		}
		if f.count < len(f.all) {
			f.all[f.count] = member{key, value}
		}
		f.count++
		if slot == nil {
			continue
		}
		if !slot.Empty() {
			return p.Fail(wire.ErrDuplicate)
		}
		*slot = value
	}
	if m.Bad {
		return p.Fail(wire.ErrSyntax)
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	if !wire.IsNull(p.Body, f.marker) {
		b.Marker = f.marker
	}
	switch kind := f.kind.Of(p.Body); string(kind) {
	case `"text"`:
		b.Kind, b.Body = wire.KindText, f.text
	case `"thinking"`:
		b.Kind, b.Body = wire.KindThinking, f.thinking
	case `"redacted_thinking"`:
		b.Kind, b.Body = wire.KindRedactedThinking, f.data
	case `"tool_use"`:
		b.Kind, b.Body = wire.KindToolUse, f.input
		b.ID, b.Name = rawjson.Unquoted(p.Body, f.id), rawjson.Unquoted(p.Body, f.name)
	case `"tool_result"`:
		b.Kind, b.Body = wire.KindToolResult, f.content
		b.ID = rawjson.Unquoted(p.Body, f.useID)
		if string(f.isError.Of(p.Body)) == "true" {
			b.Flags |= wire.FlagError
		}
		if !f.content.Empty() && !p.AllText(f.content) {
			b.Flags |= wire.FlagMedia
		}
	case `"image"`:
		b.Kind = wire.KindImage
	case `"document"`:
		b.Kind = wire.KindDocument
	default:
		if bytes.Equal(kind, []byte(`"server_tool_use"`)) || bytes.HasSuffix(kind, []byte(`tool_result"`)) {
			b.Kind = wire.KindServerTool
		}
	}
	p.Program(&b, f.caller)
	if b.Kind == wire.KindText || b.Kind == wire.KindToolResult {
		if s := b.Body.Of(p.Body); len(s) == 0 || string(s) == `""` || string(s) == "[]" || string(s) == "null" {
			b.Flags |= wire.FlagEmpty
		}
	}
	p.hash(&b, &f)
	p.Add(b)
	return m.End
}

// hash sets the canonical hash of a block. The block's members must be well formed.
func (p parser) hash(b *wire.Block, f *blockMembers) {
	h := &p.Hasher
	h.Begin(b.Section, b.Role, b.Kind)
	if b.Kind == wire.KindToolResult || b.Kind == wire.KindProgram && !f.useID.Empty() {
		p.HashResult(b, f.content)
		if b.Has(wire.FlagError) {
			h.Member(keyError, valueTrue)
		}
		b.Hash = h.Sum()
		return
	}
	// A block with more members is walked again.
	if f.count <= len(f.all) {
		for _, m := range f.all[:f.count] {
			p.hashMember(b.Kind, m.key.Of(p.Body), m.value)
		}
	} else {
		for m := rawjson.Walk(p.Body, int(b.Span.Start)); m.Next(); {
			key := m.Key
			p.hashMember(b.Kind, key, m.Skip())
		}
	}
	b.Hash = h.Sum()
}

// hashMember adds a member of a block to its hash.
func (p parser) hashMember(kind wire.Kind, key []byte, value rawjson.Span) {
	switch string(key) {
	case "cache_control":
		return // clients move their markers from turn to turn
	case "type":
		// The hash includes the kind. Only these kinds cover several types.
		if kind != wire.KindOther && kind != wire.KindServerTool && kind != wire.KindProgram {
			return
		}
	}
	p.Hasher.Member(key, value.Of(p.Body))
}
