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
	"strconv"
)

// Gemini's members go by two names each, systemInstruction and
// system_instruction: the API reads both, the SDKs of different languages write
// one or the other.

// skipSignature are what stands for a signature where a client has none, as in
// histories that another model wrote: the API then does not look for one
// (Gemini API, "Thought signatures"). Gemini CLI puts it into the run of calls
// that is open and takes it out of those that are finished; to the model it is
// the same as none.
var skipSignature = [...]string{`"skip_thought_signature_validator"`, `"context_engineering_is_the_way_to_go"`}

// The names that the Messages API has for members of a Gemini request.
var (
	likeMessages   = []byte("messages")
	likeSystem     = []byte("system")
	likeTools      = []byte("tools")
	likeToolChoice = []byte("tool_choice")
)

// geminiParser reads requests of the Gemini API.
type geminiParser struct{ *parser }

func geminiName(key []byte) []byte {
	switch string(key) {
	case "contents":
		return likeMessages
	case "systemInstruction", "system_instruction":
		return likeSystem
	case "tools":
		return likeTools
	case "toolConfig", "tool_config":
		return likeToolChoice
	}
	return nil
}

// member reads a member of the top level that has no like in the Messages
// API.
func (p geminiParser) member(key []byte, value Span) {
	switch string(key) {
	case "generationConfig", "generation_config":
		if p.b[value.Start] == '{' {
			p.config(value)
		}
	case "cachedContent", "cached_content":
		p.v.Partial = p.v.Partial || !isNull(p.b, value)
	}
}

// config reads what of a generationConfig means something here.
func (p geminiParser) config(s Span) {
	m := walk(p.b, int(s.Start))
	for m.next() {
		key := m.key
		value := m.skip()
		switch string(key) {
		case "maxOutputTokens", "max_output_tokens":
			if n, err := strconv.Atoi(string(value.Of(p.b))); err == nil {
				p.v.MaxTokens = n
			}
		case "thinkingConfig", "thinking_config":
			p.v.Thinking = value
		case "responseSchema", "response_schema", "responseJsonSchema", "response_json_schema":
			p.v.OutputConfig = value
		}
	}
}

// tool reads one entry of tools: one block for each declaration of a
// function, and one for each tool that the provider runs itself.
func (p geminiParser) tool(at int) int {
	m := walk(p.b, at)
	for m.next() {
		key := m.key
		value := m.skip()
		if m.bad {
			break
		}
		switch string(key) {
		case "functionDeclarations", "function_declarations":
			e := p.elements(int(value.Start))
			for e.next() {
				if e.at = p.declaration(e.at); e.at < 0 {
					return -1
				}
			}
			if e.bad {
				return p.fail(fmt.Errorf("%w: functionDeclarations is not an array", ErrShape))
			}
		default:
			p.hasher.begin(SectionTools, RoleNone, KindToolDef)
			p.hasher.member(key, value.Of(p.b))
			p.addTool(Block{Kind: KindToolDef, Section: SectionTools, Message: -1, Span: value, Hash: p.hasher.end()})
		}
	}
	if m.bad {
		return p.fail(fmt.Errorf("%w: a tool is not an object", ErrShape))
	}
	return m.end
}

func (p geminiParser) declaration(at int) int {
	b := Block{Kind: KindToolDef, Section: SectionTools, Message: -1}
	m := walk(p.b, at)
	p.hasher.begin(SectionTools, RoleNone, KindToolDef)
	for m.next() {
		key := m.key
		value := m.skip()
		if m.bad {
			break
		}
		if string(key) == "name" {
			if !b.Name.Empty() {
				return p.fail(ErrDuplicate)
			}
			b.Name = unquoted(p.b, value)
		}
		p.hasher.member(key, value.Of(p.b))
	}
	if m.bad {
		return p.fail(fmt.Errorf("%w: a function declaration is not an object", ErrShape))
	}
	b.Span = Span{int32(at), int32(m.end)}
	b.Hash = p.hasher.end()
	p.addTool(b)
	return m.end
}

// system reads a systemInstruction: a content whose role means nothing.
func (p geminiParser) system(s Span) int {
	_, parts, end := p.envelope(int(s.Start))
	if end < 0 || !parts.Empty() && !p.parts(parts, SectionSystem, RoleSystem, -1) {
		return -1
	}
	return end
}

// message reads one entry of contents.
func (p geminiParser) message(at int) int {
	index := int32(len(p.v.Messages) - 1)
	role, parts, end := p.envelope(at)
	if end < 0 {
		return -1
	}
	msg := &p.v.Messages[index]
	switch string(role.Of(p.b)) {
	case `"user"`, "", "null":
		msg.Role = RoleUser
	case `"model"`:
		msg.Role = RoleAssistant
	case `"function"`, `"tool"`:
		msg.Role = RoleTool
	default:
		return p.fail(fmt.Errorf("%w: unknown role", ErrShape))
	}
	msg.Content = parts
	if !parts.Empty() && !p.parts(parts, SectionMessages, msg.Role, index) {
		return -1
	}
	return end
}

// envelope reads a content without its parts.
func (p geminiParser) envelope(at int) (role, parts Span, end int) {
	m := walk(p.b, at)
	for m.next() {
		var slot *Span
		switch string(m.key) {
		case "role":
			slot = &role
		case "parts":
			slot = &parts
		}
		value := m.skip()
		if m.bad {
			break
		}
		if slot == nil {
			continue
		}
		if !slot.Empty() {
			return role, parts, p.fail(ErrDuplicate)
		}
		*slot = value
	}
	if m.bad {
		return role, parts, p.fail(fmt.Errorf("%w: a content is not an object", ErrShape))
	}
	if isNull(p.b, parts) {
		parts = Span{}
	}
	return role, parts, m.end
}

// parts reads the parts of a content: an array, or a lone part.
func (p geminiParser) parts(s Span, section Section, role Role, message int32) bool {
	switch p.b[s.Start] {
	case '{':
		return p.part(int(s.Start), section, role, message) > 0
	case '[':
		e := p.elements(int(s.Start))
		for e.next() {
			at, n := e.at, len(p.blocks)
			if e.at = p.part(at, section, role, message); e.at < 0 {
				if e.at = p.shut(at, n, section, role, message); e.at < 0 {
					return false
				}
			}
		}
		if !e.bad {
			return true
		}
	}
	p.fail(fmt.Errorf("%w: parts are no array", ErrShape))
	return false
}

// partMembers are the members of a part that mean something here.
type partMembers struct {
	text, thought, signature, call, response, inline, file, code, codeResult Span
}

// slot returns where to keep the member of a name, and the name in its first
// form.
func (f *partMembers) slot(key []byte) (*Span, string) {
	switch string(key) {
	case "text":
		return &f.text, "text"
	case "thought":
		return &f.thought, "thought"
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

// contents counts the things that a part holds; the API takes one.
func (f *partMembers) contents() (n int) {
	for _, s := range [...]Span{f.text, f.call, f.response, f.inline, f.file, f.code, f.codeResult} {
		if !s.Empty() {
			n++
		}
	}
	return n
}

// part reads one part.
func (p geminiParser) part(at int, section Section, role Role, message int32) int {
	var f partMembers
	m := walk(p.b, at)
	for m.next() {
		slot, _ := f.slot(m.key)
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
	b := Block{Section: section, Role: role, Message: message, Span: Span{int32(at), int32(m.end)}}
	if p.signed(f.signature) {
		b.Flags |= FlagSigned
	}
	switch {
	case f.contents() != 1: // nothing, or what no client sends
	case !f.call.Empty():
		if b.Kind = KindToolUse; !p.function(&b, f.call) {
			return -1
		}
	case !f.response.Empty():
		if b.Kind = KindToolResult; !p.function(&b, f.response) || !p.response(&b) {
			return -1
		}
	case !f.inline.Empty():
		b.Kind = p.media(f.inline)
	case !f.code.Empty(), !f.codeResult.Empty():
		b.Kind = KindServerTool
	case !f.text.Empty() && p.b[f.text.Start] == '"':
		b.Kind, b.Body = KindText, f.text
		if string(f.thought.Of(p.b)) == "true" {
			b.Kind = KindThinking
		}
		if f.text.Len() == 2 {
			b.Flags |= FlagEmpty
		}
	}
	p.hash(&b)
	p.blocks = append(p.blocks, b)
	return m.end
}

// signed tells whether the value of a thoughtSignature is one that a model gave.
func (p geminiParser) signed(s Span) bool {
	value := string(s.Of(p.b))
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

// function reads a functionCall or a functionResponse. Its Body is the
// args or the response.
func (p geminiParser) function(b *Block, s Span) bool {
	m := walk(p.b, int(s.Start))
	for m.next() {
		key := m.key
		value := m.skip()
		if m.bad {
			break
		}
		if isNull(p.b, value) {
			continue
		}
		var slot *Span
		switch string(key) {
		case "id":
			slot, value = &b.ID, unquoted(p.b, value)
		case "name":
			slot, value = &b.Name, unquoted(p.b, value)
		case "args", "response":
			slot = &b.Body
		case "parts":
			if string(value.Of(p.b)) != "[]" {
				b.Flags |= FlagMedia
			}
			continue
		default:
			continue
		}
		if !slot.Empty() {
			p.fail(ErrDuplicate)
			return false
		}
		*slot = value
	}
	if m.bad {
		p.fail(fmt.Errorf("%w: a call or a response is not an object", ErrShape))
		return false
	}
	if !b.Body.Empty() && p.b[b.Body.Start] != '{' {
		b.Body = Span{}
	}
	return true
}

// response looks for what an edit of a response may replace: the text that
// the client's tool gave, where a member names it. That is output, as the SDKs
// and Gemini CLI have it, or result or content; error says that the tool failed.
// A response without them is replaced as a whole.
func (p geminiParser) response(b *Block) bool {
	if b.Body.Empty() {
		b.Flags |= FlagEmpty
		return true
	}
	names := [...]string{"output", "result", "content", "error"}
	var texts [len(names)]Span
	m := walk(p.b, int(b.Body.Start))
	for m.next() {
		key := m.key
		value := m.skip()
		for i, name := range names {
			if string(key) != name {
				continue
			}
			if !texts[i].Empty() {
				p.fail(ErrDuplicate)
				return false
			}
			texts[i] = value
		}
	}
	if m.bad { // a key with escapes, which only a tool can have made
		return true
	}
	for i, text := range texts {
		if text.Empty() || p.b[text.Start] != '"' {
			continue
		}
		b.Body = text
		if names[i] == "error" {
			b.Flags |= FlagError
		}
		break
	}
	if s := b.Body.Of(p.b); string(s) == `""` || string(s) == "{}" {
		b.Flags |= FlagEmpty
	}
	return true
}

// media tells what kind of data stands in a part.
func (p geminiParser) media(s Span) Kind {
	m := walk(p.b, int(s.Start))
	for m.next() {
		mime := string(m.key) == "mimeType" || string(m.key) == "mime_type"
		value := m.skip()
		switch {
		case !mime:
		case bytes.HasPrefix(value.Of(p.b), []byte(`"image/`)):
			return KindImage
		case string(value.Of(p.b)) == `"application/pdf"`:
			return KindDocument
		}
	}
	return KindOther
}

// hash sets the canonical hash of a part whose members are known to be
// well formed: all of them, under their first names, but for what stands for a
// signature where there is none.
func (p geminiParser) hash(b *Block) {
	h := &p.hasher
	h.begin(b.Section, b.Role, b.Kind)
	var f partMembers
	m := walk(p.b, int(b.Span.Start))
	for m.next() {
		key := m.key
		slot, name := f.slot(key)
		value := m.skip()
		switch {
		case slot == &f.signature && !b.Has(FlagSigned):
			continue
		case slot == &f.thought && b.Kind != KindOther: // the kind tells
			continue
		case slot != nil:
			h.add([]byte(name))
			h.add(value.Of(p.b))
			continue
		}
		h.member(key, value.Of(p.b))
	}
	b.Hash = h.end()
}
