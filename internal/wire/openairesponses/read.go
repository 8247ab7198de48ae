// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"cmp"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// reader reads requests.
type reader struct{ openai.Reader }

func (r reader) request(body rawjson.Value) error {
	q := r.Request
	q.IncludeUsage = true
	var in, tools rawjson.Value
	for key, v := range r.BodyMembers(body) {
		var err error
		switch key {
		case "model":
			q.Model = v.Str()
		case "stream":
			q.Stream = v.IsTrue()
		case "instructions":
			if v.IsString() {
				q.System = append([]translate.Part{{Text: v.Text()}}, q.System...)
			}
		case "input":
			in = v
		case "tools":
			tools = v
		case "tool_choice":
			err = r.choice(v)
		case "parallel_tool_calls":
			q.Choice.Single, q.Choice.Parallel = string(v) == "false", v.IsTrue()
		case "reasoning":
			for name, m := range v.Members() {
				switch name {
				case "effort":
					r.Effort(m.Str())
				case "summary", "generate_summary":
					q.Reasoning.Show = !m.Absent()
				default:
					r.DropUsed("reasoning."+name, m)
				}
			}
		case "text":
			for name, m := range v.Members() {
				if name == "format" {
					if err := r.Format("text.format", m, m); err != nil {
						return err
					}
				} else if !r.Param("text."+name, m) {
					r.DropUsed("text."+name, m)
				}
			}
		case "include":
			for _, s := range r.Elements(v) {
				switch s.Str() {
				case "reasoning.encrypted_content":
				case "message.output_text.logprobs":
					err = r.Refuse(key, translate.NoLogprobs)
				default:
					r.Drop(key)
				}
			}
		case "top_logprobs":
			if !v.Absent() && string(v) != "0" {
				err = r.Refuse(key, translate.NoLogprobs)
			}
		case "previous_response_id", "conversation", "prompt":
			if !v.Absent() {
				err = r.Refuse(key, translate.NotStored)
			}
		case "context_management":
			err = r.ContextManagement(key, v, v)
		case "prompt_cache_options":
			r.CacheOptions(key, v)
		case "background":
			if v.IsTrue() {
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
	r.Prewarm()
	if err := r.ReadTools(tools, func(v rawjson.Value) error { return r.tools(v, "") }); err != nil {
		return err
	}
	return r.input(in)
}

func (r reader) choice(v rawjson.Value) error {
	if v.IsString() {
		return r.Mode(v.Str())
	}
	c := &r.Request.Choice
	switch kind := r.Member(v, "type").Str(); kind {
	case "function", "custom":
		c.Mode, c.Tools = "any", []translate.ToolName{toolName(v, kind)}
	case "allowed_tools":
		for _, t := range r.Elements(r.Member(v, "tools")) {
			r.Allow(toolName(t, t.Member("type").Str()))
		}
		return r.Allowed(v)
	default:
		if !v.Absent() {
			return r.Refuse("tool_choice", translate.ForeignChoice)
		}
	}
	return nil
}

func toolName(v rawjson.Value, kind string) translate.ToolName {
	return translate.ToolName{
		Namespace: v.Member("namespace").Str(), Name: v.Member("name").Str(),
		Custom: strings.HasPrefix(kind, "custom"),
	}
}

func (r reader) tools(v rawjson.Value, namespace string) error {
	for i, t := range r.Elements(v) {
		r.Enter("tools", i)
		kind := t.Member("type").Str()
		switch kind {
		case "function", "custom":
			r.DropOthers(t, "type", "name", "description", "parameters", "strict", "format")
			tool := translate.Tool{
				ToolName:    translate.ToolName{Namespace: namespace, Name: t.Member("name").Str(), Custom: kind == "custom"},
				Description: t.Member("description").Text(),
				Schema:      t.Member("parameters").Used(),
				Strict:      t.Member("strict").Used(),
				Format:      t.Member("format").Used(),
			}
			if tool.Name == "" {
				return r.Malformed("name")
			}
			r.Request.Tools = append(r.Request.Tools, tool)
		case "namespace":
			if err := r.tools(t.Member("tools"), t.Member("name").Str()); err != nil {
				return err
			}
			r.DropOthers(t, "type", "name", "tools")
		default:
			r.Drop("type")
			r.Hosted = r.Path("type")
		}
		r.Leave()
	}
	return nil
}

func (r reader) input(v rawjson.Value) error {
	if v.IsString() {
		r.Message(translate.User, []translate.Part{{Text: v.Text()}})
		return nil
	}
	if !v.IsArray() {
		return r.Malformed("input")
	}
	r.Request.Messages = []translate.Message{}
	results := false
	for i, item := range r.MessageElements(v) {
		r.Enter("input", i)
		kind := r.Member(item, "type").Str()
		if kind == "" && r.Member(item, "role").IsString() {
			kind = "message"
		}
		result := strings.HasSuffix(kind, "call_output")
		if err := r.item(kind, item, results); err != nil {
			return err
		}
		results = result
		r.Leave()
	}
	return nil
}

// item reads one item. Consecutive items of the model become one message, as do consecutive results.
func (r reader) item(kind string, item rawjson.Value, results bool) error {
	switch kind {
	case "message":
		return r.message(item)
	case "additional_tools":
		r.DependsOnAll()
		r.DropOthers(item, "type", "id", "role", "tools", "status")
		return r.tools(r.Member(item, "tools"), "")
	case "reasoning":
		r.DropOthers(item, "type", "id", "summary", "content", "encrypted_content", "status")
		r.Join(translate.Assistant, r.reasoning(item))
	case "function_call", "custom_tool_call":
		r.DropOthers(item, "type", "id", "call_id", "namespace", "name", "arguments", "input", "status")
		p := translate.Part{Kind: translate.CallPart, Tool: toolName(item, kind)}
		p.ID, p.Signature = seal.OpenID(r.Member(item, "call_id").Str())
		if p.Tool.Name == "" {
			return r.Malformed("name")
		}
		if p.Tool.Custom {
			p.Text = r.Member(item, "input").Text()
		} else {
			p.Input = translate.CallInput(r.Member(item, "arguments"))
		}
		r.SignCall(&p)
		r.Join(translate.Assistant, p)
	case "function_call_output", "custom_tool_call_output":
		r.DropOthers(item, "type", "id", "call_id", "output", "status")
		p := translate.Part{Kind: translate.ResultPart}
		p.ID, _ = seal.OpenID(r.Member(item, "call_id").Str())
		var err error
		if p.Content, err = r.Content("output", r.Member(item, "output"), r.part); err != nil {
			return err
		}
		if results {
			r.Join(translate.User, p)
		} else {
			r.Message(translate.User, []translate.Part{p})
		}
	case "item_reference", "": // a reference may omit its type
		return r.Refuse("type", translate.NotStored)
	case "compaction", "compaction_summary", "compaction_trigger", "context_compaction":
		return r.Refuse("type", translate.ForeignCompaction)
	case "local_shell_call", "shell_call", "apply_patch_call", "computer_call":
		r.Join(translate.Assistant, r.apiCall(kind, item))
	case "local_shell_call_output", "shell_call_output", "apply_patch_call_output", "computer_call_output":
		p := translate.Part{Kind: translate.ResultPart, ID: apiCallID(item)}
		output := r.Member(item, "output")
		if output.IsObject() { // a screenshot
			output = append(append(rawjson.Value("["), output...), ']')
		}
		var err error
		if p.Content, err = r.Content("output", output, r.apiOutput); err != nil {
			return err
		}
		if results {
			r.Join(translate.User, p)
		} else {
			r.Message(translate.User, []translate.Part{p})
		}
	default:
		r.Drop("type")
	}
	return nil
}

// apiCall reads a past call of a tool that the API defines and the client ran.
func (r reader) apiCall(kind string, item rawjson.Value) translate.Part {
	p := translate.Part{
		Kind: translate.CallPart, ID: apiCallID(item),
		Tool: translate.ToolName{Name: strings.TrimSuffix(kind, "_call")}, Input: rawjson.Value("{}"),
	}
	for _, name := range [...]string{"action", "operation"} {
		if input := r.Member(item, name); input.IsObject() {
			p.Input = input
		}
	}
	return p
}

// apiCallID returns the id that links a call of such a tool and its result.
func apiCallID(item rawjson.Value) string {
	return cmp.Or(item.Member("call_id").Str(), item.Member("id").Str())
}

// apiOutput reads a part of the output of such a tool: a screenshot, or JSON.
func (r reader) apiOutput(v rawjson.Value) error {
	p := translate.Part{Text: rawjson.Escaped(string(v))}
	if url := v.Member("image_url"); url.IsString() {
		p.Media = new(translate.Media)
		if err := r.Media(&p, url, "image/*", "image_url"); err != nil {
			return err
		}
		p.Text = nil
	}
	r.Add(p)
	return nil
}

func (r reader) message(item rawjson.Value) error {
	r.DropOthers(item, "type", "id", "role", "content", "status")
	parts, err := r.Content("content", r.Member(item, "content"), r.part)
	if err != nil {
		return err
	}
	switch r.Member(item, "role").Str() {
	case "system", "developer":
		if len(r.Request.Messages) == 0 {
			r.Request.System = append(r.Request.System, parts...)
		} else {
			r.Message(translate.System, parts)
		}
	case "user":
		r.Message(translate.User, parts)
	case "assistant":
		if len(parts) > 0 {
			r.Join(translate.Assistant, parts...)
		}
	default:
		return r.Malformed("role")
	}
	return nil
}

func (r reader) reasoning(item rawjson.Value) translate.Part {
	var t rawjson.Text
	// Without a summary, some providers reveal the reasoning itself.
	for _, list := range []string{"summary", "content"} {
		for _, s := range r.Elements(item.Member(list)) {
			if piece := r.Member(s, "text").Text(); !piece.Empty() {
				if !t.Empty() {
					t = append(t[:len(t):len(t)], `\n\n`...)
				}
				t = append(t[:len(t):len(t)], piece...)
			}
		}
		if !t.Empty() {
			break
		}
	}
	return r.Thinking(t, r.Member(item, "encrypted_content").Str())
}

func (r reader) part(v rawjson.Value) error {
	var p translate.Part
	var err error
	r.DropOthers(v, "type", "text", "refusal", "annotations", "logprobs", "image_url", "detail", "filename", "file_url",
		"file_data", "file_id", "prompt_cache_breakpoint")
	if r.Member(v, "prompt_cache_breakpoint").IsObject() {
		p.Cache = rawjson.Value(`{"type":"ephemeral"}`)
	}
	switch r.Member(v, "type").Str() {
	case "input_text", "output_text", "text", "summary_text":
		p.Text = r.Member(v, "text").Text()
	case "refusal":
		p.Text = r.Member(v, "refusal").Text()
	case "input_image":
		p.Media = &translate.Media{Detail: r.Member(v, "detail").Used()}
		err = r.Media(&p, r.Member(v, "image_url"), "image/*", "image_url")
	case "input_file":
		p.Media = &translate.Media{Name: r.Member(v, "filename").Text()}
		if url := r.Member(v, "file_url"); url.IsString() {
			err = r.Media(&p, url, "application/pdf", "file_url")
		} else {
			err = r.Media(&p, r.Member(v, "file_data"), "application/pdf", "file_data")
		}
	default:
		err = r.Refuse("type", "unknown kind of content")
	}
	if err != nil {
		return err
	}
	r.Add(p)
	return nil
}
