// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// reader reads requests.
type reader struct {
	*translate.Reader
	// loaded are the names of deferred tools, in the order of the results that refer to them or the
	// messages that add them. removed are the names that later messages removed.
	loaded  []string
	removed map[string]bool
}

func (r *reader) request(body rawjson.Value) error {
	q := r.Request
	q.IncludeUsage = true
	var tools rawjson.Value
	for key, v := range r.BodyMembers(body) {
		var err error
		switch key {
		case "model":
			q.Model = v.Str()
		case "stream":
			q.Stream = v.IsTrue()
		case "system":
			r.Enter("system", -1)
			q.System, err = r.content(v)
			r.Leave()
		case "messages":
			err = r.messages(v)
		case "tools":
			tools = v
		case "tool_choice":
			err = r.choice(v)
		case "stop_sequences":
			r.Stops(v)
		case "metadata":
			for name, m := range v.Members() {
				if !r.Param("metadata."+name, m) {
					r.DropUsed("metadata."+name, m)
				}
			}
		case "thinking":
			r.thinking(v)
		case "output_config":
			err = r.output(v)
		case "output_format":
			err = r.format(key, v)
		case "mcp_servers":
			if !v.Absent() {
				r.Drop(key)
				r.Hosted = key
			}
		case "compaction":
			if !v.Absent() {
				err = r.Refuse(key, translate.CannotCompact)
			}
		case "context_management":
			if !clears(v) {
				err = r.ContextManagement(key, v, v.Member("edits"))
			}
		case "thread":
			if !v.Absent() && v.Member("type").Str() != "create" {
				err = r.Refuse(key, translate.NotStored)
			}
			r.DropUsed(key, v)
		case "container":
			if !v.Absent() {
				err = r.Refuse(key, translate.NotStored)
			}
		case "safeguards":
			if !v.Absent() {
				err = r.Refuse(key, translate.NoSafeguards)
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
	return r.ReadTools(tools, r.tools)
}

func (r *reader) thinking(v rawjson.Value) {
	g := &r.Request.Reasoning
	switch v.Member("type").Str() {
	case "enabled":
		g.Mode = "on"
		g.Budget, _ = v.Member("budget_tokens").Int()
	case "adaptive":
		g.Mode = "adaptive"
	case "disabled":
		g.Mode = "off"
	default:
		r.DropUsed("thinking", v)
		return
	}
	r.DropIn("thinking", v, "type", "budget_tokens", "display")
	g.Show = g.Mode != "off" && v.Member("display").Str() != "omitted"
}

func (r *reader) output(v rawjson.Value) error {
	for key, m := range v.Members() {
		switch key {
		case "effort":
			r.Request.Reasoning.Effort = m.Str()
		case "format":
			if err := r.format("output_config.format", m); err != nil {
				return err
			}
		default:
			r.DropUsed("output_config."+key, m)
		}
	}
	return nil
}

func (r *reader) format(field string, v rawjson.Value) error {
	if v.Member("type").Str() != "json_schema" {
		return nil
	}
	schema := v.Member("schema")
	if schema.Absent() && string(schema) != "{}" {
		return r.Malformed(field + ".schema")
	}
	r.Request.Output = translate.Output{Kind: "schema", Schema: schema, Strict: rawjson.Value("true")}
	return nil
}

func (r *reader) choice(v rawjson.Value) error {
	c := &r.Request.Choice
	switch kind := v.Member("type").Str(); kind {
	case "auto", "any", "none":
		c.Mode = kind
	case "tool":
		c.Mode, c.Tools = "any", []translate.ToolName{{Name: v.Member("name").Str()}}
	case "":
	default:
		return r.Refuse("tool_choice.type", "unknown")
	}
	c.Single = v.Member("disable_parallel_tool_use").IsTrue()
	return nil
}

// tools reads the tools. Deferred tools follow the others.
func (r *reader) tools(v rawjson.Value) error {
	var deferred []translate.Tool
	searched := false
	for i, t := range r.Elements(v) {
		r.Enter("tools", i)
		var tool translate.Tool
		late := false
		kind := ""
		for key, m := range t.Members() {
			switch key {
			case "name":
				tool.Name = m.Str()
			case "description":
				tool.Description = m.Text()
			case "input_schema":
				tool.Schema = m
			case "strict":
				tool.Strict = m
			case "cache_control":
				tool.Cache = m.Used()
			case "defer_loading":
				late = m.IsTrue()
			case "type":
				kind = m.Str()
			case "eager_input_streaming":
			default:
				r.DropUsed(key, m)
			}
		}
		switch {
		case kind != "" && kind != "custom":
			r.Drop("type")
			r.Hosted = r.Path("type")
			searched = searched || strings.HasPrefix(kind, "tool_search_tool")
			for _, c := range r.Request.Choice.Tools {
				if c.Name == tool.Name {
					return r.Refuse("type", translate.ForeignTool)
				}
			}
		case tool.Name == "":
			return r.Malformed("name")
		case r.removed[tool.Name]:
		case late:
			deferred = append(deferred, tool)
		default:
			r.Request.Tools = append(r.Request.Tools, tool)
		}
		r.Leave()
	}
	// No other upstream runs the provider's tool search, so all deferred tools are sent from the
	// beginning.
	if searched {
		r.Request.Tools = append(r.Request.Tools, deferred...)
		return nil
	}
	// A deferred tool enters the prompt when a result refers to it or a message adds it. The tools
	// follow in this order, so that the prefix stays.
	late := make(map[string]translate.Tool, len(deferred))
	for _, tool := range deferred {
		late[tool.Name] = tool
	}
	for _, name := range r.loaded {
		if tool, ok := late[name]; ok {
			r.Request.Tools = append(r.Request.Tools, tool)
			delete(late, name)
		}
	}
	if len(deferred) > 0 {
		r.Hosted = "" // the deferred tools count, although none is loaded yet
	}
	return nil
}

func (r *reader) messages(v rawjson.Value) error {
	if !v.IsArray() {
		return r.Malformed("messages")
	}
	r.Request.Messages = []translate.Message{}
	for i, m := range r.MessageElements(v) {
		r.Enter("messages", i)
		var role string
		var content rawjson.Value
		for key, f := range r.Members(m) {
			switch key {
			case "role":
				role = f.Str()
			case "content":
				content = f
			case "output_config":
				r.DependsOnAll()
				r.DropIn(key, f, "effort")
				if effort := f.Member("effort").Str(); effort != "" {
					r.Request.Reasoning.Effort = effort
				}
			default:
				r.DropUsed(key, f)
			}
		}
		parts, err := r.content(content)
		if err != nil {
			return err
		}
		switch role {
		case "user":
			r.Message(translate.User, parts)
		case "assistant":
			r.Message(translate.Assistant, parts)
		case "system":
			r.Message(translate.System, parts)
		default:
			return r.Malformed("role")
		}
		r.Leave()
	}
	return nil
}

// content reads a text or a list of blocks.
func (r *reader) content(v rawjson.Value) ([]translate.Part, error) {
	return r.Content("content", v, r.block)
}

// block reads one block.
func (r *reader) block(b rawjson.Value) (err error) {
	var p translate.Part
	var kind string
	var source, content, title, data rawjson.Value
	var signature string
	for key, v := range r.Members(b) {
		switch key {
		case "type":
			kind = v.Str()
		case "text", "thinking":
			p.Text = v.Text()
		case "signature":
			signature = v.Str()
		case "data":
			data = v
		case "id", "tool_use_id":
			p.ID = v.Str()
		case "name", "tool_name":
			p.Tool.Name = v.Str()
		case "input":
			p.Input = v
		case "content":
			content = v
		case "source":
			source = v
		case "title":
			title = v
		case "is_error":
			p.Failed = v.IsTrue()
		case "cache_control":
			p.Cache = v.Used()
		case "tool":
			p.Tool.Name = v.Member("name").Str()
		case "caller":
		default:
			r.DropUsed(key, v)
		}
	}
	switch kind {
	case "text":
		p.Kind = translate.TextPart
	case "thinking":
		p = r.Thinking(p.Text, signature)
	case "redacted_thinking":
		p = r.Thinking(nil, data.Str())
		if p.Sealed.Format == r.Request.Format && p.Sealed.Data == data.Str() {
			p.Sealed.Redacted = true
		}
	case "tool_use":
		p.Kind = translate.CallPart
		p.ID, p.Signature = seal.OpenID(p.ID)
		p.Input = translate.CallInput(p.Input)
	case "tool_result":
		p.Kind = translate.ResultPart
		p.ID, _ = seal.OpenID(p.ID)
		p.Content, err = r.content(content)
	case "image", "document":
		return r.media(p, kind, source, title)
	case "search_result":
		return r.inner(content)
	case "tool_reference":
		r.DependsOnAll()
		r.loaded = append(r.loaded, p.Tool.Name)
		p = translate.Part{Text: rawjson.Escaped("Loaded tool: " + p.Tool.Name)}
	case "tool_addition":
		r.DependsOnAll()
		r.loaded = append(r.loaded, p.Tool.Name)
		delete(r.removed, p.Tool.Name)
		p = translate.Part{Text: rawjson.Escaped("From here on there is a tool " + p.Tool.Name + ".")}
	case "tool_removal":
		r.DependsOnAll()
		if r.removed == nil {
			r.removed = map[string]bool{}
		}
		r.removed[p.Tool.Name] = true
		p = translate.Part{Text: rawjson.Escaped("From here on there is no tool " + p.Tool.Name + " any more.")}
	case "compaction":
		return r.Refuse("type", translate.ForeignCompaction)
	default:
		r.Drop("type")
		return nil
	}
	r.Add(p)
	return err
}

// inner replaces a block by its content.
func (r *reader) inner(content rawjson.Value) error {
	parts, err := r.content(content)
	r.Add(parts...)
	return err
}

func (r *reader) media(p translate.Part, kind string, source, title rawjson.Value) error {
	m := &translate.Media{Type: source.Member("media_type").Str(), Name: title.Text(), Field: r.Path("source")}
	p.Kind, p.Media = translate.MediaPart, m
	switch source.Member("type").Str() {
	case "base64":
		m.Data = source.Member("data").Text()
	case "url":
		m.URL = source.Member("url").Text()
		if kind == "document" {
			m.Type = "application/pdf"
		} else {
			m.Type = "image/*"
		}
	case "text":
		p.Kind, p.Text, p.Media = translate.TextPart, source.Member("data").Text(), nil
		r.DropUsed("title", title)
	case "content":
		r.DropUsed("title", title)
		return r.inner(source.Member("content"))
	default:
		return r.Refuse("source", translate.ForeignFile)
	}
	if p.Media != nil && m.Data.Empty() && m.URL.Empty() {
		return r.Malformed("source")
	}
	if kind == "image" && m.Type != "" && !strings.HasPrefix(m.Type, "image/") {
		return r.Malformed("source.media_type")
	}
	r.Add(p)
	return nil
}
