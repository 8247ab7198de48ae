// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// writer writes requests.
type writer struct{ openai.Writer }

func (w writer) request() error {
	q := w.Request
	w.Str("model", w.Model)
	for p := range translate.ParamCount {
		w.Param(p)
	}
	if len(q.Stop) > 0 {
		limit := len(q.Stop)
		switch {
		case w.Options.Official && openai.Reasons(w.Model):
			limit = 0 // reasoning models refuse stop sequences
		case w.Options.Official:
			limit = 4
		}
		if stop := w.Stops(limit); len(stop) > 0 {
			w.Texts("stop", stop)
		}
	}
	if effort := w.Effort(); effort != "" {
		w.Str("reasoning_effort", effort)
	}
	w.format()
	if q.Stream {
		w.Bool("stream", true)
		w.Member("stream_options", rawjson.Value(`{"include_usage":true}`))
		if w.Options.Progress && w.Adds() {
			w.Bool("return_progress", true)
		}
	}
	w.tools()
	w.Key("messages")
	w.Open('[')
	if system := w.System(); len(system) > 0 {
		w.Open('{')
		w.Str("role", "system")
		if err := w.content(system, translate.InSystem); err != nil {
			return err
		}
		w.Close('}')
	}
	if err := w.EachMessage(w.message); err != nil {
		return err
	}
	w.Close(']')
	return nil
}

func (w writer) format() {
	o := w.Request.Output
	switch o.Kind {
	case "json":
		w.Member("response_format", rawjson.Value(`{"type":"json_object"}`))
	case "schema":
		w.Key("response_format")
		w.Open('{')
		w.Str("type", "json_schema")
		w.Key("json_schema")
		w.Open('{')
		w.SchemaNames(o)
		w.Close('}')
		w.Close('}')
	}
}

func (w writer) tools() {
	c := w.Request.Choice
	if len(w.Tools) == 0 {
		return
	}
	w.Key("tools")
	w.Open('[')
	w.EachTool(func(t translate.Tool) {
		description, schema := w.Function(t)
		w.Open('{')
		w.Str("type", "function")
		w.Key("function")
		w.Open('{')
		w.Str("name", w.Names.Upstream(t.ToolName))
		if !description.Empty() {
			w.Text("description", description)
		}
		w.Member("parameters", translate.ObjectSchema(schema))
		if w.StrictTool(t) {
			w.Bool("strict", true)
		}
		w.Close('}')
		if w.Options.CacheControl && t.Cache != nil {
			w.Member("cache_control", t.Cache)
		} else {
			w.DropCache(t.Cache, translate.InTools)
		}
		w.Close('}')
	})
	w.Close(']')
	switch {
	case c.Mode == "any" && len(c.Tools) == 1:
		w.Key("tool_choice")
		w.Open('{')
		w.Str("type", "function")
		w.Key("function")
		w.Open('{')
		w.Str("name", w.Names.Upstream(c.Tools[0]))
		w.Close('}')
		w.Close('}')
	case len(c.Tools) > 0 && w.Options.Official && c.Mode != "none":
		w.Key("tool_choice")
		w.Open('{')
		w.Str("type", "allowed_tools")
		w.Key("allowed_tools")
		w.Open('{')
		w.Str("mode", openai.Mode(c.Mode))
		w.Key("tools")
		w.Open('[')
		for _, t := range c.Tools {
			w.Open('{')
			w.Str("type", "function")
			w.Key("function")
			w.Open('{')
			w.Str("name", w.Names.Upstream(t))
			w.Close('}')
			w.Close('}')
		}
		w.Close(']')
		w.Close('}')
		w.Close('}')
	case c.Mode != "":
		w.Str("tool_choice", openai.Mode(c.Mode))
	}
	w.Parallel()
}
