// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package wire

import (
	"bytes"
	"fmt"
)

var (
	keyError  = []byte("is_error")
	valueTrue = []byte("true")
)

// anthropicParser reads requests of the Messages API.
type anthropicParser struct{ *parser }

// tool reads one entry of tools.
func (p anthropicParser) tool(at int) int {
	b := Block{Kind: KindToolDef, Section: SectionTools, Message: -1}
	m := walk(p.b, at)
	p.hasher.begin(SectionTools, RoleNone, KindToolDef)
	for m.next() {
		key := m.key
		value := m.skip()
		if m.bad {
			break
		}
		switch string(key) {
		case "cache_control":
			if !b.Marker.Empty() {
				return p.fail(ErrDuplicate)
			}
			b.Marker = value
			continue
		case "name":
			if !b.Name.Empty() {
				return p.fail(ErrDuplicate)
			}
			b.Name = unquoted(p.b, value)
		case "defer_loading":
			if string(value.Of(p.b)) == "true" {
				b.Flags |= FlagDeferred
			}
		}
		p.hasher.member(key, value.Of(p.b))
	}
	if m.bad {
		return p.fail(fmt.Errorf("%w: a tool is not an object", ErrShape))
	}
	if isNull(p.b, b.Marker) {
		b.Marker = Span{}
	}
	b.Span = Span{int32(at), int32(m.end)}
	b.Hash = p.hasher.end()
	p.addTool(b)
	return m.end
}

// message reads one entry of messages.
func (p anthropicParser) message(at int) int {
	msg := &p.v.Messages[len(p.v.Messages)-1]
	seen := 0
	m := walk(p.b, at)
	var content Span
	for m.next() {
		bit := 0
		switch string(m.key) {
		case "role":
			bit = 1
			switch s := m.skip(); string(s.Of(p.b)) {
			case `"user"`:
				msg.Role = RoleUser
			case `"assistant"`:
				msg.Role = RoleAssistant
			case `"system"`:
				msg.Role = RoleSystem
			default:
				return p.fail(fmt.Errorf("%w: unknown role", ErrShape))
			}
		case "content":
			bit = 2
			// The blocks can be read at once when the role came first, as it
			// does in every client seen.
			if msg.Role != RoleNone && seen&bit == 0 {
				start := m.at
				m.at = p.content(Span{int32(start), int32(len(p.b))}, SectionMessages, msg.Role)
				if m.at < 0 {
					return -1
				}
				msg.Content = Span{int32(start), int32(m.at)}
			} else {
				content = m.skip()
			}
		default:
			m.skip()
		}
		if seen&bit != 0 {
			return p.fail(ErrDuplicate)
		}
		seen |= bit
	}
	if m.bad || msg.Role == RoleNone {
		return p.fail(fmt.Errorf("%w: a message has no role", ErrShape))
	}
	if !content.Empty() {
		if p.content(content, SectionMessages, msg.Role) < 0 {
			return -1
		}
		msg.Content = content
	}
	return m.end
}

// content reads a string or an array of blocks that begins at the span's
// start, and appends its blocks.
func (p anthropicParser) content(s Span, section Section, role Role) int {
	at := int(s.Start)
	message := int32(-1)
	if section == SectionMessages {
		message = int32(len(p.v.Messages) - 1)
	}
	switch p.b[at] {
	case '"':
		end := skipString(p.b, at)
		if end < 0 {
			return p.fail(ErrSyntax)
		}
		span := Span{int32(at), int32(end)}
		p.blocks = append(p.blocks, p.plain(span, section, role, message))
		return end
	case 'n':
		if end := skipWord(p.b, at, "null"); end > 0 {
			return end
		}
	case '[':
		e := p.elements(at)
		for e.next() {
			at, n := e.at, len(p.blocks)
			if e.at = p.block(at, section, role, message); e.at < 0 {
				if e.at = p.shut(at, n, section, role, message); e.at < 0 {
					return -1
				}
			}
		}
		if e.bad {
			return p.fail(ErrSyntax)
		}
		return e.end
	}
	return p.fail(fmt.Errorf("%w: content is neither text nor blocks", ErrShape))
}

// blockMembers are the members of a content block that mean something here.
type blockMembers struct {
	kind, text, thinking, data, id, useID, name, input, content, isError, marker Span
}

// slot returns where to keep the member of a name.
func (m *blockMembers) slot(key []byte) *Span {
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
	case "cache_control":
		return &m.marker
	}
	return nil
}

// block reads one content block.
func (p anthropicParser) block(at int, section Section, role Role, message int32) int {
	b := Block{Section: section, Role: role, Message: message}
	var f blockMembers
	m := walk(p.b, at)
	for m.next() {
		slot := f.slot(m.key)
		value := m.skip()
		if m.bad {
			break
		}
		if slot == nil {
			continue
		}
		if !slot.Empty() {
			return p.fail(ErrDuplicate)
		}
		*slot = value
	}
	if m.bad {
		return p.fail(ErrSyntax)
	}
	b.Span = Span{int32(at), int32(m.end)}
	if !isNull(p.b, f.marker) {
		b.Marker = f.marker
	}
	switch kind := f.kind.Of(p.b); string(kind) {
	case `"text"`:
		b.Kind, b.Body = KindText, f.text
	case `"thinking"`:
		b.Kind, b.Body = KindThinking, f.thinking
	case `"redacted_thinking"`:
		b.Kind, b.Body = KindRedactedThinking, f.data
	case `"tool_use"`:
		b.Kind, b.Body = KindToolUse, f.input
		b.ID, b.Name = unquoted(p.b, f.id), unquoted(p.b, f.name)
	case `"tool_result"`:
		b.Kind, b.Body = KindToolResult, f.content
		b.ID = unquoted(p.b, f.useID)
		if string(f.isError.Of(p.b)) == "true" {
			b.Flags |= FlagError
		}
		if !f.content.Empty() && !p.allText(f.content) {
			b.Flags |= FlagMedia
		}
	case `"image"`:
		b.Kind = KindImage
	case `"document"`:
		b.Kind = KindDocument
	default:
		if bytes.Equal(kind, []byte(`"server_tool_use"`)) || bytes.HasSuffix(kind, []byte(`tool_result"`)) {
			b.Kind = KindServerTool
		}
	}
	if b.Kind == KindText || b.Kind == KindToolResult {
		if s := b.Body.Of(p.b); len(s) == 0 || string(s) == `""` || string(s) == "[]" || string(s) == "null" {
			b.Flags |= FlagEmpty
		}
	}
	p.hash(&b, &f)
	p.blocks = append(p.blocks, b)
	return m.end
}

// hash sets the canonical hash of a block whose members are known to be well
// formed.
func (p anthropicParser) hash(b *Block, f *blockMembers) {
	h := &p.hasher
	h.begin(b.Section, b.Role, b.Kind)
	if b.Kind == KindToolResult {
		p.hashResult(b, f.content)
		if b.Has(FlagError) {
			h.member(keyError, valueTrue)
		}
		b.Hash = h.end()
		return
	}
	// A KindOther has its type in the members; the others have it in the kind.
	m := walk(p.b, int(b.Span.Start))
	for m.next() {
		key := m.key
		value := m.skip()
		switch string(key) {
		case "cache_control":
			continue
		case "type":
			if b.Kind != KindOther && b.Kind != KindServerTool {
				continue
			}
		}
		h.member(key, value.Of(p.b))
	}
	b.Hash = h.end()
}
