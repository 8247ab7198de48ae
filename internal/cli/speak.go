// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

type said struct {
	model bool // false for the user
	text  string
}

type prompt struct {
	system string
	said   []said
	stream bool
}

type speech struct {
	path func(model string, stream bool) string
	body func(model string, p *prompt) any
	key  func(h http.Header, key string)
}

type object = map[string]any

func at(path string) func(string, bool) string { return func(string, bool) string { return path } }

func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// maxTokens bounds each response, thinking included.
const maxTokens = 2048

var speeches = map[wire.Format]speech{
	wire.Anthropic: {
		at("/v1/messages"),
		func(model string, p *prompt) any {
			o := object{
				"model": model, "max_tokens": maxTokens, "stream": p.stream,
				"messages": messages(p.said, "assistant", "content", plain),
			}
			if p.system != "" {
				o["system"] = p.system
			}
			return o
		},
		func(h http.Header, key string) {
			h.Set("X-Api-Key", key)
			h.Set("Anthropic-Version", "2023-06-01")
		},
	},
	wire.OpenAIChat: {
		at("/v1/chat/completions"),
		func(model string, p *prompt) any {
			all := messages(p.said, "assistant", "content", plain)
			if p.system != "" {
				all = slices.Insert(all, 0, object{"role": "system", "content": p.system})
			}
			o := object{"model": model, "stream": p.stream, "messages": all}
			if p.stream {
				o["stream_options"] = object{"include_usage": true}
			}
			return o
		},
		bearer,
	},
	wire.OpenAIResponses: {
		at("/v1/responses"),
		func(model string, p *prompt) any {
			o := object{
				"model": model, "stream": p.stream, "store": false,
				"input": messages(p.said, "assistant", "content", plain),
			}
			if p.system != "" {
				o["instructions"] = p.system
			}
			return o
		},
		bearer,
	},
	wire.Gemini: {
		func(model string, stream bool) string {
			if stream {
				return "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
			}
			return "/v1beta/models/" + model + ":generateContent"
		},
		func(_ string, p *prompt) any {
			o := object{"contents": messages(p.said, "model", "parts", parts)}
			if p.system != "" {
				o["systemInstruction"] = object{"parts": parts(p.system)}
			}
			return o
		},
		func(h http.Header, key string) { h.Set("X-Goog-Api-Key", key) },
	},
}

func plain(text string) any { return text }

func parts(text string) any { return []object{{"text": text}} }

func messages(all []said, model, content string, put func(string) any) []object {
	out := make([]object, 0, len(all)+1)
	for _, s := range all {
		role := "user"
		if s.model {
			role = model
		}
		out = append(out, object{"role": role, content: put(s.text)})
	}
	return out
}

// SmoketestFormats returns the testable formats, sorted.
func SmoketestFormats() []string {
	names := make([]string, 0, len(speeches))
	for f := range speeches {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}

func (o *SmoketestOptions) request(p *prompt) (url string, body []byte, err error) {
	s, ok := speeches[o.Format]
	if !ok {
		return "", nil, fmt.Errorf("format must be one of %s, got %q", strings.Join(SmoketestFormats(), ", "), o.Format)
	}
	body, err = json.Marshal(s.body(o.Model, p))
	return o.base() + s.path(o.Model, p.stream), body, err
}

// base returns the base URL without the version that some clients include.
func (o *SmoketestOptions) base() string {
	base := strings.TrimRight(o.URL, "/")
	for _, version := range []string{"/v1", "/v1beta"} {
		base = strings.TrimSuffix(base, version)
	}
	return base
}
