// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Reader reads the members that requests of both APIs have.
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

// Format reads the output format: v has its type, schema the JSON schema, its name and its
// description.
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

// Allow adds a tool to the allowed tools of the request's tool choice.
func (r Reader) Allow(t translate.ToolName) {
	// Tools that the provider runs itself have no name.
	if t.Name == "" {
		r.Drop("tool_choice.tools")
		return
	}
	r.Request.Choice.Tools = append(r.Request.Choice.Tools, t)
}

// Allowed reads the mode of a tool choice with allowed tools.
func (r Reader) Allowed(v rawjson.Value) error {
	if len(r.Request.Choice.Tools) == 0 {
		return r.Refuse("tool_choice", "no tool that could be called is allowed")
	}
	return r.Mode(v.Member("mode").Str())
}

// Mode reads the mode of a tool choice.
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

// CacheOptions reads prompt_cache_options. Its member prewarm asks for a cache write without an
// answer.
func (r Reader) CacheOptions(key string, v rawjson.Value) {
	r.Request.FillsCache = v.Member("prewarm").IsTrue()
	// The members for lifetimes and breakpoints exist only at OpenAI.
	r.DropIn(key, v, "prewarm")
}

// Prewarm limits the answer of a request that only fills the cache to the upstream's minimum.
func (r Reader) Prewarm() {
	if r.Request.FillsCache {
		// The writer raises the limit to the upstream's minimum.
		r.Request.Params[translate.MaxTokens] = rawjson.Value("0")
	}
}
