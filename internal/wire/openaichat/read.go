// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// reader reads requests.
type reader struct{ openai.Reader }

func (r reader) request(body rawjson.Value) error {
	q := r.Request
	for key, v := range r.BodyMembers(body) {
		var err error
		switch key {
		case "model":
			q.Model = v.Str()
		case "stream":
			q.Stream = v.IsTrue()
		case "stream_options":
			q.IncludeUsage = r.Member(v, "include_usage").IsTrue()
			r.DropIn(key, v, "include_usage")
		case "messages":
			err = r.messages(v)
		case "tools":
			err = r.ReadTools(v, r.tools)
		case "tool_choice":
			err = r.choice(v)
		case "parallel_tool_calls":
			q.Choice.Single, q.Choice.Parallel = string(v) == "false", v.IsTrue()
		case "max_tokens":
			if q.Params[translate.MaxTokens] == nil && v.IsNumber() {
				q.Params[translate.MaxTokens] = v
			}
		case "stop":
			if v.IsString() {
				q.Stop = []rawjson.Text{v.Text()}
			}
			r.Stops(v)
		case "reasoning_effort":
			r.Effort(v.Str())
		case "reasoning": // OpenRouter
			r.Effort(r.Member(v, "effort").Str())
			if n, ok := r.Member(v, "max_tokens").Int(); ok {
				q.Reasoning.Mode, q.Reasoning.Budget = "on", n
			}
		case "response_format":
			err = r.Format(key, v, r.Member(v, "json_schema"))
		case "n":
			if n, ok := v.Int(); ok && n != 1 {
				err = r.Refuse(key, translate.OneAnswer)
			}
		case "logprobs", "top_logprobs":
			if !v.Absent() && string(v) != "0" {
				err = r.Refuse(key, translate.NoLogprobs)
			}
		case "modalities":
			for _, m := range r.Elements(v) {
				if m.Str() != "text" {
					err = r.Refuse(key, translate.TextOnly)
				}
			}
		case "audio":
			if !v.Absent() {
				err = r.Refuse(key, translate.TextOnly)
			}
		case "web_search_options":
			if string(v) != "null" {
				err = r.Refuse(key, "a search by the provider has no counterpart at this upstream")
			}
		case "functions", "function_call":
			if !v.Absent() {
				err = r.Refuse(key, "use tools instead")
			}
		case "prompt_cache_options":
			r.CacheOptions(key, v)
		default:
			if !r.Param(key, v) {
				r.DropUsed(key, v)
			}
		}
		if err != nil {
			return err
		}
	}
	r.Prewarm()
	return nil
}

func (r reader) tools(v rawjson.Value) error {
	// Agents' definitions have about 1 KB each.
	r.Request.Tools = slices.Grow(r.Request.Tools, min(len(v)>>10, 64))
	for i, t := range r.Elements(v) {
		r.Enter("tools", i)
		r.DropOthers(t, "type", "function", "custom", "cache_control")
		tool := translate.Tool{Cache: r.Member(t, "cache_control").Used()}
		switch r.Member(t, "type").Str() {
		case "function", "":
			for key, m := range r.Members(r.Member(t, "function")) {
				switch key {
				case "name":
					tool.Name = m.Str()
				case "description":
					tool.Description = m.Text()
				case "parameters":
					tool.Schema = m.Used()
				case "strict":
					tool.Strict = m.Used()
				default:
					r.DropUsed("function."+key, m)
				}
			}
		case "custom":
			c := r.Member(t, "custom")
			tool.Custom, tool.Name = true, r.Member(c, "name").Str()
			tool.Description, tool.Format = r.Member(c, "description").Text(), r.Member(c, "format").Used()
		default:
			r.Drop("type")
			r.Hosted = r.Path("type")
			r.Leave()
			continue
		}
		if tool.Name == "" {
			return r.Malformed("function.name")
		}
		r.Request.Tools = append(r.Request.Tools, tool)
		r.Leave()
	}
	return nil
}

func (r reader) choice(v rawjson.Value) error {
	c := &r.Request.Choice
	if v.IsString() {
		return r.Mode(v.Str())
	}
	switch r.Member(v, "type").Str() {
	case "function":
		c.Mode, c.Tools = "any", []translate.ToolName{{Name: r.Member(v, "function").Member("name").Str()}}
	case "custom":
		c.Mode, c.Tools = "any", []translate.ToolName{{Name: r.Member(v, "custom").Member("name").Str(), Custom: true}}
	case "allowed_tools":
		a := r.Member(v, "allowed_tools")
		for _, t := range r.Elements(a.Member("tools")) {
			name := translate.ToolName{Name: t.Member("function").Member("name").Str()}
			if custom := t.Member("custom"); custom.IsObject() {
				name = translate.ToolName{Name: custom.Member("name").Str(), Custom: true}
			}
			r.Allow(name)
		}
		return r.Allowed(a)
	default:
		if !v.Absent() {
			return r.Refuse("tool_choice", translate.ForeignChoice)
		}
	}
	return nil
}

func (r reader) messages(v rawjson.Value) error {
	if !v.IsArray() {
		return r.Malformed("messages")
	}
	r.Request.Messages = []translate.Message{}
	results := false // the last message has results of tools
	for i, m := range r.MessageElements(v) {
		r.Enter("messages", i)
		var f message
		if err := r.members(m, &f); err != nil {
			return err
		}
		parts, err := r.content(f.content)
		if err != nil {
			return err
		}
		switch f.role {
		case "system", "developer":
			if len(r.Request.Messages) == 0 {
				r.Request.System = append(r.Request.System, parts...)
			} else {
				r.Message(translate.System, parts)
			}
		case "user":
			r.Message(translate.User, parts)
		case "assistant":
			if parts, err = r.assistant(f, parts); err != nil {
				return err
			}
			r.Message(translate.Assistant, parts)
		case "tool":
			id, _ := seal.OpenID(f.callID)
			p := translate.Part{Kind: translate.ResultPart, ID: id, Content: parts}
			if results {
				r.Join(translate.User, p)
			} else {
				r.Message(translate.User, []translate.Part{p})
			}
		default:
			return r.Malformed("role")
		}
		results = f.role == "tool"
		r.Leave()
	}
	return nil
}

// message has the members of a message that the reader reads.
type message struct {
	role, callID                           string
	content, calls, reasoning, details, no rawjson.Value
}

func (r reader) members(m rawjson.Value, f *message) error {
	for key, v := range r.Members(m) {
		switch key {
		case "role":
			f.role = v.Str()
		case "content":
			f.content = v
		case "tool_calls":
			f.calls = v
		case "tool_call_id":
			f.callID = v.Str()
		case "audio": // refers to a stored answer by its id
			if !v.Absent() {
				return r.Refuse(key, translate.NotStored)
			}
		case "reasoning_content", "reasoning":
			if f.reasoning == nil && v.IsString() {
				f.reasoning = v
			}
		case "reasoning_details":
			f.details = v
		case "refusal":
			f.no = v
		case "function_call":
			if !v.Absent() {
				return r.Refuse(key, "use tool_calls instead")
			}
		case "annotations":
		default:
			r.DropUsed(key, v)
		}
	}
	return nil
}

// assistant returns the parts of an assistant message: thinking, text, late thinking, calls.
func (r reader) assistant(f message, content []translate.Part) ([]translate.Part, error) {
	n := len(r.Parts)
	r.reasoning(f)
	thoughts := r.Gather(n)
	think := func(late bool) {
		for _, p := range thoughts {
			if p.Proof().Late == late {
				r.Add(p)
			}
		}
	}
	think(false)
	r.Add(content...)
	if f.no.IsString() {
		r.Add(translate.Part{Text: f.no.Text()})
	}
	think(true)
	for i, c := range r.Elements(f.calls) {
		r.Enter("tool_calls", i)
		p := translate.Part{Kind: translate.CallPart}
		r.DropOthers(c, "id", "index", "type", "function", "custom", "extra_content")
		r.DropIn("function", r.Member(c, "function"), "name", "arguments")
		p.ID, p.Signature = seal.OpenID(r.Member(c, "id").Str())
		if s := r.Member(c, "extra_content").Member("google").Member("thought_signature"); s.IsString() {
			p.Signature = s.Str()
		}
		if custom := r.Member(c, "custom"); custom.IsObject() {
			p.Tool = translate.ToolName{Name: custom.Member("name").Str(), Custom: true}
			p.Text = custom.Member("input").Text()
		} else {
			function := r.Member(c, "function")
			p.Tool.Name = r.Member(function, "name").Str()
			p.Input = translate.CallInput(r.Member(function, "arguments"))
		}
		if p.Tool.Name == "" {
			return nil, r.Malformed("function.name")
		}
		r.Add(p)
		r.Leave()
	}
	return r.Gather(n), nil
}

// reasoning reads the reasoning of a message.
func (r reader) reasoning(f message) {
	n := len(r.Parts)
	for _, d := range r.Elements(f.details) {
		switch d.Member("type").Str() {
		case "reasoning.encrypted":
			if s, ok := seal.Open(d.Member("data").Str()); ok {
				r.Add(translate.Part{Kind: translate.ThinkingPart, Text: rawjson.Escaped(s.Text), Sealed: &s})
			}
		case "reasoning.text":
			if s := d.Member("signature"); s.IsString() {
				r.Add(translate.Part{
					Kind: translate.ThinkingPart, Text: d.Member("text").Text(),
					Sealed: &seal.Sealed{Format: wire.Anthropic, Data: s.Str()},
				})
			}
		}
	}
	// A seal contains the text. The plain text counts only if the client lost the seal.
	if len(r.Parts) == n && f.reasoning.IsString() && len(f.reasoning) > 2 {
		r.Add(translate.Part{
			Kind: translate.ThinkingPart, Text: f.reasoning.Text(),
			Sealed: &seal.Sealed{Format: r.Request.Format},
		})
	}
}

// content reads a text or a list of content parts.
func (r reader) content(v rawjson.Value) ([]translate.Part, error) {
	return r.Content("content", v, r.part)
}

func (r reader) part(v rawjson.Value) error {
	p := translate.Part{Cache: r.Member(v, "cache_control").Used()}
	r.DropOthers(v, "type", "text", "refusal", "image_url", "input_audio", "file", "cache_control",
		"prompt_cache_breakpoint")
	if p.Cache == nil && r.Member(v, "prompt_cache_breakpoint").IsObject() {
		p.Cache = rawjson.Value(`{"type":"ephemeral"}`)
	}
	kind := r.Member(v, "type").Str()
	var err error
	switch kind {
	case "text":
		p.Text = r.Member(v, "text").Text()
	case "refusal":
		p.Text = r.Member(v, "refusal").Text()
	case "image_url":
		image := r.Member(v, "image_url")
		p.Media = &translate.Media{Detail: image.Member("detail").Used()}
		err = r.Media(&p, image.Member("url"), "image/*", "image_url")
	case "input_audio":
		audio := r.Member(v, "input_audio")
		p.Kind = translate.MediaPart
		p.Media = &translate.Media{
			Field: r.Path("input_audio"), Type: "audio/" + audio.Member("format").Str(),
			Data: audio.Member("data").Text(),
		}
		if p.Media.Data.Empty() {
			err = r.Malformed("input_audio.data")
		}
	case "file":
		file := r.Member(v, "file")
		p.Media = &translate.Media{Name: file.Member("filename").Text()}
		err = r.Media(&p, file.Member("file_data"), "application/pdf", "file")
	default:
		err = r.Refuse("type", "unknown kind of content")
	}
	if err != nil {
		return err
	}
	r.Add(p)
	return nil
}
