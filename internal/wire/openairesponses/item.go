// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// itemMembers are the members of an input item that the parser reads.
type itemMembers struct {
	kind, id, role, content, phase, callID, name, arguments, input, output, action, tools, caller rawjson.Span
}

// slot returns the field for the member with a name, nil for other members.
func (m *itemMembers) slot(key []byte) *rawjson.Span {
	switch string(key) {
	case "type":
		return &m.kind
	case "id":
		return &m.id
	case "role":
		return &m.role
	case "content":
		return &m.content
	case "phase":
		return &m.phase
	case "call_id":
		return &m.callID
	case "name":
		return &m.name
	case "arguments":
		return &m.arguments
	case "input":
		return &m.input
	case "output":
		return &m.output
	case "action":
		return &m.action
	case "tools":
		return &m.tools
	case "caller":
		return &m.caller
	}
	return nil
}

var (
	suffixCall   = []byte(`_call"`)
	suffixOutput = []byte(`_output"`)
	typeMessage  = []byte(`"message"`)
	typeRefers   = []byte(`"item_reference"`)
)

// Item reads one item of input.
func (p parser) Item(at int) int {
	var f itemMembers
	m := p.Members(at)
	for m.Next() {
		m.Keep(f.slot(m.Key))
	}
	end, closed := p.EndOf(&m)
	if end < 0 {
		return -1
	}
	kind := f.kind.Of(p.Body)
	if len(kind) == 0 || string(kind) == "null" {
		if kind = typeMessage; f.role.Empty() {
			kind = typeRefers
		}
	}
	role := p.itemRole(kind, f.role.Of(p.Body))
	if closed && string(kind) == `"message"` {
		role = p.RoleOf(at)
	}
	if role == wire.RoleAssistant || role == wire.RoleTool {
		if end := p.Answered(at); end > 0 {
			return end
		}
	}
	span := rawjson.Span{Start: int32(at), End: int32(end)}
	p.Enter(role, span)
	index, n := int32(len(p.View.Messages)-1), len(p.Blocks)
	switch {
	case closed || role == wire.RoleNone:
		p.Shut(at, n, wire.SectionMessages, role, index)
	case string(kind) == `"message"`:
		if !p.message(&f, span, role) && p.Shut(at, n, wire.SectionMessages, role, index) < 0 {
			return -1
		}
	case string(kind) == `"additional_tools"` && !f.tools.Empty() && p.Body[f.tools.Start] == '[':
		e := p.Elements(int(f.tools.Start))
		for e.Next() {
			tool, b := e.At, wire.Block{Section: wire.SectionMessages, Role: role, Message: index}
			if e.At = tools.Read(p.Parser, tool, &b); e.At < 0 {
				if b, e.At = p.Opaque(tool, wire.Block{
					Kind: wire.KindToolDef, Section: wire.SectionMessages, Role: role,
					Message: index,
				}); e.At < 0 {
					return -1
				}
			}
			p.Add(b)
		}
	default:
		p.Add(p.whole(kind, &f, span, role, index))
	}
	p.View.Messages[index].End = int32(len(p.Blocks))
	return end
}

func (p parser) itemRole(kind, role []byte) wire.Role {
	switch string(kind) {
	case `"message"`:
		switch string(role) {
		case `"user"`:
			return wire.RoleUser
		case `"assistant"`:
			return wire.RoleAssistant
		case `"system"`, `"developer"`:
			return wire.RoleSystem
		}
		return wire.RoleNone
	case `"additional_tools"`:
		return wire.RoleSystem
	case `"compaction_trigger"`, `"mcp_approval_response"`:
		return wire.RoleUser
	}
	if bytes.HasSuffix(kind, suffixOutput) {
		return wire.RoleTool
	}
	// Items of all other types, known or not, are output of the model.
	return wire.RoleAssistant
}

// whole reads an item that becomes one block: a call, a tool's output, reasoning, or an opaque item.
func (p parser) whole(kind []byte, f *itemMembers, span rawjson.Span, role wire.Role, index int32) wire.Block {
	b := wire.Block{
		Section: wire.SectionMessages, Role: role, Message: index, Span: span,
		ID: rawjson.Unquoted(p.Body, f.callID),
	}
	switch {
	case string(kind) == `"reasoning"`:
		b.Kind, b.ID = wire.KindReasoning, rawjson.Span{}
	case string(kind) == `"function_call"`:
		b.Kind, b.Body, b.Name = wire.KindToolUse, f.arguments, rawjson.Unquoted(p.Body, f.name)
	case string(kind) == `"custom_tool_call"`:
		b.Kind, b.Body, b.Name = wire.KindToolUse, f.input, rawjson.Unquoted(p.Body, f.name)
	case bytes.HasSuffix(kind, suffixCall) && !b.ID.Empty():
		b.Kind, b.Name = wire.KindToolUse, rawjson.Unquoted(p.Body, f.kind)
		b.Name.End -= int32(len(suffixCall) - 1)
		if string(kind) == `"local_shell_call"` {
			b.Body = f.action
		}
	case bytes.HasSuffix(kind, suffixCall):
		b.Kind = wire.KindServerTool // the provider runs this tool itself
	case role == wire.RoleTool:
		b.Kind = wire.KindToolResult
		if b.ID.Empty() { // some versions of the API have the call's id in the member id
			b.ID = rawjson.Unquoted(p.Body, f.id)
		}
		p.outputItem(&b, f)
		return b
	}
	p.Program(&b, f.caller)
	p.hashItem(&b, string(kind) == `"item_reference"`)
	return b
}

// outputItem reads the output of a tool: a text or a list of parts. Output in another form is opaque.
func (p parser) outputItem(b *wire.Block, f *itemMembers) {
	output := f.output
	if output.Empty() || p.Body[output.Start] != '"' && !p.partsOnly(output) {
		p.Program(b, f.caller)
		p.hashItem(b, false)
		return
	}
	b.Body = output
	switch {
	case output.Len() == 2:
		b.Flags |= wire.FlagEmpty
	case !p.AllText(output):
		b.Flags |= wire.FlagMedia
	}
	p.Program(b, f.caller)
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.HashResult(b, output)
	b.Hash = p.Hasher.Sum()
}

func (p parser) partsOnly(s rawjson.Span) bool {
	return p.OnlyParts(s, func(kind []byte) bool { return bytes.HasPrefix(kind, []byte(`"input_`)) })
}

// hashItem sets the canonical hash of an item. The item's members must be well formed.
func (p parser) hashItem(b *wire.Block, reference bool) {
	// The id is the content of a reference. All other items are hashed without it.
	p.HashMembers(b, func(key, _ []byte) bool { return !isNote(key) || reference && string(key) == "id" })
}

// isNote reports whether a member of an item is invisible to the model.
func isNote(key []byte) bool {
	// Codex generates new ids after each compaction and in each session.
	return string(key) == "id" || string(key) == "status" || bytes.HasPrefix(key, []byte("internal_chat_message_metadata"))
}

func (p parser) message(f *itemMembers, span rawjson.Span, role wire.Role) bool {
	n := len(p.Blocks)
	if !p.Say(wire.Spoken{Item: span, Content: f.content, Role: role}, p) {
		return false
	}
	if role == wire.RoleAssistant && len(p.Blocks) == n+1 {
		p.addPhase(&p.Blocks[n], f)
	}
	return true
}

// addPhase adds the phase of an answer to its hash, if it has one.
func (p parser) addPhase(b *wire.Block, f *itemMembers) {
	if f.phase.Empty() || wire.IsNull(p.Body, f.phase) {
		return
	}
	text := b.Hash
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.Hasher.Add(text[:])
	p.Hasher.Add(f.phase.Of(p.Body))
	b.Hash = p.Hasher.Sum()
}

// parts describes the parts of a message's content.
var parts = wire.PartMembers{Marker: "prompt_cache_breakpoint", Annotations: []string{"annotations", "logprobs"}}

// Part reads one part of the content of a message.
func (p parser) Part(at int, role wire.Role, index int32) int {
	b := wire.Block{Section: wire.SectionMessages, Role: role, Message: index}
	kind, text, end := parts.Read(p.Parser, at, &b)
	if end < 0 {
		return -1
	}
	switch string(kind.Of(p.Body)) {
	case `"input_text"`, `"output_text"`, `"text"`:
		b.Kind, b.Body = wire.KindText, text
		if text.Len() <= 2 {
			b.Flags |= wire.FlagEmpty
		}
	case `"input_image"`:
		b.Kind = wire.KindImage
	case `"input_file"`:
		b.Kind = wire.KindDocument
	}
	parts.Hash(p.Parser, &b)
	p.Add(b)
	return end
}
