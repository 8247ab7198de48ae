// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Reader reads what both APIs have in their requests.
type Reader struct{ *translate.Reader }

// Effort reads a reasoning effort.
func (r Reader) Effort(effort string) {
	switch effort {
	case "":
	case "none":
		r.Request.Reasoning.Mode = "off"
	default:
		r.Request.Reasoning.Mode, r.Request.Reasoning.Effort = "on", effort
		r.Request.Reasoning.Show = true
	}
}

// Format reads what the answer must look like: v holds the kind, schema
// the schema and its names.
func (r Reader) Format(field string, v, schema rawjson.Value) error {
	if v.Absent() {
		return nil
	}
	switch v.Member("type").Str() {
	case "text":
	case "json_object":
		r.Request.Output.Kind = "json"
	case "json_schema":
		if schema.Member("schema").Absent() && string(schema.Member("schema")) != "{}" {
			return r.Malformed(field + ": no schema")
		}
		r.Request.Output = translate.Output{
			Kind: "schema", Name: schema.Member("name").Text(), Description: schema.Member("description").Text(),
			Schema: schema.Member("schema").Used(), Strict: schema.Member("strict").Used(),
		}
	case "grammar":
		r.Drop(field)
	default:
		return r.Malformed(field + ".type")
	}
	return nil
}

// Allow notes that a tool may be called. Those that only the provider runs have no
// name.
func (r Reader) Allow(t translate.ToolName) {
	if t.Name == "" {
		r.Drop("tool_choice.tools")
		return
	}
	r.Request.Choice.Tools = append(r.Request.Choice.Tools, t)
}

// Allowed reads the mode of a choice among some tools.
func (r Reader) Allowed(v rawjson.Value) error {
	if len(r.Request.Choice.Tools) == 0 {
		return r.Refuse("tool_choice", "no tool that could be called is allowed")
	}
	return r.Mode(v.Member("mode").Str())
}

// Mode reads a choice of tools by its mode.
func (r Reader) Mode(mode string) error {
	switch mode {
	case "auto", "none":
		r.Request.Choice.Mode = mode
	case "required":
		r.Request.Choice.Mode = "any"
	default:
		return r.Refuse("tool_choice", "unknown")
	}
	return nil
}

// Media reads a data URL or a link.
func (r Reader) Media(p *translate.Part, url rawjson.Value, kind, field string) error {
	p.Kind, p.Media.Field = translate.MediaPart, r.Path(field)
	t := url.Text()
	if t.Empty() {
		return r.Refuse(field, translate.ForeignFile)
	}
	if mediaType, data, ok := translate.DataURL(t); ok {
		if p.Media.Type, p.Media.Data = mediaType, data; data.Empty() {
			return r.Malformed(field)
		}
		return nil
	}
	if strings.HasPrefix(string(t), "data:") {
		return r.Refuse(field, "data that is not in base64")
	}
	p.Media.Type, p.Media.URL = kind, t
	return nil
}

// CacheOptions reads prompt_cache_options: whether only the prompt is to be cached. What it
// says of lifetimes and breakpoints is OpenAI's own.
func (r Reader) CacheOptions(key string, v rawjson.Value) {
	r.Request.FillsCache = v.Member("prewarm").IsTrue()
	r.DropIn(key, v, "prewarm")
}

// Prewarm bounds the answer to a request that asks for none, by the shortest that the
// upstream gives.
func (r Reader) Prewarm() {
	if r.Request.FillsCache {
		r.Request.Params[translate.MaxTokens] = rawjson.Value("0")
	}
}
