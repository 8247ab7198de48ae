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

import "strings"

func (r *reader) anthropic(body raw) error {
	q := r.q
	q.IncludeUsage = true
	var tools raw
	for key, v := range body.members() {
		var err error
		switch key {
		case "model":
			q.Model = v.string()
		case "stream":
			q.Stream = v.isTrue()
		case "system":
			r.enter("system", -1)
			q.System, err = r.anthropicContent(v)
			r.leave()
		case "messages":
			err = r.anthropicMessages(v)
		case "tools":
			tools = v
		case "tool_choice":
			err = r.anthropicChoice(v)
		case "stop_sequences":
			for _, s := range r.elements(v) {
				q.Stop = append(q.Stop, s.text())
			}
		case "metadata":
			for name, m := range v.members() {
				if !r.param("metadata."+name, m) {
					r.dropUsed("metadata."+name, m)
				}
			}
		case "thinking":
			r.anthropicThinking(v)
		case "output_config":
			err = r.anthropicOutput(v)
		case "output_format":
			err = r.anthropicFormat(key, v)
		case "mcp_servers":
			if !v.absent() {
				r.drop(key)
				r.hosted = key
			}
		case "compaction":
			if !v.absent() {
				err = r.refuse(key, cannotCompact)
			}
		case "context_management":
			err = r.contextManagement(key, v, v.member("edits"))
		case "thread":
			if !v.absent() && v.member("type").string() != "create" {
				err = r.refuse(key, notStored)
			}
			r.dropUsed(key, v)
		case "container":
			if !v.absent() {
				err = r.refuse(key, notStored)
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
	return r.anthropicTools(tools)
}

const cannotCompact = "only the provider's own API can compact"

// contextManagement reads what the provider is to do about a long conversation.
// Who has it clear something can do without; who has it compact relies on that.
func (r *reader) contextManagement(key string, v, edits raw) error {
	for _, e := range edits.elements() {
		if strings.HasPrefix(e.member("type").string(), "compact") {
			return r.refuse(key, cannotCompact)
		}
	}
	r.dropUsed(key, v)
	return nil
}

func (r *reader) anthropicThinking(v raw) {
	g := &r.q.Reasoning
	switch v.member("type").string() {
	case "enabled":
		g.Mode = "on"
		g.Budget, _ = v.member("budget_tokens").int()
	case "adaptive":
		g.Mode = "adaptive"
	case "disabled":
		g.Mode = "off"
	default:
		r.dropUsed("thinking", v)
		return
	}
	r.dropIn("thinking", v, "type", "budget_tokens", "display")
	g.Show = g.Mode != "off" && v.member("display").string() != "omitted"
}

func (r *reader) anthropicOutput(v raw) error {
	for key, m := range v.members() {
		switch key {
		case "effort":
			r.q.Reasoning.Effort = m.string()
		case "format":
			if err := r.anthropicFormat("output_config.format", m); err != nil {
				return err
			}
		default:
			r.dropUsed("output_config."+key, m)
		}
	}
	return nil
}

func (r *reader) anthropicFormat(field string, v raw) error {
	if v.member("type").string() != "json_schema" {
		return nil
	}
	schema := v.member("schema")
	if schema.absent() && string(schema) != "{}" {
		return r.malformed(field + ".schema")
	}
	r.q.Output = Output{Kind: "schema", Schema: schema, Strict: raw("true")}
	return nil
}

func (r *reader) anthropicChoice(v raw) error {
	c := &r.q.Choice
	switch kind := v.member("type").string(); kind {
	case "auto", "any", "none":
		c.Mode = kind
	case "tool":
		c.Mode, c.Tools = "any", []ToolName{{Name: v.member("name").string()}}
	case "":
	default:
		return r.refuse("tool_choice.type", "unknown")
	}
	c.Single = v.member("disable_parallel_tool_use").isTrue()
	return nil
}

// anthropicTools reads the tools. Deferred ones are not in the prompt until a
// result refers to them, so they come last, in the order of the references. Where
// the provider itself would search for them nobody else can, and all are there
// from the beginning.
func (r *reader) anthropicTools(v raw) error {
	var deferred []Tool
	searched := false
	for i, t := range r.elements(v) {
		r.enter("tools", i)
		var tool Tool
		late := false
		kind := ""
		for key, m := range t.members() {
			switch key {
			case "name":
				tool.Name = m.string()
			case "description":
				tool.Description = m.text()
			case "input_schema":
				tool.Schema = m
			case "strict":
				tool.Strict = m
			case "cache_control":
				tool.Cache = used(m)
			case "defer_loading":
				late = m.isTrue()
			case "type":
				kind = m.string()
			case "eager_input_streaming":
			default:
				r.dropUsed(key, m)
			}
		}
		switch {
		case kind != "" && kind != "custom":
			r.drop("type")
			r.hosted = r.path("type")
			searched = searched || strings.HasPrefix(kind, "tool_search_tool")
			for _, c := range r.q.Choice.Tools {
				if c.Name == tool.Name {
					return r.refuse("type", "a tool that the provider defines has no counterpart at this upstream")
				}
			}
		case tool.Name == "":
			return r.malformed("name")
		case late:
			deferred = append(deferred, tool)
		default:
			r.q.Tools = append(r.q.Tools, tool)
		}
		r.leave()
	}
	if searched {
		r.q.Tools = append(r.q.Tools, deferred...)
		return nil
	}
	late := make(map[string]Tool, len(deferred))
	for _, tool := range deferred {
		late[tool.Name] = tool
	}
	for _, name := range r.loaded {
		if tool, ok := late[name]; ok {
			r.q.Tools = append(r.q.Tools, tool)
			delete(late, name)
		}
	}
	if len(deferred) > 0 {
		r.hosted = "" // there are tools, though none yet
	}
	return nil
}

// used returns a value unless it is null.
func used(v raw) raw {
	if string(v) == "null" {
		return nil
	}
	return v
}

func (r *reader) anthropicMessages(v raw) error {
	if !v.isArray() {
		return r.malformed("messages")
	}
	r.q.Messages = []Message{}
	for i, m := range r.elements(v) {
		r.enter("messages", i)
		var role string
		var content raw
		for key, f := range m.members() {
			switch key {
			case "role":
				role = f.string()
			case "content":
				content = f
			case "output_config":
				r.dropIn(key, f, "effort")
				if effort := f.member("effort").string(); effort != "" {
					r.q.Reasoning.Effort = effort
				}
			default:
				r.dropUsed(key, f)
			}
		}
		parts, err := r.anthropicContent(content)
		if err != nil {
			return err
		}
		switch role {
		case "user":
			r.message(User, parts)
		case "assistant":
			r.message(Assistant, parts)
		case "system":
			r.message(System, parts)
		default:
			return r.malformed("role")
		}
		r.leave()
	}
	return nil
}

// anthropicContent reads a text or a list of blocks.
func (r *reader) anthropicContent(v raw) ([]Part, error) {
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
	for i, b := range r.elements(v) {
		r.enter("content", i)
		part, ok, err := r.anthropicBlock(b)
		r.leave()
		if err != nil {
			return nil, err
		}
		if ok {
			parts = append(parts, part...)
		}
	}
	return parts, nil
}

// anthropicBlock reads one block, ok false if it is left out.
func (r *reader) anthropicBlock(b raw) (parts []Part, ok bool, err error) {
	var p Part
	var kind string
	var source, content, title, data raw
	var signature string
	for key, v := range b.members() {
		switch key {
		case "type":
			kind = v.string()
		case "text", "thinking":
			p.Text = v.text()
		case "signature":
			signature = v.string()
		case "data":
			data = v
		case "id", "tool_use_id":
			p.ID = v.string()
		case "name", "tool_name":
			p.Tool.Name = v.string()
		case "input":
			p.Input = v
		case "content":
			content = v
		case "source":
			source = v
		case "title":
			title = v
		case "is_error":
			p.Failed = v.isTrue()
		case "cache_control":
			p.Cache = used(v)
		case "caller":
		default:
			r.dropUsed(key, v)
		}
	}
	switch kind {
	case "text":
		p.Kind = TextPart
	case "thinking":
		t := r.thinking(p.Text, signature)
		return []Part{t}, true, nil
	case "redacted_thinking":
		t := r.thinking(nil, data.string())
		if t.Sealed.Format == r.q.Format && t.Sealed.Data == data.string() {
			t.Sealed.Redacted = true
		}
		return []Part{t}, true, nil
	case "tool_use":
		p.Kind = CallPart
		p.ID, p.Signature = UnsealID(p.ID)
		p.Input = input(p.Input)
	case "tool_result":
		p.Kind = ResultPart
		p.ID, _ = UnsealID(p.ID)
		p.Content, err = r.anthropicContent(content)
	case "image", "document":
		return r.anthropicMedia(p, kind, source, title)
	case "search_result":
		p.Kind = TextPart
		inner, err := r.anthropicContent(content)
		return inner, true, err
	case "tool_reference":
		r.loaded = append(r.loaded, p.Tool.Name)
		p = Part{Text: escaped("Loaded tool: " + p.Tool.Name)}
	case "compaction":
		return nil, false, r.refuse("type", "a compaction is not understood by another provider")
	default:
		r.drop("type")
		return nil, false, nil
	}
	return []Part{p}, true, err
}

func (r *reader) anthropicMedia(p Part, kind string, source, title raw) ([]Part, bool, error) {
	m := &Media{Type: source.member("media_type").string(), Name: title.text()}
	p.Kind, p.Media, p.Field = MediaPart, m, r.path("source")
	switch source.member("type").string() {
	case "base64":
		m.Data = source.member("data").text()
	case "url":
		m.URL = source.member("url").text()
		if kind == "document" {
			m.Type = "application/pdf"
		} else {
			m.Type = "image/*"
		}
	case "text":
		p.Kind, p.Text, p.Media = TextPart, source.member("data").text(), nil
		r.dropUsed("title", title)
	case "content":
		r.dropUsed("title", title)
		parts, err := r.anthropicContent(source.member("content"))
		return parts, true, err
	default:
		return nil, false, r.refuse("source", "a file that lies at the provider cannot be read by another one")
	}
	if p.Media != nil && m.Data.empty() && m.URL.empty() {
		return nil, false, r.malformed("source")
	}
	if kind == "image" && m.Type != "" && !strings.HasPrefix(m.Type, "image/") {
		return nil, false, r.malformed("source.media_type")
	}
	return []Part{p}, true, nil
}
