// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/gemini"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// writer writes requests.
type writer struct{ *translate.Writer }

func (w writer) request() error {
	w.Str("model", w.Model)
	w.Param(translate.ServiceTier)
	w.Bool("store", false)
	if w.Request.Stream {
		w.Bool("stream", true)
	}
	if system := w.System(); len(system) > 0 {
		w.Text("system_instruction", translate.Joined(system))
		for _, p := range system {
			w.DropCache(p.Cache, translate.InSystem)
		}
	}
	w.tools()
	w.config()
	w.format()
	w.Key("input")
	w.Open('[')
	if err := w.EachMessage(w.message); err != nil {
		return err
	}
	w.Close(']')
	return nil
}

func (w writer) config() {
	w.Key("generation_config")
	w.Open('{')
	for p := range translate.ParamCount {
		if p != translate.ServiceTier {
			w.Param(p)
		}
	}
	if len(w.Request.Stop) > 0 {
		w.Texts("stop_sequences", w.Stops(5))
	}
	g := w.Request.Reasoning
	effort := g.AsEffort()
	if g.Mode == "off" {
		effort = "minimal"
	}
	if effort != "" {
		w.Str("thinking_level", gemini.Level(w.Model, effort))
	}
	if g.Show {
		w.Str("thinking_summaries", "auto")
	}
	if len(w.Tools) > 0 {
		w.choice()
	}
	w.Close('}')
}

func (w writer) choice() {
	c := w.Request.Choice
	if c.Single {
		w.Drop(w.Client.Parallel)
	}
	mode := c.Mode
	switch {
	case mode == "" && len(c.Tools) == 0:
		return
	case mode == "":
		mode = "auto"
	}
	if len(c.Tools) == 0 || mode == "none" {
		w.Str("tool_choice", mode)
		return
	}
	if mode == "auto" {
		mode = "validated" // auto takes no names in the Gemini API
	}
	w.Key("tool_choice")
	w.Open('{')
	w.Key("allowed_tools")
	w.Open('{')
	w.Str("mode", mode)
	w.Key("tools")
	w.Open('[')
	for _, t := range c.Tools {
		w.Comma()
		w.Body = append(rawjson.AppendEscaped(append(w.Body, '"'), w.Names.Upstream(t)), '"')
	}
	w.Close(']')
	w.Close('}')
	w.Close('}')
}

func (w writer) format() {
	o := w.Request.Output
	if o.Kind == "" {
		return
	}
	w.Key("response_format")
	w.Open('{')
	w.Str("type", "text")
	w.Str("mime_type", "application/json")
	if o.Kind == "schema" && o.Schema != nil {
		w.Member("schema", o.Schema)
	}
	w.Close('}')
}

func (w writer) tools() {
	if len(w.Tools) == 0 {
		return
	}
	w.Key("tools")
	w.Open('[')
	w.EachTool(func(t translate.Tool) {
		description, schema := w.Function(t)
		w.Open('{')
		w.Str("type", "function")
		w.Str("name", w.Names.Upstream(t.ToolName))
		if !description.Empty() {
			w.Text("description", description)
		}
		if schema != nil {
			w.Member("parameters", schema)
		}
		w.Close('}')
		w.DropCache(t.Cache, translate.InTools)
		if t.Strict.IsTrue() {
			w.Drop(w.Client.Strict)
		}
	})
	w.Close(']')
}

func (w writer) message(m translate.Message) error {
	if m.Role == translate.Assistant {
		w.assistant(m.Parts)
		return nil
	}
	rest := make([]translate.Part, 0, len(m.Parts))
	for _, p := range m.Parts {
		if p.Kind != translate.ResultPart {
			rest = append(rest, p)
			continue
		}
		if err := w.result(p); err != nil {
			return err
		}
	}
	if len(rest) == 0 {
		return nil
	}
	w.Open('{')
	w.Str("type", "user_input")
	err := w.content("content", rest)
	w.Close('}')
	return err
}

func (w writer) result(p translate.Part) error {
	tool, ok := w.Called[p.ID]
	if !ok {
		tool = p.Tool
	}
	w.Open('{')
	w.Str("type", "function_result")
	w.Str("call_id", p.ID)
	if tool.Name != "" {
		w.Str("name", w.Names.Upstream(tool))
	}
	if p.Failed {
		w.Bool("is_error", true)
	}
	w.DropCache(p.Cache, translate.InMessages)
	plain := true
	for _, c := range p.Content {
		c, _ = translate.Textual(c)
		plain = plain && c.Kind == translate.TextPart && c.Cache == nil
	}
	var err error
	if plain && len(p.Content) <= 1 {
		texts := make([]translate.Part, 0, 1)
		for _, c := range p.Content {
			c, _ = translate.Textual(c)
			texts = append(texts, c)
		}
		w.Text("result", translate.Joined(texts))
	} else {
		err = w.content("result", p.Content)
	}
	w.Close('}')
	return err
}

func (w writer) content(name string, parts []translate.Part) error {
	w.Key(name)
	w.Open('[')
	for _, p := range parts {
		w.DropCache(p.Cache, translate.InMessages)
		if p, _ = translate.Textual(p); p.Kind == translate.TextPart {
			w.text(p.Text)
		} else if err := w.media(p); err != nil {
			return err
		}
	}
	w.Close(']')
	return nil
}

func (w writer) text(t rawjson.Text) {
	if t.Empty() {
		return
	}
	w.Open('{')
	w.Str("type", "text")
	w.Text("text", t)
	w.Close('}')
}

func (w writer) media(p translate.Part) error {
	m := p.Media
	kind, _, _ := strings.Cut(m.Type, "/")
	switch kind {
	case "image", "audio", "video":
	case "application", "text":
		kind = "document"
	default:
		w.text(w.Note(p))
		return nil
	}
	w.Open('{')
	w.Str("type", kind)
	if m.Data.Empty() {
		w.Text("uri", m.URL)
	} else {
		w.Text("data", m.Data)
	}
	if !strings.HasSuffix(m.Type, "/*") {
		w.Str("mime_type", m.Type)
	}
	w.Close('}')
	return nil
}

// assistant writes the parts of an assistant message as steps.
func (w writer) assistant(parts []translate.Part) {
	for _, p := range parts {
		w.DropCache(p.Cache, translate.InMessages)
		// Steps have no member for a call's signature from another of Google's APIs.
		if p.Signature != "" {
			w.Drop(w.Client.Thinking)
		}
		switch p.Kind {
		case translate.ThinkingPart:
			w.thought(p)
		case translate.TextPart:
			if p.Text.Empty() {
				continue
			}
			w.Open('{')
			w.Str("type", "model_output")
			w.Key("content")
			w.Open('[')
			w.text(p.Text)
			w.Close(']')
			w.Close('}')
		case translate.CallPart:
			w.Open('{')
			w.Str("type", "function_call")
			w.Str("id", p.ID)
			w.Str("name", w.Names.Upstream(p.Tool))
			w.Member("arguments", w.Arguments(p))
			w.Close('}')
		}
	}
}

func (w writer) thought(p translate.Part) {
	w.Open('{')
	w.Str("type", "thought")
	if w.Native(p) {
		w.Str("signature", p.Sealed.Data)
	}
	if !p.Text.Empty() {
		w.Key("summary")
		w.Open('[')
		w.text(p.Text)
		w.Close(']')
	}
	w.Close('}')
}
