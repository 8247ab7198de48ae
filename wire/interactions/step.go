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

package interactions

import (
	"bytes"
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
)

// stepMembers are the members of a step that mean something here.
type stepMembers struct {
	kind, content, id, callID, name, arguments, result, signature, failed rawjson.Span
}

// slot returns where to keep the member of a name.
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
	}
	return nil
}

// isContent reports whether a type is that of a content, of which a user's input may
// be a list.
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

// Item reads one step of an input, or one content of an input that is the user's alone.
func (p parser) Item(at int) int {
	var f stepMembers
	closed := false
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		slot := f.slot(m.Key)
		value := m.Skip()
		if m.Bad {
			break
		}
		if slot == nil {
			continue
		}
		closed = closed || !slot.Empty()
		*slot = value
	}
	end := m.End
	if closed = closed || m.Bad; closed {
		if end = rawjson.SkipValue(p.Body, at); end < 0 || p.Body[at] != '{' {
			return p.Fail(wire.ErrSyntax)
		}
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
		if p.part(at, role, index) < 0 && p.Shut(at, n, wire.SectionMessages, role, index) < 0 {
			return -1
		}
	case string(kind) == `"user_input"`, string(kind) == `"model_output"`:
		if !p.output(&f, span, role, index) && p.Shut(at, n, wire.SectionMessages, role, index) < 0 {
			return -1
		}
	default:
		p.Add(p.whole(kind, &f, span, role, index))
	}
	p.View.Messages[index].End = int32(len(p.Blocks))
	return end
}

// stepRole tells whose step it is. What the provider's own tools were asked and gave is
// part of the model's answer, as are types that nobody knows yet.
func stepRole(kind []byte) wire.Role {
	switch {
	case string(kind) == `"user_input"`, isContent(kind):
		return wire.RoleUser
	case string(kind) == `"function_result"`:
		return wire.RoleTool
	}
	return wire.RoleAssistant
}

// whole reads a step that is one block: a call, its result, a thought, or something
// opaque.
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
		// What the model has signed is the thought and the call that it led to.
		if n := len(p.Blocks); n > 0 && p.Blocks[n-1].Message == index && p.Blocks[n-1].Kind == wire.KindReasoning && p.Blocks[n-1].Has(wire.FlagSigned) {
			b.Flags |= wire.FlagSigned
		}
	case string(kind) == `"function_result"`:
		b.Kind, b.ID, b.Name = wire.KindToolResult, rawjson.Unquoted(p.Body, f.callID), rawjson.Unquoted(p.Body, f.name)
		if string(f.failed.Of(p.Body)) == "true" {
			b.Flags |= wire.FlagError
		}
		if p.result(&b, f.result) {
			return b
		}
	case bytes.HasSuffix(kind, suffixCall), bytes.HasSuffix(kind, suffixResult):
		b.Kind = wire.KindServerTool // the provider runs it itself
	}
	h := &p.Hasher
	h.Begin(b.Section, b.Role, b.Kind)
	m := rawjson.Walk(p.Body, int(b.Span.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		h.Member(key, value.Of(p.Body))
	}
	b.Hash = h.Sum()
	return b
}

// result reads what a tool has given: a text, an object or a list of contents. It
// reports false for other forms, which stay closed.
func (p parser) result(b *wire.Block, s rawjson.Span) bool {
	if s.Empty() {
		return false
	}
	switch c := p.Body[s.Start]; {
	case c == '[' && !p.contentsOnly(s), c != '[' && c != '"' && c != '{':
		return false
	case s.Len() == 2:
		b.Flags |= wire.FlagEmpty
	case c == '[' && !p.AllText(s):
		b.Flags |= wire.FlagMedia
	}
	b.Body = s
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.HashResult(b, s)
	p.Hasher.Add(b.Name.Of(p.Body))
	if b.Has(wire.FlagError) {
		p.Hasher.Add([]byte("is_error"))
	}
	b.Hash = p.Hasher.Sum()
	return true
}

// contentsOnly reports whether a value is an array of contents.
func (p parser) contentsOnly(s rawjson.Span) bool {
	e := p.Elements(int(s.Start))
	for e.Next() {
		content := false
		m := rawjson.Walk(p.Body, e.At)
		for m.Next() {
			key := string(m.Key)
			value := m.Skip()
			if key == "type" {
				content = isContent(value.Of(p.Body))
			}
		}
		if m.Bad || !content {
			return false
		}
		e.At = m.End
	}
	return !e.Bad
}

// output reads the content of what the user or the model has said. A step of the model
// that holds one content is its block, so that it can be taken out as a whole.
func (p parser) output(f *stepMembers, span rawjson.Span, role wire.Role, index int32) bool {
	if f.content.Empty() || wire.IsNull(p.Body, f.content) {
		return true
	}
	c := p.Body[f.content.Start]
	switch {
	case c != '"' && c != '[':
		p.Fail(fmt.Errorf("%w: content is neither text nor contents", wire.ErrShape))
		return false
	case role != wire.RoleAssistant:
		p.View.Messages[index].Content = f.content
	}
	if c == '"' {
		b := p.Plain(f.content, wire.SectionMessages, role, index)
		if role == wire.RoleAssistant {
			b.Span, b.Flags = span, b.Flags&^wire.FlagString
		}
		p.Add(b)
		return true
	}
	first := len(p.Blocks)
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
	if role != wire.RoleAssistant {
		return true
	}
	parts := p.Blocks[first:]
	if len(parts) == 1 {
		parts[0].Span = span
		return true
	}
	for i := range parts {
		parts[i].Flags |= wire.FlagPart
	}
	return true
}

// part reads one content.
func (p parser) part(at int, role wire.Role, index int32) int {
	b := wire.Block{Section: wire.SectionMessages, Role: role, Message: index}
	var kind, text rawjson.Span
	m := rawjson.Walk(p.Body, at)
	for m.Next() {
		var slot *rawjson.Span
		switch string(m.Key) {
		case "type":
			slot = &kind
		case "text":
			slot = &text
		}
		p.Keep(&m, slot)
	}
	if m.Bad {
		return p.Fail(wire.ErrSyntax)
	}
	b.Span = rawjson.Span{Start: int32(at), End: int32(m.End)}
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
	p.hashPart(&b)
	p.Add(b)
	return m.End
}

// hashPart sets the canonical hash of a content: a text counts like a plain one.
func (p parser) hashPart(b *wire.Block) {
	h := &p.Hasher
	h.Begin(b.Section, b.Role, b.Kind)
	m := rawjson.Walk(p.Body, int(b.Span.Start))
	for m.Next() {
		key := m.Key
		value := m.Skip()
		switch string(key) {
		case "type":
			if b.Kind != wire.KindOther {
				continue
			}
		case "annotations": // of an answer, which clients may send back or not
			if s := value.Of(p.Body); string(s) == "[]" || string(s) == "null" {
				continue
			}
		}
		h.Member(key, value.Of(p.Body))
	}
	b.Hash = h.Sum()
}
