// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// reader reads requests.
type reader struct {
	*translate.Reader
	// pending has the calls, to match results without an id.
	pending pending
	// grown is the text that extend built last.
	grown rawjson.Text
}

// SkipValidator is the placeholder for a signature in a history that another model wrote.
const SkipValidator = seal.SkipValidator

func (r *reader) request(body rawjson.Value, in translate.Incoming) error {
	q := r.Request
	q.IncludeUsage, r.Spell = true, camel
	_, model, stream, ok := Codec{}.Address(in.Path)
	if !ok {
		return fmt.Errorf("%w: its path names no model", translate.ErrBody)
	}
	q.Model, q.Stream = model, stream
	for key, v := range r.BodyMembers(body) {
		var err error
		switch key {
		case "contents":
			err = r.contents(v)
		case "systemInstruction", "system_instruction":
			r.Enter(key, -1)
			if v.IsString() {
				q.System = []translate.Part{{Text: v.Text()}}
			} else {
				r.DropOthers(v, "role", "parts")
				q.System, err = r.parts(r.Member(v, "parts"), 0)
			}
			r.Leave()
		case "tools":
			err = r.ReadTools(v, r.tools)
		case "toolConfig", "tool_config":
			err = r.choice(v)
		case "generationConfig", "generation_config":
			err = r.config(v)
		case "cachedContent", "cached_content":
			if !v.Absent() {
				err = r.Refuse(key, translate.NotStored)
			}
		default:
			r.DropUsed(key, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) config(v rawjson.Value) error {
	q := r.Request
	schema := false
	for key, m := range v.Members() {
		name := camel(key)
		switch name {
		case "stopSequences":
			r.Stops(m)
		case "candidateCount":
			if n, ok := m.Int(); ok && n != 1 {
				return r.Refuse("generationConfig.candidateCount", translate.OneAnswer)
			}
		case "responseLogprobs", "logprobs":
			if !m.Absent() && string(m) != "0" {
				return r.Refuse("generationConfig."+name, translate.NoLogprobs)
			}
		case "responseModalities":
			for _, s := range r.Elements(m) {
				if !strings.EqualFold(s.Str(), "text") {
					return r.Refuse("generationConfig."+name, translate.TextOnly)
				}
			}
		case "responseMimeType":
			switch m.Str() {
			case "application/json":
				if !schema {
					q.Output.Kind = "json"
				}
			case "text/plain", "":
			default:
				return r.Refuse("generationConfig."+name, "the upstream answers in text or JSON only")
			}
		case "responseSchema":
			if !m.Absent() {
				schema = true
				q.Output = translate.Output{Kind: "schema", Schema: jsonSchema(m)}
			}
		case "responseJsonSchema":
			if !m.Absent() {
				schema = true
				q.Output = translate.Output{Kind: "schema", Schema: m}
			}
		case "thinkingConfig":
			r.thinking(m)
		default:
			if !r.Param("generationConfig."+name, m) {
				r.DropUsed("generationConfig."+name, m)
			}
		}
	}
	return nil
}

// camel converts a name to camel case. The API takes snake case too.
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

func (r *reader) thinking(v rawjson.Value) {
	g := &r.Request.Reasoning
	for key, m := range v.Members() {
		switch camel(key) {
		case "includeThoughts":
			g.Show = m.IsTrue()
		case "thinkingBudget":
			switch n, ok := m.Int(); {
			case !ok:
			case n == 0:
				g.Mode = "off"
			case n < 0:
				g.Mode = "adaptive"
			default:
				g.Mode, g.Budget = "on", n
			}
		case "thinkingLevel":
			g.Mode, g.Effort = "on", strings.ToLower(m.Str())
		default:
			r.DropUsed("generationConfig.thinkingConfig."+key, m)
		}
	}
}

func (r *reader) tools(v rawjson.Value) error {
	for i, group := range r.list(v) {
		r.Enter("tools", i)
		for key, m := range group.Members() {
			if camel(key) != "functionDeclarations" {
				r.Drop(key)
				r.Hosted = r.Path(key)
				continue
			}
			if err := r.declarations(m); err != nil {
				return err
			}
		}
		r.Leave()
	}
	return nil
}

func (r *reader) declarations(v rawjson.Value) error {
	for i, f := range r.list(v) {
		r.Enter("functionDeclarations", i)
		var tool translate.Tool
		for name, m := range f.Members() {
			switch camel(name) {
			case "name":
				tool.Name = m.Str()
			case "description":
				tool.Description = m.Text()
			case "parametersJsonSchema":
				tool.Schema = m.Used()
			case "parameters":
				if !m.Absent() {
					tool.Schema = jsonSchema(m)
				}
			default:
				r.DropUsed(name, m)
			}
		}
		if tool.Name == "" {
			return r.Malformed("name")
		}
		r.Request.Tools = append(r.Request.Tools, tool)
		r.Leave()
	}
	return nil
}

func (r *reader) choice(v rawjson.Value) error {
	c := &r.Request.Choice
	for key, m := range v.Members() {
		if camel(key) != "functionCallingConfig" {
			r.DropUsed("toolConfig."+key, m)
			continue
		}
		for name, x := range m.Members() {
			switch camel(name) {
			case "mode":
				switch strings.ToUpper(x.Str()) {
				case "AUTO", "VALIDATED":
					c.Mode = "auto"
				case "ANY":
					c.Mode = "any"
				case "NONE":
					c.Mode = "none"
				}
			case "allowedFunctionNames":
				for _, s := range r.Elements(x) {
					c.Tools = append(c.Tools, translate.ToolName{Name: s.Str()})
				}
			}
		}
	}
	return nil
}

func (r *reader) contents(v rawjson.Value) error {
	if !v.IsArray() && !v.IsObject() {
		return r.Malformed("contents")
	}
	r.Request.Messages = []translate.Message{}
	list := r.list(v)
	if v.IsArray() {
		list = r.MessageElements(v)
	}
	for i, c := range list {
		r.Enter("contents", i)
		r.DropOthers(c, "role", "parts")
		parts, err := r.parts(r.Member(c, "parts"), i)
		if err != nil {
			return err
		}
		switch r.Member(c, "role").Str() {
		case "user", "function", "tool", "":
			r.Message(translate.User, parts)
		case "model":
			r.answer(parts)
		default:
			return r.Malformed("role")
		}
		r.Leave()
	}
	if r.pending.open > 0 {
		return r.Refuse("contents", "a call of a tool has no result")
	}
	for i := range r.Request.Messages {
		if m := &r.Request.Messages[i]; m.Role == translate.Assistant {
			m.Parts = once(m.Parts)
		}
	}
	return nil
}

func (r *reader) answer(parts []translate.Part) {
	// Google's SDKs keep one content for each chunk of a stream, so consecutive ones are one message.
	n := len(r.Request.Messages)
	if n == 0 || r.Request.Messages[n-1].Role != translate.Assistant {
		r.Message(translate.Assistant, parts)
		return
	}
	said := r.Request.Messages[n-1].Parts
	for _, p := range parts {
		if last := len(said) - 1; last >= 0 && goesOn(&said[last], &p) {
			r.extend(&said[last], p.Text)
			continue
		}
		said = reuse.Append(said, p)
	}
	r.Request.Messages[n-1].Parts = said
}

// extend appends to the text of a part.
func (r *reader) extend(p *translate.Part, t rawjson.Text) {
	// The text may alias the request's body, so the first extension copies it.
	if len(p.Text) == 0 || len(r.grown) == 0 || &p.Text[0] != &r.grown[0] {
		p.Text = slices.Clip(p.Text)
	}
	p.Text = append(p.Text, t...)
	r.grown = p.Text
}

// goesOn reports whether p, a text or a thought, continues said.
func goesOn(said, p *translate.Part) bool {
	a, b := said.Proof(), p.Proof()
	return p.Kind == said.Kind && (p.Kind == translate.TextPart || p.Kind == translate.ThinkingPart) &&
		p.Signature+said.Signature+a.Data+b.Data == "" && a.Format == b.Format
}

// list yields the elements of an array. A single element may lack the brackets.
func (r *reader) list(v rawjson.Value) iter.Seq2[int, rawjson.Value] {
	if v.IsObject() {
		return func(yield func(int, rawjson.Value) bool) { yield(0, v) }
	}
	return r.Elements(v)
}
