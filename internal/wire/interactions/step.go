// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// stepMembers are the members of a step that the parser reads.
type stepMembers struct {
	kind, content, id, callID, name, arguments, result, signature, failed, caller rawjson.Span
}

// slot returns the field for the member with a name, nil for other members.
func (m *stepMembers) slot(key []byte) *rawjson.Span {
	switch string(key) {
	case "type":
		return &m.kind
	case "content":
		return &m.content
	case "id":
		return &m.id
	case "call_id":
		return &m.callID
	case "name":
		return &m.name
	case "arguments":
		return &m.arguments
	case "result":
		return &m.result
	case "signature":
		return &m.signature
	case "is_error":
		return &m.failed
	case "caller":
		return &m.caller
	}
	return nil
}

// isContent reports whether a type is that of a content. A user's input may be a list of contents.
func isContent(kind []byte) bool {
	switch string(kind) {
	case `"text"`, `"image"`, `"document"`, `"audio"`, `"video"`:
		return true
	}
	return false
}

var (
	suffixCall   = []byte(`_call"`)
	suffixResult = []byte(`_result"`)
)

// Item reads one step of an input, or one content of an input that is a list of contents.
func (p parser) Item(at int) int {
	var f stepMembers
	m := p.Members(at)
	for m.Next() {
		m.Keep(f.slot(m.Key))
	}
	end, closed := p.EndOf(&m)
	if end < 0 {
		return -1
	}
	kind := f.kind.Of(p.Body)
	role := stepRole(kind)
	if role == wire.RoleAssistant || role == wire.RoleTool {
		if end := p.Answered(at); end > 0 {
			return end
		}
	}
	span := rawjson.Span{Start: int32(at), End: int32(end)}
	p.Enter(role, span)
	index, n := int32(len(p.View.Messages)-1), len(p.Blocks)
	switch {
	case closed:
		p.Shut(at, n, wire.SectionMessages, role, index)
	case isContent(kind):
		if p.Part(at, role, index) < 0 && p.Shut(at, n, wire.SectionMessages, role, index) < 0 {
			return -1
		}
	case string(kind) == `"user_input"`, string(kind) == `"model_output"`:
		if !p.Say(wire.Spoken{Item: span, Content: f.content, Role: role}, p) &&
			p.Shut(at, n, wire.SectionMessages, role, index) < 0 {
			return -1
		}
	default:
		p.Add(p.whole(kind, &f, span, role, index))
	}
	p.View.Messages[index].End = int32(len(p.Blocks))
	return end
}

// stepRole returns the role of a step.
func stepRole(kind []byte) wire.Role {
	switch {
	case string(kind) == `"user_input"`, isContent(kind):
		return wire.RoleUser
	case string(kind) == `"function_result"`:
		return wire.RoleTool
	}
	// Calls and results of the provider's own tools, and steps of unknown types, are part of the
	// model's answer.
	return wire.RoleAssistant
}

// whole reads a step that becomes one block: a call, a result, a thought, or an opaque step.
func (p parser) whole(kind []byte, f *stepMembers, span rawjson.Span, role wire.Role, index int32) wire.Block {
	b := wire.Block{Section: wire.SectionMessages, Role: role, Message: index, Span: span}
	if len(rawjson.Unquoted(p.Body, f.signature).Of(p.Body)) > 0 {
		b.Flags |= wire.FlagSigned
	}
	switch {
	case string(kind) == `"thought"`:
		b.Kind = wire.KindReasoning
	case string(kind) == `"function_call"`:
		b.Kind, b.ID, b.Name = wire.KindToolUse, rawjson.Unquoted(p.Body, f.id), rawjson.Unquoted(p.Body, f.name)
		if b.Body = f.arguments; !b.Body.Empty() && p.Body[b.Body.Start] != '{' {
			b.Body = rawjson.Span{}
		}
		// The signature of a thought also covers the call after it.
		if n := len(p.Blocks); n > 0 && p.Blocks[n-1].Message == index && p.Blocks[n-1].Kind == wire.KindReasoning &&
			p.Blocks[n-1].Has(wire.FlagSigned) {
			b.Flags |= wire.FlagSigned
		}
		p.Program(&b, f.caller)
	case string(kind) == `"function_result"`:
		b.Kind, b.ID, b.Name = wire.KindToolResult, rawjson.Unquoted(p.Body, f.callID), rawjson.Unquoted(p.Body, f.name)
		if string(f.failed.Of(p.Body)) == "true" {
			b.Flags |= wire.FlagError
		}
		if p.result(&b, f) {
			return b
		}
		p.Program(&b, f.caller)
	case bytes.HasSuffix(kind, suffixCall), bytes.HasSuffix(kind, suffixResult):
		b.Kind = wire.KindServerTool // the provider runs this tool itself
	}
	p.HashMembers(&b, func(_, _ []byte) bool { return true })
	return b
}

// result reads the result of a tool. It reports false for unknown forms, which are opaque.
func (p parser) result(b *wire.Block, f *stepMembers) bool {
	s := f.result
	if s.Empty() {
		return false
	}
	switch c := p.Body[s.Start]; {
	case c == '[' && !p.OnlyParts(s, isContent), c != '[' && c != '"' && c != '{':
		return false
	case s.Len() == 2:
		b.Flags |= wire.FlagEmpty
	case c == '[' && !p.AllText(s):
		b.Flags |= wire.FlagMedia
	}
	b.Body = s
	p.Program(b, f.caller)
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.HashResult(b, s)
	p.Hasher.Add(b.Name.Of(p.Body))
	if b.Has(wire.FlagError) {
		p.Hasher.Add([]byte("is_error"))
	}
	b.Hash = p.Hasher.Sum()
	return true
}

// contents describes the contents of a step.
var contents = wire.PartMembers{Annotations: []string{"annotations"}}

// Part reads one content.
func (p parser) Part(at int, role wire.Role, index int32) int {
	b := wire.Block{Section: wire.SectionMessages, Role: role, Message: index}
	kind, text, end := contents.Read(p.Parser, at, &b)
	if end < 0 {
		return -1
	}
	switch string(kind.Of(p.Body)) {
	case `"text"`:
		b.Kind, b.Body = wire.KindText, text
		if text.Len() <= 2 {
			b.Flags |= wire.FlagEmpty
		}
	case `"image"`:
		b.Kind = wire.KindImage
	case `"document"`:
		b.Kind = wire.KindDocument
	}
	contents.Hash(p.Parser, &b)
	p.Add(b)
	return end
}
