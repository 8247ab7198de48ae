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

package translate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// skipValidator is what stands for a signature in a history made elsewhere.
const skipValidator = "skip_thought_signature_validator"

func (r *reader) gemini(body raw, in Incoming) error {
	q := r.q
	q.IncludeUsage, r.spell = true, camel
	_, model, stream, ok := wire.Gemini.Codec().(wire.Addresser).Address(in.Path) //nolint:forcetypeassert // it has been registered with one
	if !ok {
		return fmt.Errorf("%w: its path names no model", ErrBody)
	}
	q.Model, q.Stream = model, stream
	for key, v := range body.members() {
		var err error
		switch key {
		case "contents":
			err = r.geminiContents(v)
		case "systemInstruction", "system_instruction":
			r.enter(key, -1)
			if v.isString() {
				q.System = []Part{{Text: v.text()}}
			} else {
				r.dropOthers(v, "role", "parts")
				q.System, err = r.geminiParts(v.member("parts"), 0)
			}
			r.leave()
		case "tools":
			err = r.geminiTools(v)
		case "toolConfig", "tool_config":
			err = r.geminiChoice(v)
		case "generationConfig", "generation_config":
			err = r.geminiConfig(v)
		case "cachedContent", "cached_content":
			if !v.absent() {
				err = r.refuse(key, notStored)
			}
		default:
			r.dropUsed(key, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) geminiConfig(v raw) error {
	q := r.q
	schema := false
	for key, m := range v.members() {
		name := camel(key)
		switch name {
		case "stopSequences":
			for _, s := range r.elements(m) {
				q.Stop = append(q.Stop, s.text())
			}
		case "candidateCount":
			if n, ok := m.int(); ok && n != 1 {
				return r.refuse("generationConfig.candidateCount", "only one answer can be asked for")
			}
		case "responseLogprobs", "logprobs":
			if !m.absent() && string(m) != "0" {
				return r.refuse("generationConfig."+name, "the upstream gives no log probabilities")
			}
		case "responseModalities":
			for _, s := range r.elements(m) {
				if !strings.EqualFold(s.string(), "text") {
					return r.refuse("generationConfig."+name, "the upstream answers in text only")
				}
			}
		case "responseMimeType":
			switch m.string() {
			case "application/json":
				if !schema {
					q.Output.Kind = "json"
				}
			case "text/plain", "":
			default:
				return r.refuse("generationConfig."+name, "the upstream answers in text or JSON only")
			}
		case "responseSchema":
			if !m.absent() {
				schema = true
				q.Output = Output{Kind: "schema", Schema: jsonSchema(m)}
			}
		case "responseJsonSchema":
			if !m.absent() {
				schema = true
				q.Output = Output{Kind: "schema", Schema: m}
			}
		case "thinkingConfig":
			r.geminiThinking(m)
		default:
			if !r.param("generationConfig."+name, m) {
				r.dropUsed("generationConfig."+name, m)
			}
		}
	}
	return nil
}

// camel returns a name in Gemini's preferred spelling: it takes snake_case too.
func camel(name string) string {
	head, tail, found := strings.Cut(name, "_")
	for found {
		if tail == "" {
			break
		}
		head += strings.ToUpper(tail[:1])
		var next string
		next, tail, found = strings.Cut(tail[1:], "_")
		head += next
	}
	return head
}

func (r *reader) geminiThinking(v raw) {
	g := &r.q.Reasoning
	for key, m := range v.members() {
		switch camel(key) {
		case "includeThoughts":
			g.Show = m.isTrue()
		case "thinkingBudget":
			switch n, _ := m.int(); {
			case n == 0:
				g.Mode = "off"
			case n < 0:
				g.Mode = "adaptive"
			default:
				g.Mode, g.Budget = "on", n
			}
		case "thinkingLevel":
			g.Mode, g.Effort = "on", strings.ToLower(m.string())
		default:
			r.dropUsed("generationConfig.thinkingConfig."+key, m)
		}
	}
}

func (r *reader) geminiTools(v raw) error {
	for i, group := range r.elements(v) {
		r.enter("tools", i)
		for key, m := range group.members() {
			if camel(key) != "functionDeclarations" {
				r.drop(key)
				r.hosted = r.path(key)
				continue
			}
			for j, f := range r.elements(m) {
				r.enter("functionDeclarations", j)
				var tool Tool
				for name, x := range f.members() {
					switch camel(name) {
					case "name":
						tool.Name = x.string()
					case "description":
						tool.Description = x.text()
					case "parametersJsonSchema":
						tool.Schema = used(x)
					case "parameters":
						if !x.absent() {
							tool.Schema = jsonSchema(x)
						}
					default:
						r.dropUsed(name, x)
					}
				}
				if tool.Name == "" {
					return r.malformed("name")
				}
				r.q.Tools = append(r.q.Tools, tool)
				r.leave()
			}
		}
		r.leave()
	}
	return nil
}

func (r *reader) geminiChoice(v raw) error {
	c := &r.q.Choice
	for key, m := range v.members() {
		if camel(key) != "functionCallingConfig" {
			r.dropUsed("toolConfig."+key, m)
			continue
		}
		for name, x := range m.members() {
			switch camel(name) {
			case "mode":
				switch strings.ToUpper(x.string()) {
				case "AUTO", "VALIDATED":
					c.Mode = "auto"
				case "ANY":
					c.Mode = "any"
				case "NONE":
					c.Mode = "none"
				}
			case "allowedFunctionNames":
				for _, s := range r.elements(x) {
					c.Tools = append(c.Tools, ToolName{Name: s.string()})
				}
			}
		}
	}
	return nil
}

func (r *reader) geminiContents(v raw) error {
	if !v.isArray() {
		return r.malformed("contents")
	}
	r.q.Messages = []Message{}
	for i, c := range r.elements(v) {
		r.enter("contents", i)
		r.dropOthers(c, "role", "parts")
		parts, err := r.geminiParts(c.member("parts"), i)
		if err != nil {
			return err
		}
		switch c.member("role").string() {
		case "user", "function", "tool", "":
			r.message(User, parts)
		case "model":
			r.geminiAnswer(parts)
		default:
			return r.malformed("role")
		}
		r.leave()
	}
	if r.pending.open > 0 {
		return r.refuse("contents", "a call of a tool has no result")
	}
	return nil
}

// geminiAnswer takes what the model said. Google's SDKs keep one content for each
// chunk of a stream, so that those in a row are one message, and their texts one.
func (r *reader) geminiAnswer(parts []Part) {
	n := len(r.q.Messages)
	if n == 0 || r.q.Messages[n-1].Role != Assistant {
		r.message(Assistant, parts)
		return
	}
	said := r.q.Messages[n-1].Parts
	for _, p := range parts {
		if last := len(said) - 1; last >= 0 && goesOn(&said[last], &p) {
			r.extend(&said[last], p.Text)
			continue
		}
		said = append(said, p)
	}
	r.q.Messages[n-1].Parts = said
}

// extend adds to a text, the first time in new memory.
func (r *reader) extend(p *Part, t text) {
	if len(p.Text) == 0 || len(r.grown) == 0 || &p.Text[0] != &r.grown[0] {
		p.Text = slices.Clip(p.Text)
	}
	p.Text = append(p.Text, t...)
	r.grown = p.Text
}

// goesOn reports whether a text or thought is the next chunk of another.
func goesOn(said, p *Part) bool {
	return p.Kind == said.Kind && (p.Kind == TextPart || p.Kind == ThinkingPart) &&
		p.Signature+said.Signature+p.Sealed.Data+said.Sealed.Data == "" && p.Sealed.Format == said.Sealed.Format
}

func (r *reader) geminiParts(v raw, content int) ([]Part, error) {
	var parts []Part
	for i, v := range r.elements(v) {
		r.enter("parts", i)
		var p Part
		var signature string
		var call, response, inline, file raw
		thought, known := false, false
		for key, m := range v.members() {
			switch camel(key) {
			case "text":
				p.Text, known = m.text(), true
			case "thought":
				thought = m.isTrue()
			case "thoughtSignature":
				if signature = m.string(); signature == skipValidator || signature == unsignedCall {
					signature = ""
				}
			case "functionCall":
				call, known = m, true
			case "functionResponse":
				response, known = m, true
			case "inlineData":
				inline, known = m, true
			case "fileData":
				file, known = m, true
			default:
				r.dropUsed(key, m)
			}
		}
		var err error
		sealed, foreign := Unseal(signature)
		switch {
		case !known:
			r.leave()
			continue
		case call != nil:
			p, err = r.geminiCall(call, content, i)
		case response != nil:
			p, err = r.geminiResponse(response, content)
		case inline != nil:
			p.Kind, p.Field = MediaPart, r.path("inlineData")
			p.Media = &Media{Type: geminiMember(inline, "mimeType").string(), Data: inline.member("data").text(), Name: geminiMember(inline, "displayName").text()}
			if p.Media.Data.empty() {
				err = r.malformed("inlineData.data")
			}
		case file != nil:
			p.Kind, p.Field = MediaPart, r.path("fileData")
			p.Media = &Media{Type: geminiMember(file, "mimeType").string(), URL: geminiMember(file, "fileUri").text()}
			switch uri := string(p.Media.URL); {
			case uri == "":
				err = r.malformed("fileData.fileUri")
			case strings.Contains(uri, "generativelanguage.googleapis.com"), strings.HasPrefix(uri, "gs:"):
				err = r.refuse("fileData", "a file that lies at the provider cannot be read by another one")
			}
		case thought && foreign:
			parts = withThinking(parts, sealed)
			r.leave()
			continue
		case thought:
			p = r.thinking(p.Text, signature)
		}
		if err != nil {
			return nil, err
		}
		switch {
		case foreign:
			parts = withThinking(parts, sealed)
		case !thought:
			p.Signature = signature
		}
		parts = append(parts, p)
		r.leave()
	}
	return parts, nil
}

// withThinking adds reasoning that a client kept on the call behind it. The
// client may still have the text as thoughts of its own, whose place it takes.
func withThinking(parts []Part, s Sealed) []Part {
	from := len(parts) // behind the last call
	for from > 0 && parts[from-1].Kind != CallPart {
		from--
	}
	at := len(parts)
	out := slices.Clone(parts[:from])
	for _, p := range parts[from:] {
		if p.Kind == ThinkingPart && p.Sealed.Data == "" && s.Text != "" {
			at = min(at, len(out))
			continue
		}
		out = append(out, p)
	}
	return slices.Insert(out, min(at, len(out)), Part{Kind: ThinkingPart, Text: escaped(s.Text), Sealed: s})
}

// geminiMember returns a member in either spelling.
func geminiMember(v raw, name string) raw {
	for key, m := range v.members() {
		if camel(key) == name {
			return m
		}
	}
	return nil
}

// geminiCall reads a call. Where it has no id, its place makes one.
func (r *reader) geminiCall(v raw, content, part int) (Part, error) {
	p := Part{Kind: CallPart, ID: v.member("id").string(), Input: input(v.member("args"))}
	r.dropIn("functionCall", v, "id", "name", "args")
	p.Tool.Name = v.member("name").string()
	if p.Tool.Name == "" {
		return p, r.malformed("functionCall.name")
	}
	if p.ID == "" {
		p.ID = "call_" + strconv.Itoa(content) + "_" + strconv.Itoa(part)
	}
	r.pending.add(p.ID, p.Tool.Name)
	return p, nil
}

// geminiResponse reads a result. It answers the call with its id, or the first
// open one of its name.
func (r *reader) geminiResponse(v raw, content int) (Part, error) {
	r.dropIn("functionResponse", v, "id", "name", "response", "parts")
	id, name := v.member("id").string(), v.member("name").string()
	id, ok := r.pending.answer(id, name)
	if !ok {
		return Part{}, r.refuse("functionResponse", "it answers no call before it")
	}
	p := Part{Kind: ResultPart, ID: id, Tool: ToolName{Name: name}}
	t, failed := geminiResult(v.member("response"))
	p.Failed = failed
	if !t.empty() {
		p.Content = []Part{{Text: t}}
	}
	media, err := r.geminiParts(v.member("parts"), content)
	if err != nil {
		return p, err
	}
	p.Content = append(p.Content, media...)
	return p, nil
}

// geminiResult returns the text of a response object: the text in its only
// member output, result or error, or the JSON of the object.
func geminiResult(v raw) (t text, failed bool) {
	if key, only := soleText(v); only != nil {
		return only.text(), key == "error"
	}
	if v.absent() {
		return nil, false
	}
	return escaped(string(v)), false
}

// soleText returns the text member of an object that is nothing but a wrapper
// of it.
func soleText(v raw) (key string, only raw) {
	n := 0
	for k, m := range v.members() {
		if n++; m.isString() && (k == "output" || k == "result" || k == "error") {
			key, only = k, m
		}
	}
	if n != 1 {
		return "", nil
	}
	return key, only
}
