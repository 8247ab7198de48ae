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
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

func (r *reader) chat(body raw) error {
	q := r.q
	for key, v := range body.members() {
		var err error
		switch key {
		case "model":
			q.Model = v.string()
		case "stream":
			q.Stream = v.isTrue()
		case "stream_options":
			q.IncludeUsage = v.member("include_usage").isTrue()
			r.dropIn(key, v, "include_usage")
		case "messages":
			err = r.chatMessages(v)
		case "tools":
			err = r.chatTools(v)
		case "tool_choice":
			err = r.chatChoice(v)
		case "parallel_tool_calls":
			q.Choice.Single, q.Choice.Parallel = string(v) == "false", v.isTrue()
		case "max_tokens":
			if q.Params[MaxTokens] == nil && v.isNumber() {
				q.Params[MaxTokens] = v
			}
		case "top_k": // not OpenAI's, but local engines take it
			q.Params[TopK] = used(v)
		case "stop":
			if v.isString() {
				q.Stop = []text{v.text()}
			}
			for _, s := range r.elements(v) {
				q.Stop = append(q.Stop, s.text())
			}
		case "reasoning_effort":
			r.openAIEffort(v.string())
		case "reasoning": // OpenRouter's
			r.openAIEffort(v.member("effort").string())
			if n, ok := v.member("max_tokens").int(); ok {
				q.Reasoning.Mode, q.Reasoning.Budget = "on", n
			}
		case "response_format":
			err = r.openAIFormat(key, v, v.member("json_schema"))
		case "n":
			if n, ok := v.int(); ok && n != 1 {
				err = r.refuse(key, "only one answer can be asked for")
			}
		case "logprobs", "top_logprobs":
			if !v.absent() && string(v) != "0" {
				err = r.refuse(key, "the upstream gives no log probabilities")
			}
		case "modalities":
			for _, m := range r.elements(v) {
				if m.string() != "text" {
					err = r.refuse(key, "the upstream answers in text only")
				}
			}
		case "audio":
			if !v.absent() {
				err = r.refuse(key, "the upstream answers in text only")
			}
		case "web_search_options":
			if string(v) != "null" {
				err = r.refuse(key, "a search by the provider has no counterpart at this upstream")
			}
		case "functions", "function_call":
			if !v.absent() {
				err = r.refuse(key, "use tools instead")
			}
		default:
			if !r.param(key, v) {
				r.dropUsed(key, v)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openAIEffort reads a reasoning effort.
func (r *reader) openAIEffort(effort string) {
	switch effort {
	case "":
	case "none":
		r.q.Reasoning.Mode = "off"
	default:
		r.q.Reasoning.Mode, r.q.Reasoning.Effort = "on", effort
		r.q.Reasoning.Show = true
	}
}

// openAIFormat reads what the answer must look like: v holds the kind, schema
// the schema and its names.
func (r *reader) openAIFormat(field string, v, schema raw) error {
	if v.absent() {
		return nil
	}
	switch v.member("type").string() {
	case "text":
	case "json_object":
		r.q.Output.Kind = "json"
	case "json_schema":
		if schema.member("schema").absent() && string(schema.member("schema")) != "{}" {
			return r.malformed(field + ": no schema")
		}
		r.q.Output = Output{
			Kind: "schema", Name: schema.member("name").text(), Description: schema.member("description").text(),
			Schema: used(schema.member("schema")), Strict: used(schema.member("strict")),
		}
	case "grammar":
		r.drop(field)
	default:
		return r.malformed(field + ".type")
	}
	return nil
}

func (r *reader) chatTools(v raw) error {
	for i, t := range r.elements(v) {
		r.enter("tools", i)
		tool := Tool{Cache: used(t.member("cache_control"))}
		r.dropOthers(t, "type", "function", "custom", "cache_control")
		switch t.member("type").string() {
		case "function", "":
			for key, m := range t.member("function").members() {
				switch key {
				case "name":
					tool.Name = m.string()
				case "description":
					tool.Description = m.text()
				case "parameters":
					tool.Schema = used(m)
				case "strict":
					tool.Strict = used(m)
				default:
					r.dropUsed("function."+key, m)
				}
			}
		case "custom":
			c := t.member("custom")
			tool.Custom, tool.Name = true, c.member("name").string()
			tool.Description, tool.Format = c.member("description").text(), used(c.member("format"))
		default:
			r.drop("type")
			r.hosted = r.path("type")
			r.leave()
			continue
		}
		if tool.Name == "" {
			return r.malformed("function.name")
		}
		r.q.Tools = append(r.q.Tools, tool)
		r.leave()
	}
	return nil
}

func (r *reader) chatChoice(v raw) error {
	c := &r.q.Choice
	if v.isString() {
		return r.openAIMode(v.string())
	}
	switch v.member("type").string() {
	case "function":
		c.Mode, c.Tools = "any", []ToolName{{Name: v.member("function").member("name").string()}}
	case "custom":
		c.Mode, c.Tools = "any", []ToolName{{Name: v.member("custom").member("name").string(), Custom: true}}
	case "allowed_tools":
		a := v.member("allowed_tools")
		for _, t := range r.elements(a.member("tools")) {
			name := ToolName{Name: t.member("function").member("name").string()}
			if custom := t.member("custom"); custom.isObject() {
				name = ToolName{Name: custom.member("name").string(), Custom: true}
			}
			r.allow(name)
		}
		return r.openAIAllowed(a)
	default:
		if !v.absent() {
			return r.refuse("tool_choice", "the choice has no counterpart at this upstream")
		}
	}
	return nil
}

// allow notes that a tool may be called. Those that only the provider runs have no
// name.
func (r *reader) allow(t ToolName) {
	if t.Name == "" {
		r.drop("tool_choice.tools")
		return
	}
	r.q.Choice.Tools = append(r.q.Choice.Tools, t)
}

// openAIAllowed reads the mode of a choice among some tools.
func (r *reader) openAIAllowed(v raw) error {
	if len(r.q.Choice.Tools) == 0 {
		return r.refuse("tool_choice", "no tool that could be called is allowed")
	}
	return r.openAIMode(v.member("mode").string())
}

func (r *reader) openAIMode(mode string) error {
	switch mode {
	case "auto", "none":
		r.q.Choice.Mode = mode
	case "required":
		r.q.Choice.Mode = "any"
	default:
		return r.refuse("tool_choice", "unknown")
	}
	return nil
}

func (r *reader) chatMessages(v raw) error {
	if !v.isArray() {
		return r.malformed("messages")
	}
	r.q.Messages = []Message{}
	results := false // the last message holds results of tools
	for i, m := range r.elements(v) {
		r.enter("messages", i)
		var f chatMessage
		if err := r.chatMembers(m, &f); err != nil {
			return err
		}
		parts, err := r.chatContent(f.content)
		if err != nil {
			return err
		}
		switch f.role {
		case "system", "developer":
			if len(r.q.Messages) == 0 {
				r.q.System = append(r.q.System, parts...)
			} else {
				r.message(System, parts)
			}
		case "user":
			r.message(User, parts)
		case "assistant":
			if parts, err = r.chatAssistant(f, parts); err != nil {
				return err
			}
			r.message(Assistant, parts)
		case "tool":
			id, _ := UnsealID(f.callID)
			p := Part{Kind: ResultPart, ID: id, Content: parts}
			if results {
				r.join(User, p)
			} else {
				r.message(User, []Part{p})
			}
		default:
			return r.malformed("role")
		}
		results = f.role == "tool"
		r.leave()
	}
	return nil
}

// chatMessage are the members of a message that are read.
type chatMessage struct {
	role, callID                           string
	content, calls, reasoning, details, no raw
}

func (r *reader) chatMembers(m raw, f *chatMessage) error {
	for key, v := range m.members() {
		switch key {
		case "role":
			f.role = v.string()
		case "content":
			f.content = v
		case "tool_calls":
			f.calls = v
		case "tool_call_id":
			f.callID = v.string()
		case "audio": // an answer of the model's, by its id
			if !v.absent() {
				return r.refuse(key, notStored)
			}
		case "reasoning_content", "reasoning":
			if f.reasoning == nil && v.isString() {
				f.reasoning = v
			}
		case "reasoning_details":
			f.details = v
		case "refusal":
			f.no = v
		case "function_call":
			if !v.absent() {
				return r.refuse(key, "use tool_calls instead")
			}
		case "annotations":
		default:
			r.dropUsed(key, v)
		}
	}
	return nil
}

// chatAssistant puts the parts of an assistant's message together.
func (r *reader) chatAssistant(f chatMessage, content []Part) ([]Part, error) {
	parts := r.chatReasoning(f)
	parts = append(parts, content...)
	if f.no.isString() {
		parts = append(parts, Part{Text: f.no.text()})
	}
	for i, c := range r.elements(f.calls) {
		r.enter("tool_calls", i)
		p := Part{Kind: CallPart}
		r.dropOthers(c, "id", "index", "type", "function", "custom", "extra_content")
		r.dropIn("function", c.member("function"), "name", "arguments")
		p.ID, p.Signature = UnsealID(c.member("id").string())
		if s := c.member("extra_content").member("google").member("thought_signature"); s.isString() {
			p.Signature = s.string()
		}
		if custom := c.member("custom"); custom.isObject() {
			p.Tool = ToolName{Name: custom.member("name").string(), Custom: true}
			p.Text = custom.member("input").text()
		} else {
			function := c.member("function")
			p.Tool.Name = function.member("name").string()
			p.Input = input(function.member("arguments"))
		}
		if p.Tool.Name == "" {
			return nil, r.malformed("function.name")
		}
		parts = append(parts, p)
		r.leave()
	}
	return parts, nil
}

// chatReasoning reads the reasoning of a message. What was sealed by us has
// the text within; a client that lost it still has the plain one.
func (r *reader) chatReasoning(f chatMessage) (parts []Part) {
	for _, d := range r.elements(f.details) {
		switch d.member("type").string() {
		case "reasoning.encrypted":
			if s, ok := Unseal(d.member("data").string()); ok {
				parts = append(parts, Part{Kind: ThinkingPart, Text: escaped(s.Text), Sealed: s})
			}
		case "reasoning.text":
			if s := d.member("signature"); s.isString() {
				parts = append(parts, Part{Kind: ThinkingPart, Text: d.member("text").text(), Sealed: Sealed{Format: wire.Anthropic, Data: s.string()}})
			}
		}
	}
	if len(parts) == 0 && f.reasoning.isString() && len(f.reasoning) > 2 {
		parts = append(parts, Part{Kind: ThinkingPart, Text: f.reasoning.text(), Sealed: Sealed{Format: r.q.Format}})
	}
	return parts
}

// chatContent reads a text or a list of content parts.
func (r *reader) chatContent(v raw) ([]Part, error) {
	if v.isString() {
		return []Part{{Text: v.text()}}, nil
	}
	if !v.isArray() {
		if v.absent() {
			return nil, nil
		}
		return nil, r.malformed("content")
	}
	var parts []Part
	for i, c := range r.elements(v) {
		r.enter("content", i)
		p := Part{Cache: used(c.member("cache_control"))}
		r.dropOthers(c, "type", "text", "refusal", "image_url", "input_audio", "file", "cache_control", "prompt_cache_breakpoint")
		if p.Cache == nil && c.member("prompt_cache_breakpoint").isObject() {
			p.Cache = raw(`{"type":"ephemeral"}`)
		}
		kind := c.member("type").string()
		var err error
		switch kind {
		case "text":
			p.Text = c.member("text").text()
		case "refusal":
			p.Text = c.member("refusal").text()
		case "image_url":
			image := c.member("image_url")
			p.Media = &Media{Detail: used(image.member("detail"))}
			err = r.openAIMedia(&p, image.member("url"), "image/*", "image_url")
		case "input_audio":
			audio := c.member("input_audio")
			p.Kind, p.Field = MediaPart, r.path("input_audio")
			p.Media = &Media{Type: "audio/" + audio.member("format").string(), Data: audio.member("data").text()}
			if p.Media.Data.empty() {
				err = r.malformed("input_audio.data")
			}
		case "file":
			file := c.member("file")
			p.Media = &Media{Name: file.member("filename").text()}
			err = r.openAIMedia(&p, file.member("file_data"), "application/pdf", "file")
		default:
			err = r.refuse("type", "unknown kind of content")
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		r.leave()
	}
	return parts, nil
}

// openAIMedia reads a data URL or a link.
func (r *reader) openAIMedia(p *Part, url raw, kind, field string) error {
	p.Kind, p.Field = MediaPart, r.path(field)
	t := url.text()
	if t.empty() {
		return r.refuse(field, "a file that lies at the provider cannot be read by another one")
	}
	if mediaType, data, ok := dataURL(t); ok {
		if p.Media.Type, p.Media.Data = mediaType, data; data.empty() {
			return r.malformed(field)
		}
		return nil
	}
	if strings.HasPrefix(string(t), "data:") {
		return r.refuse(field, "data that is not in base64")
	}
	p.Media.Type, p.Media.URL = kind, t
	return nil
}
