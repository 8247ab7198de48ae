// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// The types of edits in context_management. Each ends in the date of its version.
const (
	clearToolUses = "clear_tool_uses_20250919"
	clearThinking = "clear_thinking_20251015"
)

// The defaults of the API for members that an edit omits.
const (
	defaultTrigger = 100_000 // tokens
	defaultKeep    = 3       // calls
)

// Management implements [wire.Manager].
func (Codec) Management(value gjson.Result) (m wire.Management) {
	value.Get("edits").ForEach(func(_, e gjson.Result) bool {
		switch kind := e.Get("type").Str; {
		case strings.HasPrefix(kind, "compact"):
			m.Compacts = true
		case kind == clearToolUses:
			m.Results = clearing(e)
		case kind == clearThinking:
			if keep := e.Get("keep"); keep.Get("type").Str == "thinking_turns" {
				m.Thinking = int(wire.Count(keep.Get("value")))
			}
		}
		return true
	})
	return m
}

func clearing(e gjson.Result) *wire.Clearing {
	c := &wire.Clearing{Tokens: defaultTrigger, Keep: defaultKeep, AtLeast: wire.Count(e.Get("clear_at_least.value"))}
	if t := e.Get("trigger"); t.Get("value").Exists() {
		c.Tokens = wire.Count(t.Get("value"))
		if t.Get("type").Str == "tool_uses" {
			c.Tokens, c.Calls = 0, c.Tokens
		}
	}
	if k := e.Get("keep.value"); k.Exists() {
		c.Keep = int(wire.Count(k))
	}
	c.Exclude = names(e.Get("exclude_tools"))
	inputs := e.Get("clear_tool_inputs")
	c.Inputs, c.InputsOf = inputs.Bool(), names(inputs)
	return c
}

// clears reports whether a context_management contains only edits that package pipeline has applied.
func clears(v rawjson.Value) bool {
	for key := range v.Members() {
		if key != "edits" {
			return false
		}
	}
	for _, e := range v.Member("edits").Elements() {
		if kind := e.Member("type").Str(); kind != clearToolUses && kind != clearThinking {
			return false
		}
		for key := range e.Members() {
			switch key {
			case "type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs":
			default:
				return false
			}
		}
	}
	return true
}

func names(list gjson.Result) (out []string) {
	if !list.IsArray() {
		return nil
	}
	list.ForEach(func(_, name gjson.Result) bool {
		out = append(out, name.String())
		return true
	})
	return out
}

// Applied implements [wire.Manager]. It adds the edits to a message, or to a stream's message_delta.
func (Codec) Applied(data []byte, c wire.Cleared) []byte {
	switch gjson.GetBytes(data, "type").Str {
	case "message", "message_delta":
	default:
		return data
	}
	out, err := wire.Patch(data, wire.Member{Name: "context_management", Value: appliedEdits(c)})
	if err != nil {
		return data
	}
	return out
}

func appliedEdits(c wire.Cleared) []byte {
	b := []byte(`{"applied_edits":[`)
	edit := func(kind, counts string, n, tokens int64) {
		if n == 0 {
			return
		}
		b = rawjson.AppendCount(append(append(append(b, `{"type":"`...), kind...), `",`...), counts, n)
		b = rawjson.AppendCount(b, "cleared_input_tokens", tokens)
		b = append(b[:len(b)-1], `},`...)
	}
	edit(clearThinking, "cleared_thinking_turns", c.Thinking, c.ThinkingTokens)
	edit(clearToolUses, "cleared_tool_uses", c.ToolUses, c.Tokens-c.ThinkingTokens)
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, `]}`...)
}
