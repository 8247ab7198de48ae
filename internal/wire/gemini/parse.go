// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Each member has two names, as systemInstruction and system_instruction. The API reads both; each
// SDK writes one of them.

// skipSignature are the placeholders for a missing signature, as in a history that another model
// wrote. The API does not validate them (Gemini API, "Thought signatures").
var skipSignature = [...]string{`"skip_thought_signature_validator"`, `"context_engineering_is_the_way_to_go"`}

// names maps the members of a Gemini request to their names in the Messages API.
var names = wire.Names(map[string]string{
	"contents": "messages", "systemInstruction": "system", "system_instruction": "system", "tools": "tools",
	"toolConfig": "tool_choice", "tool_config": "tool_choice", "serviceTier": "service_tier",
})

// parser reads requests of the Gemini API.
type parser struct{ *wire.Parser }

// member reads a top-level member without a counterpart in the Messages API.
func (p parser) member(key []byte, value rawjson.Span) {
	switch string(key) {
	case "generationConfig", "generation_config":
		if p.Body[value.Start] == '{' {
			p.config(value)
		}
	case "cachedContent", "cached_content":
		p.View.Conversation.Partial = p.View.Conversation.Partial || !wire.IsNull(p.Body, value)
	}
}

// config reads the limits and options in a generationConfig.
func (p parser) config(s rawjson.Span) {
	m := rawjson.Walk(p.Body, int(s.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		switch string(key) {
		case "maxOutputTokens", "max_output_tokens":
			if n, err := strconv.Atoi(string(value.Of(p.Body))); err == nil {
				p.View.Reply.MaxTokens = n
			}
		case "thinkingConfig", "thinking_config":
			p.View.Reply.Thinking = value
		case "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema":
			p.View.Reply.OutputConfig = value
		}
	}
}

// tool reads one entry of tools.
func (p parser) tool(at int) int {
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		switch string(key) {
		case "functionDeclarations", "function_declarations":
			e := p.Elements(int(value.Start))
			for e.Next() {
				if e.At = p.declaration(e.At); e.At < 0 {
					return -1
				}
			}
			if e.Bad {
				return p.Fail(fmt.Errorf("%w: functionDeclarations is not an array", wire.ErrShape))
			}
		default:
			p.Hasher.Begin(wire.SectionTools, wire.RoleNone, wire.KindToolDef)
			p.Hasher.Member(key, value.Of(p.Body))
			p.AddTool(wire.Block{
				Kind: wire.KindToolDef, Section: wire.SectionTools, Message: -1, Span: value,
				Hash: p.Hasher.Sum(),
			})
		}
	}
	if m.Bad {
		return p.Fail(fmt.Errorf("%w: a tool is not an object", wire.ErrShape))
	}
	return m.End
}

func (p parser) declaration(at int) int {
	b := wire.Block{Kind: wire.KindToolDef, Section: wire.SectionTools, Message: -1}
	m := rawjson.Walk(p.Body, at)
	p.Hasher.Begin(wire.SectionTools, wire.RoleNone, wire.KindToolDef)
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		if string(key) == "name" {
			if !b.Name.Empty() {
				return p.Fail(wire.ErrDuplicate)
			}
			b.Name = rawjson.Unquoted(p.Body, value)
		}
		p.Hasher.Member(key, value.Of(p.Body))
	}
	if m.Bad {
		return p.Fail(fmt.Errorf("%w: a function declaration is not an object", wire.ErrShape))
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
	b.Hash = p.Hasher.Sum()
	p.AddTool(b)
	return m.End
}

// system reads a systemInstruction, a content. Its role is ignored.
func (p parser) system(s rawjson.Span) int {
	_, parts, end := p.envelope(int(s.Start))
	if end < 0 || !parts.Empty() && !p.parts(parts, wire.SectionSystem, wire.RoleSystem, -1) {
		return -1
	}
	return end
}

// Message reads one entry of contents.
func (p parser) Message(at int) int {
	index := int32(len(p.View.Messages) - 1)
	role, parts, end := p.envelope(at)
	if end < 0 {
		return -1
	}
	msg := &p.View.Messages[index]
	switch string(role.Of(p.Body)) {
	case `"user"`, "", "null":
		msg.Role = wire.RoleUser
	case `"model"`:
		msg.Role = wire.RoleAssistant
	case `"function"`, `"tool"`:
		msg.Role = wire.RoleTool
	default:
		return p.Fail(fmt.Errorf("%w: unknown role", wire.ErrShape))
	}
	msg.Content = parts
	if !parts.Empty() && !p.parts(parts, wire.SectionMessages, msg.Role, index) {
		return -1
	}
	return end
}

// envelope reads a content without its parts.
func (p parser) envelope(at int) (role, parts rawjson.Span, end int) {
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		var slot *rawjson.Span
		switch string(m.Key) {
		case "role":
			slot = &role
		case "parts":
			slot = &parts
		}
		p.Keep(&m, slot)
	}
	if m.Bad {
		return role, parts, p.Fail(fmt.Errorf("%w: a content is not an object", wire.ErrShape))
	}
	if wire.IsNull(p.Body, parts) {
		parts = rawjson.Span{}
	}
	return role, parts, m.End
}

// parts reads the parts of a content: an array, or a single part without brackets.
func (p parser) parts(s rawjson.Span, section wire.Section, role wire.Role, message int32) bool {
	switch p.Body[s.Start] {
	case '{':
		return p.part(int(s.Start), section, role, message) > 0
	case '[':
		e := p.Elements(int(s.Start))
		for e.Next() {
			at, n := e.At, len(p.Blocks)
			if e.At = p.part(at, section, role, message); e.At < 0 {
				if e.At = p.Shut(at, n, section, role, message); e.At < 0 {
					return false
				}
			}
		}
		if !e.Bad {
			return true
		}
	}
	p.Fail(fmt.Errorf("%w: parts are no array", wire.ErrShape))
	return false
}

// partMembers are the members of a part that the parser reads.
type partMembers struct {
	text, thought, signature, call, response, inline, file, code, codeResult rawjson.Span
}

// slot returns the field for the member with a name, and the name in camel case.
func (f *partMembers) slot(key []byte) (*rawjson.Span, string) {
	switch string(key) {
	case "text":
		return &f.text, "text"
	case "thought":
		return &f.thought, "thought"
	// Protobuf's JSON accepts both spellings.
	case "thoughtSignature", "thought_signature":
		return &f.signature, "thoughtSignature"
	case "functionCall", "function_call":
		return &f.call, "functionCall"
	case "functionResponse", "function_response":
		return &f.response, "functionResponse"
	case "inlineData", "inline_data":
		return &f.inline, "inlineData"
	case "fileData", "file_data":
		return &f.file, "fileData"
	case "executableCode", "executable_code":
		return &f.code, "executableCode"
	case "codeExecutionResult", "code_execution_result":
		return &f.codeResult, "codeExecutionResult"
	}
	return nil, ""
}

// contents counts the contents of a part. The API takes exactly one.
func (f *partMembers) contents() (n int) {
	for _, s := range [...]rawjson.Span{f.text, f.call, f.response, f.inline, f.file, f.code, f.codeResult} {
		if !s.Empty() {
			n++
		}
	}
	return n
}

// part reads one part.
func (p parser) part(at int, section wire.Section, role wire.Role, message int32) int {
	var f partMembers
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		slot, _ := f.slot(m.Key)
		p.Keep(&m, slot)
	}
	if m.Bad {
		return p.Fail(wire.ErrSyntax)
	}
	b := wire.Block{
		Section: section, Role: role, Message: message,
		Span: rawjson.Span{Start: int32(at), End: int32(m.End)},
	}
	if p.signed(f.signature) {
		b.Flags |= wire.FlagSigned
	}
	switch {
	case f.contents() != 1: // an invalid part, or one of an unknown type
	case !f.call.Empty():
		if b.Kind = wire.KindToolUse; !p.function(&b, f.call) {
			return -1
		}
	case !f.response.Empty():
		if b.Kind = wire.KindToolResult; !p.function(&b, f.response) || !p.response(&b) {
			return -1
		}
	case !f.inline.Empty():
		b.Kind = p.media(f.inline)
	case !f.code.Empty(), !f.codeResult.Empty():
		b.Kind = wire.KindServerTool
	case !f.text.Empty() && p.Body[f.text.Start] == '"':
		b.Kind, b.Body = wire.KindText, f.text
		if string(f.thought.Of(p.Body)) == "true" {
			b.Kind = wire.KindThinking
		}
		if f.text.Len() == 2 {
			b.Flags |= wire.FlagEmpty
		}
	}
	p.hash(&b)
	p.Add(b)
	return m.End
}

// signed reports whether the value of a thoughtSignature is a signature by a model.
func (p parser) signed(s rawjson.Span) bool {
	value := string(s.Of(p.Body))
	if value == "" || value == "null" || value == `""` {
		return false
	}
	for _, skip := range skipSignature {
		if value == skip {
			return false
		}
	}
	return true
}

// function reads a functionCall or a functionResponse. The block's Body becomes its args or response.
func (p parser) function(b *wire.Block, s rawjson.Span) bool {
	m := rawjson.Walk(p.Body, int(s.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		if m.Bad {
			break
		}
		if wire.IsNull(p.Body, value) {
			continue
		}
		var slot *rawjson.Span
		switch string(key) {
		case "id":
			slot, value = &b.ID, rawjson.Unquoted(p.Body, value)
		case "name":
			slot, value = &b.Name, rawjson.Unquoted(p.Body, value)
		case "args", "response":
			slot = &b.Body
		case "parts":
			if string(value.Of(p.Body)) != "[]" {
				b.Flags |= wire.FlagMedia
			}
			continue
		default:
			continue
		}
		if !slot.Empty() {
			p.Fail(wire.ErrDuplicate)
			return false
		}
		*slot = value
	}
	if m.Bad {
		p.Fail(fmt.Errorf("%w: a call or a response is not an object", wire.ErrShape))
		return false
	}
	if !b.Body.Empty() && p.Body[b.Body.Start] != '{' {
		b.Body = rawjson.Span{}
	}
	return true
}

// response sets the block's Body to the replaceable text of a response, if there is one.
func (p parser) response(b *wire.Block) bool {
	if b.Body.Empty() {
		b.Flags |= wire.FlagEmpty
		return true
	}
	// Google's SDKs and Gemini CLI write output. Error tells that the tool failed.
	names := [...]string{"output", "result", "content", "error"}
	var texts [len(names)]rawjson.Span
	m := rawjson.Walk(p.Body, int(b.Body.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		for i, name := range names {
			if string(key) != name {
				continue
			}
			if !texts[i].Empty() {
				p.Fail(wire.ErrDuplicate)
				return false
			}
			texts[i] = value
		}
	}
	if m.Bad { // a key with escapes, which only the client's tool can have written
		return true
	}
	for i, text := range texts {
		if text.Empty() || p.Body[text.Start] != '"' {
			continue
		}
		b.Body = text
		if names[i] == "error" {
			b.Flags |= wire.FlagError
		}
		break
	}
	if s := b.Body.Of(p.Body); string(s) == `""` || string(s) == "{}" {
		b.Flags |= wire.FlagEmpty
	}
	return true
}

// media returns the kind of the data in a part.
func (p parser) media(s rawjson.Span) wire.Kind {
	m := rawjson.Walk(p.Body, int(s.Start))
	for m.Next() {
		mime := string(m.Key) == "mimeType" || string(m.Key) == "mime_type"
		value := m.Skip()
		switch {
		case !mime:
		case bytes.HasPrefix(value.Of(p.Body), []byte(`"image/`)):
			return wire.KindImage
		case string(value.Of(p.Body)) == `"application/pdf"`:
			return wire.KindDocument
		}
	}
	return wire.KindOther
}

// hash sets the canonical hash of a part. Its members must be well formed.
func (p parser) hash(b *wire.Block) {
	h := &p.Hasher
	h.Begin(b.Section, b.Role, b.Kind)
	var f partMembers
	m := rawjson.Walk(p.Body, int(b.Span.Start))
	for m.Next() {
		key := m.Key
		slot, name := f.slot(key)
		value := m.Skip()
		switch {
		case slot == &f.signature && !b.Has(wire.FlagSigned):
			// Gemini CLI adds the placeholder to an unfinished run of calls and removes it later.
			// The model sees no difference.
			continue
		case slot == &f.thought && b.Kind != wire.KindOther: // the kind includes it
			continue
		case slot != nil:
			// Both spellings of a name are the same part.
			h.Add([]byte(name))
			h.Add(value.Of(p.Body))
			continue
		}
		h.Member(key, value.Of(p.Body))
	}
	b.Hash = h.Sum()
}
