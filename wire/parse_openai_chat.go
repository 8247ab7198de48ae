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

import "fmt"

// chatParser reads requests of the chat completions API.
type chatParser struct{ *parser }

// tool reads one entry of tools: {"type":"function","function":{…}}.
func (p chatParser) tool(at int) int {
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
			b.Marker = value
			continue
		case "function":
			f := walk(p.b, int(value.Start))
			for f.next() {
				inner := string(f.key)
				s := f.skip()
				if inner == "name" {
					b.Name = unquoted(p.b, s)
				}
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

// chatMembers are the members of a chat message that mean something here.
type chatMembers struct {
	role, content, calls, callID Span
	// Thinking goes by two names, and some clients write both.
	reasoning, reasoningAlias       Span
	reasoningKey, reasoningAliasKey int
}

// message reads one entry of messages. Its blocks come in the order
// reasoning, content, calls, whichever way the members stand.
func (p chatParser) message(at int) int {
	msg := &p.v.Messages[len(p.v.Messages)-1]
	index := int32(len(p.v.Messages) - 1)
	var f chatMembers
	m := walk(p.b, at)
	for m.next() {
		var slot *Span
		from := m.from
		switch string(m.key) {
		case "role":
			slot = &f.role
		case "content":
			slot = &f.content
		case "reasoning_content":
			slot, f.reasoningKey = &f.reasoning, from
		case "reasoning":
			slot, f.reasoningAliasKey = &f.reasoningAlias, from
		case "tool_calls":
			slot = &f.calls
		case "tool_call_id":
			slot = &f.callID
		}
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
	switch string(f.role.Of(p.b)) {
	case `"user"`:
		msg.Role = RoleUser
	case `"assistant"`:
		msg.Role = RoleAssistant
	case `"system"`, `"developer"`:
		msg.Role = RoleSystem
	case `"tool"`:
		msg.Role = RoleTool
	default:
		return p.fail(fmt.Errorf("%w: unknown role", ErrShape))
	}
	msg.Content = f.content
	if f.reasoningAliasKey < f.reasoningKey {
		p.reasoning(f.reasoningAlias, f.reasoningAliasKey, msg.Role, index)
		f.reasoningAlias = Span{}
	}
	p.reasoning(f.reasoning, f.reasoningKey, msg.Role, index)
	p.reasoning(f.reasoningAlias, f.reasoningAliasKey, msg.Role, index)
	if !f.content.Empty() && !isNull(p.b, f.content) {
		if !p.content(&f, msg.Role, index) {
			return -1
		}
	}
	if !f.calls.Empty() && !isNull(p.b, f.calls) {
		e := p.elements(int(f.calls.Start))
		for e.next() {
			if e.at = p.call(e.at, msg.Role, index); e.at < 0 {
				return -1
			}
		}
		if e.bad {
			return p.fail(fmt.Errorf("%w: tool_calls is not an array", ErrShape))
		}
	}
	return m.end
}

// reasoning makes a block of a member that holds thinking, if there is one.
func (p chatParser) reasoning(text Span, key int, role Role, index int32) {
	if text.Empty() || p.b[text.Start] != '"' {
		return
	}
	b := Block{
		Kind: KindThinking, Section: SectionMessages, Role: role, Message: index, Flags: FlagMember,
		Span: Span{int32(key), text.End}, Body: text,
	}
	p.hasher.begin(SectionMessages, role, KindThinking)
	p.hasher.add(text.Of(p.b))
	b.Hash = p.hasher.end()
	p.blocks = append(p.blocks, b)
}

func (p chatParser) content(f *chatMembers, role Role, index int32) bool {
	c := p.b[f.content.Start]
	if c != '"' && c != '[' {
		p.fail(fmt.Errorf("%w: content is neither text nor parts", ErrShape))
		return false
	}
	if role == RoleTool {
		b := Block{
			Kind: KindToolResult, Section: SectionMessages, Role: role, Message: index,
			Span: f.content, Body: f.content, ID: unquoted(p.b, f.callID),
		}
		if c == '"' {
			b.Flags |= FlagString
		} else if !p.allText(f.content) {
			b.Flags |= FlagMedia
		}
		if f.content.Len() == 2 {
			b.Flags |= FlagEmpty
		}
		p.hasher.begin(SectionMessages, role, KindToolResult)
		p.hashResult(&b, f.content)
		b.Hash = p.hasher.end()
		p.blocks = append(p.blocks, b)
		return true
	}
	if c == '"' {
		p.blocks = append(p.blocks, p.plain(f.content, SectionMessages, role, index))
		return true
	}
	e := p.elements(int(f.content.Start))
	for e.next() {
		at, n := e.at, len(p.blocks)
		if e.at = p.part(at, role, index); e.at < 0 {
			if e.at = p.shut(at, n, SectionMessages, role, index); e.at < 0 {
				return false
			}
		}
	}
	if e.bad {
		p.fail(ErrSyntax)
		return false
	}
	return true
}

// part reads a part of a content: a text, which may be marked at some hosts, or
// something that is never edited.
func (p chatParser) part(at int, role Role, index int32) int {
	b := Block{Section: SectionMessages, Role: role, Message: index}
	var kind, text Span
	m := walk(p.b, at)
	for m.next() {
		var slot *Span
		switch string(m.key) {
		case "type":
			slot = &kind
		case "text":
			slot = &text
		case "cache_control":
			slot = &b.Marker
		}
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
	if isNull(p.b, b.Marker) {
		b.Marker = Span{}
	}
	if string(kind.Of(p.b)) == `"text"` {
		b.Kind, b.Body = KindText, text
		if s := string(text.Of(p.b)); s == "" || s == `""` || s == "[]" || s == "null" {
			b.Flags |= FlagEmpty
		}
	}
	h := &p.hasher
	h.begin(b.Section, b.Role, b.Kind)
	m = walk(p.b, at)
	for m.next() {
		key := m.key
		value := m.skip()
		if string(key) != "cache_control" && (b.Kind == KindOther || string(key) != "type") {
			h.member(key, value.Of(p.b))
		}
	}
	b.Hash = h.end()
	p.blocks = append(p.blocks, b)
	return m.end
}

// call reads one entry of tool_calls.
func (p chatParser) call(at int, role Role, index int32) int {
	b := Block{Kind: KindToolUse, Section: SectionMessages, Role: role, Message: index}
	m := walk(p.b, at)
	p.hasher.begin(SectionMessages, role, KindToolUse)
	for m.next() {
		key := string(m.key)
		value := m.skip()
		if m.bad {
			break
		}
		switch key {
		case "index": // a stream's numbering that some clients send back
			continue
		case "id":
			b.ID = unquoted(p.b, value)
		case "function":
			f := walk(p.b, int(value.Start))
			for f.next() {
				inner := string(f.key)
				s := f.skip()
				switch inner {
				case "name":
					b.Name = unquoted(p.b, s)
				case "arguments":
					b.Body = s
				}
			}
		}
		p.hasher.member([]byte(key), value.Of(p.b))
	}
	if m.bad {
		return p.fail(ErrSyntax)
	}
	b.Span = Span{int32(at), int32(m.end)}
	b.Hash = p.hasher.end()
	p.blocks = append(p.blocks, b)
	return m.end
}
