// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

type writer struct{ openai.Writer }

func (w writer) request() error {
	q := w.Request
	w.Str("model", w.Model)
	for p := range translate.ParamCount {
		if p != translate.Verbosity {
			w.Param(p)
		}
	}
	w.Stops(0)
	if effort := w.Effort(); effort != "" || q.Reasoning.Show && w.Options.Official && openai.Reasons(w.Model) {
		w.Key("reasoning")
		w.Open('{')
		if effort != "" {
			w.Str("effort", effort)
		}
		if q.Reasoning.Show {
			w.Str("summary", "auto")
		}
		w.Close('}')
	}
	w.text()
	w.Bool("store", false)
	if !w.Options.Official || !openai.Plain(w.Model) {
		w.Member("include", rawjson.Value(`["reasoning.encrypted_content"]`))
	}
	if q.Stream {
		w.Bool("stream", true)
	}
	system := w.System()
	if len(system) > 0 && len(w.Messages) > 0 {
		w.Joined("instructions", system)
		for _, p := range system {
			w.DropCache(p.Cache, translate.InSystem)
		}
	}
	w.tools()
	w.Key("input")
	w.Open('[')
	if len(w.Messages) == 0 { // the API refuses an empty input
		if err := w.said("developer", system); err != nil {
			return err
		}
	}
	if err := w.EachMessage(w.message); err != nil {
		return err
	}
	w.Close(']')
	return nil
}

func (w writer) text() {
	o, verbosity := w.Request.Output, w.Value(translate.Verbosity)
	if o.Kind == "" && verbosity == nil {
		return
	}
	w.Key("text")
	w.Open('{')
	switch o.Kind {
	case "json":
		w.Member("format", rawjson.Value(`{"type":"json_object"}`))
	case "schema":
		w.Key("format")
		w.Open('{')
		w.Str("type", "json_schema")
		w.SchemaNames(o)
		w.Close('}')
	}
	if verbosity != nil {
		w.Member("verbosity", verbosity)
	}
	w.Close('}')
}

func (w writer) tools() {
	c := w.Request.Choice
	if len(w.Tools) == 0 {
		return
	}
	w.Key("tools")
	w.Open('[')
	w.EachTool(func(t translate.Tool) {
		w.Open('{')
		if t.Custom {
			w.Str("type", "custom")
			w.Str("name", w.Names.Upstream(t.ToolName))
			w.Text("description", t.Description)
			w.customFormat(t.Format)
		} else {
			w.Str("type", "function")
			w.Str("name", w.Names.Upstream(t.ToolName))
			if !t.Description.Empty() {
				w.Text("description", t.Description)
			}
			w.Member("parameters", translate.ObjectSchema(t.Schema))
			w.Bool("strict", w.StrictTool(t)) // the default is true here
		}
		w.DropCache(t.Cache, translate.InTools)
		w.Close('}')
	})
	w.Close(']')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.Key("tool_choice")
		w.tool(c.Tools[0])
	case len(c.Tools) > 0 && w.Options.Official && c.Mode != "none":
		w.Key("tool_choice")
		w.Open('{')
		w.Str("type", "allowed_tools")
		w.Str("mode", openai.Mode(c.Mode))
		w.Key("tools")
		w.Open('[')
		for _, t := range c.Tools {
			w.tool(t)
		}
		w.Close(']')
		w.Close('}')
	case c.Mode != "":
		w.Str("tool_choice", openai.Mode(c.Mode))
	}
	w.Parallel()
}

func (w writer) tool(t translate.ToolName) {
	w.Open('{')
	kind := "function"
	if t.Custom {
		kind = "custom"
	}
	w.Str("type", kind)
	w.Str("name", w.Names.Upstream(t))
	w.Close('}')
}

// customFormat writes the grammar of a custom tool. Chat completions nests it one level deeper.
func (w writer) customFormat(format rawjson.Value) {
	if format == nil {
		return
	}
	grammar := format.Member("grammar")
	if !grammar.IsObject() {
		w.Member("format", format)
		return
	}
	w.Key("format")
	w.Open('{')
	w.Str("type", "grammar")
	for key, v := range grammar.Members() {
		if key == "definition" || key == "syntax" {
			w.Member(key, v)
		}
	}
	w.Close('}')
}

func (w writer) message(m translate.Message) error {
	switch m.Role {
	case translate.System:
		return w.said("developer", m.Parts)
	case translate.Assistant:
		w.assistant(m.Parts)
		return nil
	}
	// Reminders go into the last result at upstreams other than OpenAI.
	var rest, reminders []translate.Part
	last := -1
	for i, p := range m.Parts {
		if p.Kind == translate.ResultPart {
			last = i
		}
	}
	for _, p := range m.Parts {
		switch {
		case p.Kind == translate.ResultPart:
		case last >= 0 && translate.IsReminder(p) && !w.Options.Official:
			reminders = append(reminders, p)
		default:
			rest = append(rest, p)
		}
	}
	for i, p := range m.Parts {
		if p.Kind != translate.ResultPart {
			continue
		}
		content := p.Content
		if i == last {
			content = append(content[:len(content):len(content)], reminders...)
		}
		if err := w.result(p, content); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return w.said("user", rest)
}

func (w writer) result(p translate.Part, content []translate.Part) error {
	w.Open('{')
	kind := "function_call_output"
	if w.Called[p.ID].Custom {
		kind = "custom_tool_call_output"
	}
	w.Str("type", kind)
	w.Str("call_id", w.CallID(p.ID))
	w.DropFailed(p)
	w.DropCache(p.Cache, translate.InMessages)
	plain := true
	for _, c := range content {
		plain = plain && c.Kind == translate.TextPart
	}
	if plain && (len(content) <= 1 || !w.Options.Official) {
		w.Joined("output", content)
		w.Close('}')
		return nil
	}
	err := w.content("output", content)
	w.Close('}')
	return err
}

func (w writer) said(role string, parts []translate.Part) error {
	w.Open('{')
	w.Str("type", "message")
	w.Str("role", role)
	err := w.content("content", parts)
	w.Close('}')
	return err
}

func (w writer) content(name string, parts []translate.Part) error {
	w.Key(name)
	w.Open('[')
	for _, p := range parts {
		if p, _ = translate.Textual(p); p.Kind == translate.TextPart {
			if p.Text.Empty() {
				continue
			}
			w.Open('{')
			w.Str("type", "input_text")
			w.Text("text", p.Text)
		} else if err := w.media(p); err != nil {
			return err
		}
		if p.Cache != nil && !w.Options.Breakpoints {
			w.Drop(w.Client.MarkerField(translate.InMessages))
		}
		w.Marker(p)
		w.Close('}')
	}
	w.Close(']')
	return nil
}

// media writes a medium without the closing brace.
func (w writer) media(p translate.Part) error {
	m := p.Media
	switch {
	case strings.HasPrefix(m.Type, "image/"):
		w.Open('{')
		w.Str("type", "input_image")
		w.MediaURL("image_url", m)
		if m.Detail != nil {
			w.Member("detail", m.Detail)
		}
	case m.Type == "application/pdf":
		w.Open('{')
		w.Str("type", "input_file")
		if m.Data.Empty() {
			w.Text("file_url", m.URL)
		} else {
			w.FileName(m)
			w.MediaURL("file_data", m)
		}
	default:
		w.Open('{')
		w.Str("type", "input_text")
		w.Text("text", w.Note(p))
	}
	return nil
}

// assistant writes the parts of an assistant message as items.
func (w writer) assistant(parts []translate.Part) {
	for _, p := range parts {
		switch p.Kind {
		case translate.ThinkingPart:
			w.reasoning(p)
		case translate.TextPart:
			if p.Text.Empty() {
				continue
			}
			w.DropCache(p.Cache, translate.InMessages)
			w.Open('{')
			w.Str("type", "message")
			w.Str("role", "assistant")
			w.Key("content")
			w.Open('[')
			w.Open('{')
			w.Str("type", "output_text")
			w.Text("text", p.Text)
			w.Close('}')
			w.Close(']')
			w.Close('}')
		case translate.CallPart:
			w.DropCache(p.Cache, translate.InMessages)
			w.Open('{')
			if p.Tool.Custom {
				w.Str("type", "custom_tool_call")
				w.Str("call_id", w.CallID(p.ID))
				w.Str("name", w.Names.Upstream(p.Tool))
				w.Text("input", p.Text)
			} else {
				w.Str("type", "function_call")
				w.Str("call_id", w.CallID(p.ID))
				w.Str("name", w.Names.Upstream(p.Tool))
				w.Quoted("arguments", w.Arguments(p))
			}
			w.Close('}')
		}
	}
}

// reasoning writes a reasoning item.
func (w writer) reasoning(p translate.Part) {
	// The item has no id, since the upstream stores nothing.
	w.Open('{')
	w.Str("type", "reasoning")
	w.Key("summary")
	w.Open('[')
	native := w.Native(p)
	if native && !p.Text.Empty() {
		w.Open('{')
		w.Str("type", "summary_text")
		w.Text("text", p.Text)
		w.Close('}')
	}
	w.Close(']')
	if native {
		w.Str("encrypted_content", p.Sealed.Data)
	} else {
		w.Key("content")
		w.Open('[')
		w.Open('{')
		w.Str("type", "reasoning_text")
		w.Text("text", p.Text)
		w.Close('}')
		w.Close(']')
	}
	w.Close('}')
}
