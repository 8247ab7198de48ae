// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func TestResponsesRefusals(t *testing.T) {
	const (
		call   = `{"type":"function_call","call_id":"c1","name":"r","arguments":"{}"},`
		custom = `{"type":"custom_tool_call","call_id":"c2","name":"exec","input":"x"},`
		done   = `{"type":"function_call_output","call_id":"c1","output":"ok"},`
		ran    = `{"type":"custom_tool_call_output","call_id":"c2","output":[]},`
		reason = `{"type":"reasoning","id":"rs_1","encrypted_content":"g"},`
		last   = `{"role":"user","content":"go on"}`
	)
	for _, c := range []struct{ name, body, want string }{
		{"pairs", `"input":[` + reason + call + custom + ran + done + last + `]`, ""},
		{"outputs behind a message", `"input":[` + call + hi + "," + done + last + `]`, ""},
		{"no output", `"input":[` + call + last + `]`, "No tool output found for function call c1."},
		{"one of two", `"input":[` + call + custom + done + last + `]`, "No tool output found for function call c2."},
		{
			"output in front of its call", `"input":[` + done + call + last + `]`,
			"No tool call found for function call output with call_id c1.",
		},
		{
			"output without call", `"input":[` + ran + last + `]`,
			"No tool call found for custom tool call output with call_id c2.",
		},
		{"call by reference", `"input":[{"type":"item_reference","id":"fc_1"},` + done + last + `]`, ""},
		{"call held by the provider", `"previous_response_id":"r","input":[` + done + last + `]`, ""},
		{
			"reasoning without what it led to", `"input":[` + reason + last + `]`,
			"Item 'rs_1' of type 'reasoning' was provided without its required following item.",
		},
		{
			"reasoning at the end", `"input":[` + hi + `,` + reason[:len(reason)-1] + `]`,
			"Item 'rs_1' of type 'reasoning' was provided without its required following item.",
		},
		{"reasoning, then text", `"input":[` + reason + `{"role":"assistant","content":"so"},` + last + `]`, ""},
	} {
		v := parse(t, wire.OpenAIResponses, `{"model":"gpt-6.1-sol",`+c.body+`}`)
		_, err := NewSimulator(SimulatorConfig{}).Begin(Call{View: v, At: start})
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Message != c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestInteractionsRefusals(t *testing.T) {
	const (
		said   = `{"type":"user_input","content":"hi"},`
		call   = `{"type":"thought","signature":"c2ln"},{"type":"function_call","id":"c1","name":"r","arguments":{}},`
		result = `{"type":"function_result","call_id":"c1","result":"ok"},`
		last   = `{"type":"user_input","content":"go on"}`
	)
	for _, c := range []struct{ name, body, want string }{
		{"pairs", `"input":[` + said + call + result + last + `]`, ""},
		{"no result", `"input":[` + said + call + last + `]`, "No function result found for function call c1."},
		{
			"a result in front of its call", `"input":[` + said + result + call + last + `]`,
			"No function call found for function result with call_id c1.",
		},
		{"a call without a name", `"input":[` + said + `{"type":"function_call","id":"c1","arguments":{}},` + result + last +
			`]`, "Function call steps must have an id and a name."},
		{"a call held by the provider", `"previous_interaction_id":"v1_a","input":[` + result + last + `]`, ""},
	} {
		v := parse(t, wire.Interactions, `{"model":"gemini-3.1-pro",`+c.body+`}`)
		_, err := NewSimulator(SimulatorConfig{}).Begin(Call{View: v, At: start})
		if c.want == "" && err != nil || c.want != "" &&
			(err == nil || err.Message != c.want || err.Type != "invalid_request") {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
	whole := parse(t, wire.Interactions, `{"input":[`+said+call+result+last+`]}`)
	for name, c := range map[string]struct {
		input string
		ok    bool
	}{
		"a result":  {said + call + strings.Replace(result, "ok", "stub", 1) + last, true},
		"the call":  {said + strings.Replace(call, "{}", `{"a":1}`, 1) + result + last, false},
		"a thought": {said + strings.Replace(call, "c2ln", "c2lo", 1) + result + last, false},
	} {
		v := parse(t, wire.Interactions, `{"input":[`+c.input+`]}`)
		if _, err := NewSimulator(SimulatorConfig{}).Begin(Call{View: v, Client: whole, At: start}); (err == nil) != c.ok {
			t.Errorf("%s was edited: %v", name, err)
		}
	}
	count := func(input string) int64 {
		return NewSimulator(SimulatorConfig{}).Count(parse(t, wire.Interactions, `{"model":"gemini-3.1-pro","input":`+input+
			`}`))
	}
	if a, b := count(`"a text of some length"`),
		count(`[{"type":"user_input","content":[{"type":"text","text":"a text of some length"}]}]`); a != b || a < 5 {
		t.Errorf("%d and %d tokens", a, b)
	}
	if n := count(`[{"type":"document","mime_type":"application/pdf","data":"AAAA"}]`); n < tokensImage {
		t.Errorf("a document of %d tokens", n)
	}
}

// The tokens of an item depend on what it says, not on ids or form.
func TestResponsesTokens(t *testing.T) {
	tokens := func(item string) int64 {
		return NewSimulator(SimulatorConfig{}).Count(parse(t, wire.OpenAIResponses, `{"model":"gpt-6.1-sol","input":[`+item+
			`]}`))
	}
	text := `a text of some length, that is the output of a tool`
	for _, c := range []struct{ name, a, b string }{
		{
			"text and parts", `{"role":"user","content":"` + text + `"}`,
			`{"id":"m","role":"user","content":[{"type":"input_text","text":"` + text +
				`","prompt_cache_breakpoint":{"mode":"explicit"}}]}`,
		},
		{
			"outputs", `{"type":"function_call_output","call_id":"c","output":"` + text + `"}`,
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"` + text + `"}]}`,
		},
		{
			"answers", `{"role":"assistant","content":"` + text + `"}`,
			`{"id":"x","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"` +
				text + `","annotations":[]}]}`,
		},
		{
			"images", `{"role":"user","content":[{"type":"input_image","image_url":"data:,a"}]}`,
			`{"role":"user","content":[{"type":"input_image","image_url":"data:,` + text + `"}]}`,
		},
	} {
		if a, b := tokens(c.a), tokens(c.b); a != b || a < 5 {
			t.Errorf("%s: %d and %d tokens", c.name, a, b)
		}
	}
}

// Breakpoints of the client's own are for hosts that are known to take them.
func TestExplicitBreakpoints(t *testing.T) {
	for _, c := range []struct {
		provider, model string
		want            bool
	}{
		{"openai", "gpt-6.1-sol", true},
		{"openai", "gpt-5.6-sol", true},
		{"openai", "gpt-5.5", false},
		{"", "gpt-6.1-sol", false},
		{"azure", "gpt-6.1-sol", false},
		{"anthropic", "claude-opus-5-5", false},
	} {
		if r := Lookup(c.provider, c.model, today); r.Explicit != c.want || r.BindsReasoning != (r.Regime == Breakpoints) {
			t.Errorf("%s %s: %+v", c.provider, c.model, r)
		}
	}
}
