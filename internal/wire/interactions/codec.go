// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package interactions is the format of the Interactions API of Gemini.
package interactions

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Codec is the Interactions API of Gemini: POST …/interactions. Prompts and answers are lists of typed
// steps.
type Codec struct{}

// Traits implements [wire.Codec].
func (Codec) Traits() wire.Traits {
	return wire.Traits{
		KeepsAnswers: true, Alternates: true, FlatItems: true, SignedParts: true, OptionsOutsidePrompt: true,
		KeyHeader: "X-Goog-Api-Key",
	}
}

// Match implements [wire.Codec].
func (Codec) Match(path string) bool { return strings.HasSuffix(path, "/interactions") }

// ForcesCall implements [wire.Codec].
func (Codec) ForcesCall(choice gjson.Result) bool {
	if allowed := choice.Get("allowed_tools"); allowed.IsObject() {
		return allowed.Get("mode").Str == "any" || allowed.Get("tools.0").Exists()
	}
	return choice.Str == "any"
}

// Name implements [wire.Codec].
func (Codec) Name(key []byte) []byte { return names[string(key)] }

// Member implements [wire.Codec].
func (Codec) Member(p *wire.Parser, key []byte, value rawjson.Span) { parser{p}.member(key, value) }

// Messages implements [wire.Codec].
func (Codec) Messages(p *wire.Parser, at int) int {
	if p.Body[at] == '{' { // a single content without brackets
		return parser{p}.Item(at)
	}
	return p.Items(at, parser{p})
}

// Tool implements [wire.Codec].
func (Codec) Tool(p *wire.Parser, at int) int { return p.Tool(at, &tools) }

// System implements [wire.Codec].
func (Codec) System(p *wire.Parser, value rawjson.Span) {
	if p.Body[value.Start] != '"' { // the instruction must be a string
		p.Fail(wire.ErrShape)
		return
	}
	p.Blocks = append(p.Blocks, p.Plain(value, wire.SectionSystem, wire.RoleSystem, -1))
}

// Reader implements [wire.Codec].
func (Codec) Reader(to wire.Sink) wire.AnswerReader {
	return &answerReader{Teller: wire.Teller{Sink: to, Index: -1}}
}

// Silent implements [wire.Codec].
func (Codec) Silent(name []byte) bool { return string(name) == "step.stop" }

// Intercepts implements [intercept.Codec].
func (Codec) Intercepts(v *wire.View) bool {
	// Intercepted calls go among the client's steps. An input of a text or of contents has no steps.
	if v.Conversation.Partial || len(v.Messages) == 0 {
		return false
	}
	first := &v.Messages[0]
	return v.Raw[first.Span.Start] == '{' && (first.First == first.End || v.Blocks[first.First].Span != first.Span ||
		first.Role != wire.RoleUser)
}

// Intercept implements [intercept.Codec].
func (Codec) Intercept(r *intercept.Message) intercept.Interception {
	i := &interception{}
	i.Numbered = intercept.Numbered{Message: r, Type: "event_type", Index: "index", End: i.end}
	return i
}
