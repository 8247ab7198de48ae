// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// reader reads requests.
type reader struct{ *translate.Reader }

func (r reader) request(body rawjson.Value) error {
	q := r.Request
	q.IncludeUsage = true
	var in rawjson.Value
	for key, v := range r.BodyMembers(body) {
		var err error
		switch key {
		case "model":
			q.Model = v.Str()
		case "stream":
			q.Stream = v.IsTrue()
		case "system_instruction":
			if v.IsString() {
				q.System = []translate.Part{{Text: v.Text()}}
			} else if !v.Absent() {
				err = r.Malformed(key)
			}
		case "input":
			in = v
		case "tools":
			err = r.ReadTools(v, r.tools)
		case "generation_config":
			err = r.config(v)
		case "response_format":
			err = r.format(v)
		case "response_mime_type":
			if v.Str() == "application/json" && q.Output.Kind == "" {
				q.Output.Kind = "json"
			}
		case "response_modalities":
			for _, s := range r.Elements(v) {
				if !strings.EqualFold(s.Str(), "text") {
					err = r.Refuse(key, translate.TextOnly)
				}
			}
		case "previous_interaction_id", "cached_content", "continuation_token":
			if !v.Absent() {
				err = r.Refuse(key, translate.NotStored)
			}
		case "agent", "agent_config", "environment":
			if !v.Absent() {
				err = r.Refuse(key, "an agent of the provider's has no counterpart at this upstream")
			}
		case "background", "webhook_config":
			if !v.Absent() && string(v) != "false" {
				err = r.Refuse(key, "the upstream cannot answer in the background")
			}
		default:
			if !r.Param(key, v) {
				r.DropUsed(key, v)
			}
		}
		if err != nil {
			return err
		}
	}
	return r.input(in)
}

func (r reader) config(v rawjson.Value) error {
	q := r.Request
	for name, m := range v.Members() {
		switch path := "generation_config." + name; name {
		case "stop_sequences":
			r.Stops(m)
		case "thinking_level":
			if level := m.Str(); level != "" {
				q.Reasoning.Mode, q.Reasoning.Effort = "on", strings.ToLower(level)
			}
		case "thinking_summaries":
			q.Reasoning.Show = m.Str() == "auto"
		case "tool_choice":
			if err := r.choice(path, m); err != nil {
				return err
			}
		default:
			if !r.Param(path, m) {
				r.DropUsed(path, m)
			}
		}
	}
	return nil
}

func (r reader) choice(path string, v rawjson.Value) error {
	c, mode := &r.Request.Choice, v
	r.DropIn(path, v, "allowed_tools")
	if allowed := r.Member(v, "allowed_tools"); allowed.IsObject() {
		r.DropIn(path+".allowed_tools", allowed, "mode", "tools")
		for _, name := range r.Elements(allowed.Member("tools")) {
			c.Tools = append(c.Tools, translate.ToolName{Name: name.Str()})
		}
		if mode = allowed.Member("mode"); mode.Absent() {
			return nil
		}
	}
	switch word := strings.ToLower(mode.Str()); {
	case word == "auto", word == "any", word == "none":
		c.Mode = word
	case word == "validated":
		c.Mode = "auto"
	case !mode.Absent():
		return r.Refuse(path, translate.ForeignChoice)
	}
	return nil
}

func (r reader) format(v rawjson.Value) error {
	if v.IsArray() {
		for i, f := range r.Elements(v) {
			r.Enter("response_format", i)
			// Only a form for text can be translated.
			if err := r.textFormat(f); err != nil {
				return err
			}
			r.Leave()
		}
		return nil
	}
	r.Enter("response_format", -1)
	defer r.Leave()
	return r.textFormat(v)
}

func (r reader) textFormat(v rawjson.Value) error {
	if !v.IsObject() {
		return nil
	}
	o := &r.Request.Output
	switch r.Member(v, "type").Str() {
	case "text":
		r.DropOthers(v, "type", "mime_type", "schema")
		if schema := r.Member(v, "schema").Used(); schema != nil {
			*o = translate.Output{Kind: "schema", Schema: schema}
		} else if r.Member(v, "mime_type").Str() == "application/json" {
			o.Kind = "json"
		}
	case "audio", "image", "video":
		return r.Refuse("type", translate.TextOnly)
	default: // a bare schema, as in the API's first revision
		*o = translate.Output{Kind: "schema", Schema: v}
	}
	return nil
}

func (r reader) tools(v rawjson.Value) error {
	for i, t := range r.Elements(v) {
		r.Enter("tools", i)
		if t.Member("type").Str() != "function" {
			r.Drop("type")
			r.Hosted = r.Path("type")
			r.Leave()
			continue
		}
		r.DropOthers(t, "type", "name", "description", "parameters")
		tool := translate.Tool{Description: t.Member("description").Text(), Schema: t.Member("parameters").Used()}
		if tool.Name = t.Member("name").Str(); tool.Name == "" {
			return r.Malformed("name")
		}
		r.Request.Tools = append(r.Request.Tools, tool)
		r.Leave()
	}
	return nil
}

// input reads a text, a content, a list of contents or a list of steps.
func (r reader) input(v rawjson.Value) error {
	switch {
	case v.IsString():
		r.Message(translate.User, []translate.Part{{Text: v.Text()}})
		return nil
	case v.IsObject():
		n := len(r.Parts)
		r.Enter("input", -1)
		if err := r.part(v); err != nil {
			return err
		}
		r.Leave()
		r.Message(translate.User, r.Gather(n))
		return nil
	case !v.IsArray():
		return r.Malformed("input")
	}
	r.Request.Messages = []translate.Message{}
	var contents, results bool // the previous element was a content, or a result
	for i, s := range r.MessageElements(v) {
		r.Enter("input", i)
		kind := r.Member(s, "type").Str()
		content := kinds[kind]
		if content {
			n := len(r.Parts)
			if err := r.part(s); err != nil {
				return err
			}
			if parts := r.Gather(n); contents {
				r.Join(translate.User, parts...)
			} else {
				r.Message(translate.User, parts)
			}
		} else if err := r.step(kind, s, results); err != nil {
			return err
		}
		contents, results = content, kind == "function_result"
		r.Leave()
	}
	return nil
}

// kinds are the types of contents.
var kinds = map[string]bool{"text": true, "image": true, "document": true, "audio": true, "video": true}

// step reads one step. Consecutive steps of the model become one message, as do consecutive results.
func (r reader) step(kind string, s rawjson.Value, results bool) error {
	switch kind {
	case "user_input", "model_output":
		r.DropOthers(s, "type", "content")
		parts, err := r.Content("content", r.Member(s, "content"), r.part)
		switch {
		case err != nil:
			return err
		case kind == "user_input":
			r.Message(translate.User, parts)
		case len(parts) > 0:
			r.Join(translate.Assistant, parts...)
		}
	case "thought":
		r.DropOthers(s, "type", "signature", "summary")
		r.Join(translate.Assistant, r.thought(s))
	case "function_call":
		r.DropOthers(s, "type", "id", "name", "arguments")
		p := translate.Part{Kind: translate.CallPart, Input: translate.CallInput(r.Member(s, "arguments"))}
		p.ID, p.Signature = seal.OpenID(r.Member(s, "id").Str())
		if p.Tool.Name = r.Member(s, "name").Str(); p.Tool.Name == "" {
			return r.Malformed("name")
		}
		r.Join(translate.Assistant, p)
	case "function_result":
		r.DropOthers(s, "type", "call_id", "name", "is_error", "result")
		p := translate.Part{
			Kind: translate.ResultPart, Failed: r.Member(s, "is_error").IsTrue(),
			Tool: translate.ToolName{Name: r.Member(s, "name").Str()},
		}
		p.ID, _ = seal.OpenID(r.Member(s, "call_id").Str())
		if v := r.Member(s, "result"); v.IsObject() {
			p.Content = []translate.Part{{Text: rawjson.Escaped(string(v))}}
		} else {
			var err error
			if p.Content, err = r.Content("result", v, r.part); err != nil {
				return err
			}
		}
		if results {
			r.Join(translate.User, p)
		} else {
			r.Message(translate.User, []translate.Part{p})
		}
	case "":
		return r.Malformed("type")
	default:
		r.Drop("type")
	}
	return nil
}

// thought reads a thought. Its text is the summary.
func (r reader) thought(s rawjson.Value) translate.Part {
	var t rawjson.Text
	for i, c := range r.Elements(r.Member(s, "summary")) {
		r.Enter("summary", i)
		r.DropOthers(c, "type", "text")
		r.Leave()
		if piece := r.Member(c, "text").Text(); !piece.Empty() {
			if !t.Empty() {
				t = append(t[:len(t):len(t)], `\n\n`...)
			}
			t = append(t[:len(t):len(t)], piece...)
		}
	}
	return r.Thinking(t, r.Member(s, "signature").Str())
}

// part reads one content.
func (r reader) part(v rawjson.Value) error {
	kind := r.Member(v, "type").Str()
	if kind == "text" {
		r.DropOthers(v, "type", "text", "annotations")
		r.Add(translate.Part{Text: r.Member(v, "text").Text()})
		return nil
	}
	if !kinds[kind] {
		return r.Refuse("type", "unknown kind of content")
	}
	r.DropOthers(v, "type", "data", "uri", "mime_type")
	m := &translate.Media{
		Field: r.Path("type"), Type: r.Member(v, "mime_type").Str(), Data: r.Member(v, "data").Text(),
		URL: r.Member(v, "uri").Text(),
	}
	if m.Type == "" {
		if m.Type = kind + "/*"; kind == "document" {
			m.Type = "application/pdf"
		}
	}
	switch uri := string(m.URL); {
	case !m.Data.Empty():
		m.URL = nil
	case uri == "":
		return r.Malformed("data")
	case strings.Contains(uri, "generativelanguage.googleapis.com"), strings.HasPrefix(uri, "gs:"):
		return r.Refuse("uri", translate.ForeignFile)
	}
	r.Add(translate.Part{Kind: translate.MediaPart, Media: m})
	return nil
}
