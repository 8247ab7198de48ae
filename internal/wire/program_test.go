// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Calls by programs and their results, in each format that supports them, and calls by the model
// itself in the same forms.
func TestParsePrograms(t *testing.T) {
	const pair = `{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"code_execution","input":{}},{"type":"tool_use","id":"t1","name":"q","input":{"a":1}%s}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]}`
	const items = `{"role":"user","content":"hi"},{"type":"function_call","call_id":"c1","name":"q",` +
		`"arguments":"{}"%s},{"type":"function_call_output","call_id":"c1","output":"r"%s}`
	const chat = `{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function",` +
		`"function":{"name":"q","arguments":"{}"}%s}]},{"role":"tool","tool_call_id":"c1","content":"r"}`
	for _, c := range []struct {
		name   string
		format wire.Format
		list   string
		caller []string
		want   string // the kinds of the call and the result
	}{
		{
			"code execution", wire.Anthropic, pair,
			[]string{`,"caller":{"type":"code_execution_20250825","tool_id":"s1"}`},
			"program program",
		},
		{
			"a later version", wire.Anthropic, pair,
			[]string{`,"caller":{"tool_id":"s1","type":"code_execution_20290101"}`},
			"program program",
		},
		{"the model", wire.Anthropic, pair, []string{`,"caller":{"type":"direct"}`}, "tool_use tool_result"},
		{"null", wire.Anthropic, pair, []string{`,"caller":null`}, "tool_use tool_result"},
		{"no caller", wire.Anthropic, pair, []string{``}, "tool_use tool_result"},
		{"both say so", wire.OpenAIResponses, items, []string{
			`,"caller":{"type":"program","caller_id":"p"}`,
			`,"caller":{"type":"program","caller_id":"p"}`,
		}, "program program"},
		{
			"only the call says so", wire.OpenAIResponses, items,
			[]string{`,"caller":{"type":"program","caller_id":"p"}`, ``},
			"program program",
		},
		{
			"only the output says so", wire.OpenAIResponses, items,
			[]string{``, `,"caller":{"type":"program","caller_id":"p"}`},
			"tool_use program",
		},
		{
			"the model, item by item", wire.OpenAIResponses, items,
			[]string{`,"caller":{"type":"direct"}`, `,"caller":{"type":"direct"}`},
			"tool_use tool_result",
		},
		{
			"chat", wire.OpenAIChat, chat,
			[]string{`,"caller":{"type":"code_execution_20250825","tool_id":"s1"}`},
			"program program",
		},
		{"chat, the model", wire.OpenAIChat, chat, []string{`,"caller":{"type":"direct"}`}, "tool_use tool_result"},
	} {
		list := c.list
		for _, s := range c.caller {
			list = strings.Replace(list, "%s", s, 1)
		}
		body := `{"model":"m","messages":[` + list + `]}`
		if c.format == wire.OpenAIResponses {
			body = `{"model":"m","input":[` + list + `]}`
		}
		v := mustParse(t, c.format, body)
		n := len(v.Blocks)
		if got := v.Blocks[n-2].Kind.String() + " " + v.Blocks[n-1].Kind.String(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A result counts as a program's although its call was recalled and not read.
func TestRecallPrograms(t *testing.T) {
	first := `{"model":"m","messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"q","input":{},"caller":{"type":"code_execution_20250825","tool_id":"s"}},{"type":"tool_use","id":"t2","name":"q","input":{}}]}`
	v := mustParse(t, wire.Anthropic, first+`]}`)
	body := first +
		`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"r"},{"type":"tool_result",` +
		`"tool_use_id":"t1","content":"r"}]}]}`
	again, err := wire.Parse(wire.Anthropic, []byte(body), func(wire.Hash) *wire.Known { return v.Known() })
	if err != nil || again.Recalled == 0 {
		t.Fatalf("recalled %d blocks: %v", again.Recalled, err)
	}
	sameViews(t, again, mustParse(t, wire.Anthropic, body))
	if a, b := again.Blocks[3].Kind, again.Blocks[4].Kind; a != wire.KindToolResult || b != wire.KindProgram {
		t.Errorf("got %s and %s, want tool_result and program", a, b)
	}
}
