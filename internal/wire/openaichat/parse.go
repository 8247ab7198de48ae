// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// parser reads requests of the chat completions API.
type parser struct{ *wire.Parser }

// tool reads one entry of tools: {"type":"function","function":{…}}.
func (p parser) tool(at int) int {
	b := wire.Block{Kind: wire.KindToolDef, Section: wire.SectionTools, Message: -1}
	m := rawjson.Walk(p.Body, at)
	p.Hasher.Begin(wire.SectionTools, wire.RoleNone, wire.KindToolDef)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		switch string(key) {
		case "cache_control":
			b.Marker = value
			continue
		case "function":
			f := rawjson.Walk(p.Body, int(value.Start))
			for f.Next() {
				inner := string(f.Key)
				s := f.Skip()
				if inner == "name" {
					b.Name = rawjson.Unquoted(p.Body, s)
				}
			}
		}
		p.Hasher.Member(key, value.Of(p.Body))
	}
	if m.Bad {
		return p.Fail(fmt.Errorf("%w: a tool is not an object", wire.ErrShape))
	}
	if wire.IsNull(p.Body, b.Marker) {
		b.Marker = rawjson.Span{}
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	b.Hash = p.Hasher.Sum()
	p.AddTool(b)
	return m.End
}

// messageMembers are the members of a chat message that the parser reads.
type messageMembers struct {
	role, content, calls, callID rawjson.Span
	// Thinking has two names, and some clients write both.
	reasoning, reasoningAlias       rawjson.Span
	reasoningKey, reasoningAliasKey int
}

// Message reads one entry of messages. Its blocks have the order reasoning, content, calls,
// independent of the order of the members.
func (p parser) Message(at int) int {
	msg := &p.View.Messages[len(p.View.Messages)-1]
	index := int32(len(p.View.Messages) - 1)
	var f messageMembers
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		var slot *rawjson.Span
		from := m.From
		switch string(m.Key) {
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
		p.Keep(&m, slot)
	}
	if m.Bad {
		return p.Fail(wire.ErrSyntax)
	}
	switch string(f.role.Of(p.Body)) {
	case `"user"`:
		msg.Role = wire.RoleUser
	case `"assistant"`:
		msg.Role = wire.RoleAssistant
	case `"system"`, `"developer"`:
		msg.Role = wire.RoleSystem
	case `"tool"`:
		msg.Role = wire.RoleTool
	default:
		return p.Fail(fmt.Errorf("%w: unknown role", wire.ErrShape))
	}
	msg.Content = f.content
	// Blocks follow the order of their bytes.
	if f.reasoningAliasKey < f.reasoningKey {
		p.reasoning(f.reasoningAlias, f.reasoningAliasKey, msg.Role, index)
		f.reasoningAlias = rawjson.Span{}
	}
	p.reasoning(f.reasoning, f.reasoningKey, msg.Role, index)
	p.reasoning(f.reasoningAlias, f.reasoningAliasKey, msg.Role, index)
	if !f.content.Empty() && !wire.IsNull(p.Body, f.content) {
		if !p.content(&f, msg.Role, index) {
			return -1
		}
	}
	if !f.calls.Empty() && !wire.IsNull(p.Body, f.calls) {
		e := p.Elements(int(f.calls.Start))
		for e.Next() {
			if e.At = p.call(e.At, msg.Role, index); e.At < 0 {
				return -1
			}
		}
		if e.Bad {
			return p.Fail(fmt.Errorf("%w: tool_calls is not an array", wire.ErrShape))
		}
	}
	return m.End
}

// reasoning adds a block for a member with thinking, if the member is a string.
func (p parser) reasoning(text rawjson.Span, key int, role wire.Role, index int32) {
	if text.Empty() || p.Body[text.Start] != '"' {
		return
	}
	b := wire.Block{
		Kind: wire.KindThinking, Section: wire.SectionMessages, Role: role, Message: index, Flags: wire.FlagMember,
		Span: rawjson.Span{Start: int32(key), End: text.End}, Body: text,
	}
	p.Hasher.Begin(wire.SectionMessages, role, wire.KindThinking)
	p.Hasher.Add(text.Of(p.Body))
	b.Hash = p.Hasher.Sum()
	p.Add(b)
}

func (p parser) content(f *messageMembers, role wire.Role, index int32) bool {
	c := p.Body[f.content.Start]
	if c != '"' && c != '[' {
		p.Fail(fmt.Errorf("%w: content is neither text nor parts", wire.ErrShape))
		return false
	}
	if role == wire.RoleTool {
		b := wire.Block{
			Kind: wire.KindToolResult, Section: wire.SectionMessages, Role: role, Message: index,
			Span: f.content, Body: f.content, ID: rawjson.Unquoted(p.Body, f.callID),
		}
		if c == '"' {
			b.Flags |= wire.FlagString
		} else if !p.AllText(f.content) {
			b.Flags |= wire.FlagMedia
		}
		if f.content.Len() == 2 {
			b.Flags |= wire.FlagEmpty
		}
		p.Program(&b, rawjson.Span{})
		p.Hasher.Begin(wire.SectionMessages, role, b.Kind)
		p.HashResult(&b, f.content)
		b.Hash = p.Hasher.Sum()
		p.Add(b)
		return true
	}
	if c == '"' {
		p.Add(p.Plain(f.content, wire.SectionMessages, role, index))
		return true
	}
	e := p.Elements(int(f.content.Start))
	for e.Next() {
		at, n := e.At, len(p.Blocks)
		if e.At = p.part(at, role, index); e.At < 0 {
			if e.At = p.Shut(at, n, wire.SectionMessages, role, index); e.At < 0 {
				return false
			}
		}
	}
	if e.Bad {
		p.Fail(wire.ErrSyntax)
		return false
	}
	return true
}

// parts describes the parts of a message's content.
var parts = wire.PartMembers{Marker: "cache_control"}

// part reads a part of a content. Only texts are edited; some hosts take markers on them.
func (p parser) part(at int, role wire.Role, index int32) int {
	b := wire.Block{Section: wire.SectionMessages, Role: role, Message: index}
	kind, text, end := parts.Read(p.Parser, at, &b)
	if end < 0 {
		return -1
	}
	if string(kind.Of(p.Body)) == `"text"` {
		b.Kind, b.Body = wire.KindText, text
		if s := string(text.Of(p.Body)); s == "" || s == `""` || s == "[]" || s == "null" {
			b.Flags |= wire.FlagEmpty
		}
	}
	parts.Hash(p.Parser, &b)
	p.Add(b)
	return end
}

// call reads one entry of tool_calls.
func (p parser) call(at int, role wire.Role, index int32) int {
	b := wire.Block{Kind: wire.KindToolUse, Section: wire.SectionMessages, Role: role, Message: index}
	var caller rawjson.Span
	m := rawjson.Walk(p.Body, at)
	p.Hasher.Begin(wire.SectionMessages, role, wire.KindToolUse)
	for m.Next() {
		key := string(m.Key)
		value := m.Skip()
		if m.Bad {
			break
		}
		switch key {
		case "index": // some clients send back the numbering of a stream
			continue
		case "id":
			b.ID = rawjson.Unquoted(p.Body, value)
		case "function":
			f := rawjson.Walk(p.Body, int(value.Start))
			for f.Next() {
				inner := string(f.Key)
				s := f.Skip()
				switch inner {
				case "name":
					b.Name = rawjson.Unquoted(p.Body, s)
				case "arguments":
					b.Body = s
				}
			}
		case "caller": // LiteLLM, for calls by code that Claude wrote
			caller = value
		}
		p.Hasher.Member([]byte(key), value.Of(p.Body))
	}
	if m.Bad {
		return p.Fail(wire.ErrSyntax)
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	b.Hash = p.Hasher.Sum()
	p.Program(&b, caller)
	p.Add(b)
	return m.End
}
