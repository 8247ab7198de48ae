// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// ask is a request of the Messages API with these messages and further members.
func ask(messages, members string) string {
	return `{"model":"m","max_tokens":9,"messages":[` + messages + `]` + members + `}`
}

func user(content string) string      { return `{"role":"user","content":` + content + `}` }
func assistant(content string) string { return `,{"role":"assistant","content":` + content + `}` }

const (
	hi     = `{"role":"user","content":"hi"}`
	use    = `{"type":"tool_use","id":"t1","name":"r","input":{}}`
	use2   = `{"type":"tool_use","id":"t2","name":"r","input":{}}`
	result = `{"type":"tool_result","tool_use_id":"t1","content":"ok"}`
	think  = `{"type":"thinking","thinking":"hm","signature":"s1"}`
	manual = `,"thinking":{"type":"enabled","budget_tokens":1024}`
)

func TestRefusals(t *testing.T) {
	m := mark("5m")
	sonnet, fable := rules(nil), rules(func(r *Rules) { *r = Lookup("", "claude-fable-5-2", today) })
	older := rules(func(r *Rules) { *r = Lookup("", "claude-sonnet-4-5", today) })
	for _, c := range []struct {
		name string
		cfg  SimulatorConfig
		body string
		want string // "" is accepted
	}{
		{"plain", sonnet, ask(hi, ""), ""},
		{
			"assistant first", sonnet, ask(`{"role":"assistant","content":"hi"},`+hi, ""),
			`messages: first message must use the "user" role`,
		},
		{
			"prefill", sonnet, ask(hi+assistant(`"I"`), ""),
			"This model does not support assistant message prefill. The conversation must end with a user message.",
		},
		{"prefill of an older model", older, ask(hi+assistant(`"I"`), ""), ""},
		{"empty final answer of an older model", older, ask(hi+assistant(`[]`), ""), ""},
		{"two user messages in a row", sonnet, ask(hi+","+hi, ""), ""},
		{"system message in between", sonnet, ask(hi+`,{"role":"system","content":"be brief"}`, ""), ""},
		{
			"no content", sonnet, ask(user(`[]`), ""),
			"messages.0: all messages must have non-empty content except for the optional final assistant message",
		},
		{"empty string", sonnet, ask(user(`""`), ""), "messages: text content blocks must be non-empty"},
		{
			"empty text", sonnet, ask(user(`[{"type":"text","text":"a"},{"type":"text","text":""}]`), ""),
			"messages: text content blocks must be non-empty",
		},
		{
			"empty system text", sonnet, ask(hi, `,"system":[{"type":"text","text":""}]`),
			"system: text content blocks must be non-empty",
		},
		{"blank text", sonnet, ask(user(`" \n\t"`), ""), "messages: text content blocks must contain non-whitespace text"},
		{"blank beside other text", sonnet, ask(user(`[{"type":"text","text":" "},{"type":"text","text":"a"}]`), ""), ""},

		{"four markers", sonnet, texts(1, 9, at(1, 2, 3, 4)), ""},
		{
			"five markers", sonnet, texts(1, 9, at(1, 2, 3, 4, 5)),
			"A maximum of 4 blocks with cache_control may be provided. Found 5.",
		},
		{
			"long after short", sonnet, texts(1, 9, map[int]string{2: "5m", 4: "1h"}),
			"messages.0.content.3.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' " +
				"cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
		},
		{
			"long after a short tool", sonnet, ask(hi, `,"tools":[{"name":"a"`+m+`}],"system":[{"type":"text","text":"b"`+
				mark("1h")+`}]`),
			"system.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. " +
				"Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
		},
		{
			"odd lifetime", sonnet, texts(1, 2, map[int]string{1: "2h"}),
			"messages.0.content.0.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
		},
		{
			"marked empty text", sonnet, ask(user(`[{"type":"text","text":"a"},{"type":"text","text":""`+m+`}]`), ""),
			"messages.0.content.1.text: cache_control cannot be set for empty text blocks",
		},
		{
			"marked thinking", sonnet, ask(hi+assistant(`[{"type":"thinking","thinking":"","signature":"s"`+m+
				`},{"type":"text","text":"a"}]`)+","+hi, ""),
			"messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
		},
		{
			"marked deferred tool", sonnet, ask(hi, `,"tools":[{"name":"late","defer_loading":true`+m+`}]`),
			"Tool 'late' cannot have both defer_loading=true and cache_control set. Tools with defer_loading cannot use " +
				"prompt caching.",
		},

		{"pair", sonnet, ask(hi+assistant("["+use+"]")+","+user("["+result+"]"), ""), ""},
		{"pair, then text", sonnet, ask(hi+assistant("["+use+"]")+","+user("["+result+`,{"type":"text","text":"go on"}]`),
			""), ""},
		{"results over two messages", sonnet, ask(hi+assistant("["+use+","+use2+"]")+","+user("["+result+"]")+","+
			user(`[{"type":"tool_result","tool_use_id":"t2"}]`), ""), ""},
		{
			"no result", sonnet, ask(hi+assistant("["+use+"]")+","+hi, ""),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` block " +
				"must have a corresponding `tool_result` block in the next message.",
		},
		{
			"one result of two", sonnet, ask(hi+assistant("["+use+","+use2+"]")+","+user("["+result+"]"), ""),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t2. Each `tool_use` block " +
				"must have a corresponding `tool_result` block in the next message.",
		},
		{
			"text before the result", sonnet, ask(hi+assistant("["+use+"]")+","+user(`[{"type":"text","text":"so"},`+result+"]"),
				""),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` block " +
				"must have a corresponding `tool_result` block in the next message.",
		},
		{
			"system between", sonnet, ask(hi+assistant("["+use+"]")+`,{"role":"system","content":"x"},`+user("["+result+"]"),
				""),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` block " +
				"must have a corresponding `tool_result` block in the next message.",
		},
		{
			"call at the end", older, ask(hi+assistant("["+use+"]"), ""),
			"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1. Each `tool_use` block " +
				"must have a corresponding `tool_result` block in the next message.",
		},
		{
			"result without call", sonnet, ask(user("["+result+"]"), ""),
			"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1. Each `tool_result` block must " +
				"have a corresponding `tool_use` block in the previous message.",
		},
		{
			"result too late", sonnet, ask(hi+assistant("["+use+"]")+","+user("["+result+"]")+assistant(`"a"`)+","+
				user("["+result+"]"), ""),
			"messages.4.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1. Each `tool_result` block must " +
				"have a corresponding `tool_use` block in the previous message.",
		},
		{
			"two results", sonnet, ask(hi+assistant("["+use+"]")+","+user("["+result+","+result+"]"), ""),
			"messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: t1",
		},
		{
			"two calls of one id", sonnet, ask(hi+assistant("["+use+","+use+"]")+","+user("["+result+"]"), ""),
			"messages: `tool_use` ids must be unique",
		},

		{
			"thinking last", sonnet, ask(hi+assistant(`[{"type":"text","text":"a"},`+think+`]`)+","+hi, ""),
			"messages.1: The final block in an assistant message cannot be `thinking`.",
		},
		{"loop without thinking, adaptive", sonnet, ask(hi+assistant("["+use+"]")+","+user("["+result+"]"),
			`,"thinking":{"type":"adaptive"}`), ""},
		{
			"loop with thinking, fixed budget", older, ask(hi+assistant("["+think+","+use+"]")+","+user("["+result+"]"), manual),
			"",
		},
		{
			"loop without thinking, fixed budget", older, ask(hi+assistant("["+use+"]")+","+user("["+result+"]"), manual),
			"messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is " +
				"enabled, a final `assistant` message must start with a thinking block " +
				"(preceeding the lastmost set of " + //nolint:misspell // the API's own spelling
				"`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid " +
				"this requirement, disable `thinking`. Please consult our documentation at " +
				"https://docs.claude.com/en/docs/build-with-claude/extended-thinking",
		},
		{"loop that began with thinking", older, ask(hi+assistant("["+think+","+use+"]")+","+user("["+result+"]")+
			assistant("["+use2+"]")+","+user(`[{"type":"tool_result","tool_use_id":"t2"}]`), manual), ""},
		{"finished turn without thinking", older, ask(hi+assistant("["+use+"]")+","+user("["+result+"]")+assistant(`"a"`)+","+
			hi, manual), ""},
		{
			"thinking in the middle, fixed budget", older, ask(hi+assistant("["+think+","+use+"]")+","+user("["+result+"]")+
				assistant(`[{"type":"text","text":"a"},`+strings.Replace(think, "s1", "s2", 1)+","+use2+"]")+","+
				user(`[{"type":"tool_result","tool_use_id":"t2"}]`), manual),
			"messages.3.content.0: If an assistant message contains any thinking blocks, the first block must be `thinking` " +
				"or `redacted_thinking`. Found `text`.",
		},
		{
			"forced tool", fable, ask(hi, `,"tool_choice":{"type":"any"}`),
			`tool_choice: type "tool" and "any" are not supported for this model.`,
		},
		{"forced tool, other model", sonnet, ask(hi, `,"tool_choice":{"type":"any"}`), ""},
		{
			"forced tool while thinking", older, ask(hi, `,"tool_choice":{"type":"tool","name":"r"}`+manual),
			"Thinking may not be enabled when tool_choice forces tool use.",
		},

		{
			"too long", rules(func(r *Rules) { r.ContextWindow = 50 }), texts(1, 9, nil),
			fmt.Sprintf("prompt is too long: %d tokens > 50 maximum", length(t, 9)),
		},
	} {
		v := parse(t, wire.Anthropic, c.body)
		run, err := NewSimulator(c.cfg).Begin(Call{View: v, At: start})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", c.name, err)
		case c.want != "" && err == nil:
			t.Errorf("%s: accepted", c.name)
		case c.want != "" && (err.Message != c.want || err.Status != 400 || err.Type != "invalid_request_error"):
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		case (run == nil) == (err == nil):
			t.Errorf("%s: run %v with error %v", c.name, run, err)
		}
	}
}

func TestChatRefusals(t *testing.T) {
	const (
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"r",` +
			`"arguments":"{}"}}]}`
		calls = `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"r","arguments":"{}"}},` +
			`{"id":"c2","type":"function","function":{"name":"r","arguments":"{}"}}]}`
		done = `{"role":"tool","tool_call_id":"c1","content":"ok"}`
	)
	for _, c := range []struct{ name, messages, want string }{
		{"pair", hi + "," + call + "," + done, ""},
		{"empty result", hi + "," + call + `,{"role":"tool","tool_call_id":"c1","content":null}`, ""},
		{"system first", `{"role":"system","content":"s"},` + hi, ""},
		{
			"no result", hi + "," + call + "," + hi,
			"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The " +
				"following tool_call_ids did not have response messages: c1",
		},
		{
			"one result of two", hi + "," + calls + "," + done,
			"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The " +
				"following tool_call_ids did not have response messages: c2",
		},
		{
			"result without call", hi + "," + done,
			"Invalid parameter: messages with role 'tool' must be a response to a " +
				"preceeding message with 'tool_calls'.", //nolint:misspell // the API's own spelling
		},
		{
			"result of another call", hi + "," + call + `,{"role":"tool","tool_call_id":"c9","content":"ok"}`,
			"Invalid parameter: 'tool_call_id' of 'c9' not found in 'tool_calls' of previous message.",
		},
	} {
		v := parse(t, wire.OpenAIChat, `{"model":"gpt-6.1-sol","messages":[`+c.messages+`]}`)
		_, err := NewSimulator(SimulatorConfig{}).Begin(Call{View: v, At: start})
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Message != c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

func TestRefusedRequestsChangeNothing(t *testing.T) {
	s := &script{t: t, sim: NewSimulator(rules(nil))}
	bad := texts(1, 9, at(1, 2, 3, 4, 5))
	if _, err := s.sim.Begin(Call{View: s.view(bad), At: start}); err == nil {
		t.Fatal("accepted")
	}
	if u := s.send(texts(1, 9, at(5, 9))); u.Read != 0 {
		t.Errorf("a refused request has written: %+v", u)
	}
}

func TestAPIError(t *testing.T) {
	var err error = invalid("no")
	if err.Error() != "invalid_request_error: no" {
		t.Error(err)
	}
}

func TestEngineNeverRefusesMarkers(t *testing.T) {
	v := parse(t, wire.Anthropic, texts(1, 9, at(1, 2, 3, 4, 5, 6)))
	cfg := SimulatorConfig{Rules: func(string, time.Time) Rules { return Lookup("ollama", "q", today) }}
	if _, err := NewSimulator(cfg).Begin(Call{View: v, At: start}); err != nil {
		t.Error(err)
	}
}
