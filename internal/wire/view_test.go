// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"reflect"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestManagement(t *testing.T) {
	clearing := func(c wire.Clearing) wire.Management { return wire.Management{Results: &c} }
	for _, c := range []struct {
		format wire.Format
		member string
		want   wire.Management
		cuts   bool
	}{
		{wire.Anthropic, ``, wire.Management{}, false},
		{wire.Anthropic, `,"context_management":null`, wire.Management{}, false},
		{wire.Anthropic, `,"context_management":{"edits":"none"}`, wire.Management{}, false},
		{
			wire.Anthropic, `,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}`,
			wire.Management{},
			false,
		},
		{
			wire.Anthropic,
			`,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":{"type":"thinking_turns","value":2}}]}`,
			wire.Management{Thinking: 2},
			false,
		},
		{
			wire.Anthropic, `,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}`,
			clearing(wire.Clearing{Tokens: 100_000, Keep: 3}), true,
		},
		{
			wire.Anthropic,
			`,"context_management":{"edits":[{"type":"clear_tool_uses_20250919","trigger":{"type":"tool_uses","value":9},` +
				`"keep":{"type":"tool_uses","value":0},` +
				`"clear_at_least":{"type":"input_tokens","value":5000},"exclude_tools":["memory"],"clear_tool_inputs":["Bash"]}]}`,
			clearing(wire.Clearing{Calls: 9, AtLeast: 5000, Exclude: []string{"memory"}, InputsOf: []string{"Bash"}}), true,
		},
		{
			wire.Anthropic,
			`,"context_management":{"edits":[{"type":"clear_tool_uses_20250919","trigger":{"type":"input_tokens","value":-1},` +
				`"clear_tool_inputs":true}]}`,
			clearing(wire.Clearing{Keep: 3, Inputs: true}), true,
		},
		{
			wire.Anthropic, `,"context_management":{"edits":[{"type":"compact_20260112"}]}`,
			wire.Management{Compacts: true},
			true,
		},
		{wire.Anthropic, `,"compaction":{"type":"summarize"}`, wire.Management{Compacts: true}, true},
		{wire.Anthropic, `,"compaction":null`, wire.Management{}, false},
		{
			wire.OpenAIResponses, `,"context_management":[{"type":"compaction","compact_threshold":9}]`,
			wire.Management{Compacts: true},
			true,
		},
		{wire.OpenAIResponses, `,"context_management":[]`, wire.Management{}, false},
		{
			wire.OpenAIChat, `,"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"compaction":{}`,
			wire.Management{},
			false,
		},
	} {
		list := "messages"
		if c.format == wire.OpenAIResponses {
			list = "input"
		}
		v, err := wire.Parse(c.format, []byte(`{"model":"m","`+list+`":[{"role":"user","content":"Hi"}]`+c.member+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if m := v.Management(); !reflect.DeepEqual(m, c.want) || m.Cuts() != c.cuts {
			t.Errorf("%s%s: %+v, %+v", c.format, c.member, m, m.Results)
		}
	}
}

// Counts written by Applied read back unchanged.
func TestApplied(t *testing.T) {
	codec := wire.Anthropic.Codec().(wire.Manager)
	both := wire.Cleared{ToolUses: 8, Thinking: 3, Tokens: 65000, ThinkingTokens: 15000}
	for _, c := range []struct {
		answer, want string
		cleared      wire.Cleared
	}{
		{
			`{"type":"message","content":[]}`, `{"type":"message","content":[],"context_management":{"applied_edits":[]}}`,
			wire.Cleared{},
		},
		{
			`{"type":"message_delta","delta":{},"usage":{}}`,
			`{"type":"message_delta","delta":{},"usage":{},` +
				`"context_management":{"applied_edits":[{"type":"clear_thinking_20251015","cleared_thinking_turns":3,` +
				`"cleared_input_tokens":15000},` +
				`{"type":"clear_tool_uses_20250919","cleared_tool_uses":8,"cleared_input_tokens":50000}]}}`,
			both,
		},
		{
			`{"type":"message_start","message":{"type":"message"}}`, `{"type":"message_start","message":{"type":"message"}}`,
			both,
		},
		{`{"type":"error","error":{}}`, `{"type":"error","error":{}}`, both},
		{`{"type":"message"`, `{"type":"message"`, both},
	} {
		if got := string(codec.Applied([]byte(c.answer), c.cleared)); got != c.want {
			t.Errorf("%s becomes %s", c.answer, got)
		}
	}
	d := wire.NewDecoder(wire.Anthropic, false)
	d.Feed(codec.Applied([]byte(`{"type":"message","id":"m","content":[]}`), both))
	d.End()
	if got := d.Turn().Cleared; got != both {
		t.Errorf("%+v is read", got)
	}
}
