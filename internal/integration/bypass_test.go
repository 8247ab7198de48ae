// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestBothReasonings: clients that send a message's thinking back under both of its
// names (qwen-code) keep what their conversation was promised, and a box gets one.
func TestBothReasonings(t *testing.T) {
	t.Parallel()
	const tool = `"tools":[{"type":"function","function":{"name":"ls","parameters":{"type":"object"}}}]`
	body := func(more string) string {
		return `{"model":"gpt-5.6","messages":[{"role":"system","content":"You are an agent."},{"role":"user",` +
			`"content":"Go."}` + more + `],` + tool + `}`
	}
	turn := func(n int) string {
		return fmt.Sprintf(`,{"role":"assistant","content":"I look.","tool_calls":[{"id":"c%d","type":"function",`+
			`"function":{"name":"ls","arguments":"{}"}}],"reasoning_content":"Hm %d.","reasoning":"Hm %d."},{"role":"tool",`+
			`"tool_call_id":"c%d","content":"a"}`, n, n, n, n)
	}
	bodies := []string{body(""), body(turn(1)), body(turn(1) + turn(2))}

	u := newUpstream(t, answerChat)
	p := start(t, "llm_cache {\n expand on\n}\nreverse_proxy "+u.Listener.Addr().String())
	for i, b := range bodies {
		res := p.post("/v1/chat/completions", b)
		if got := res.Header.Get("X-Llm-Cache-Bypass"); got != "" {
			t.Errorf("request %d passed untouched: %s", i, got)
		}
		if got := u.last().body; !strings.Contains(got, "mcp__llm_cache__expand") || !gjson.Valid(got) {
			t.Errorf("request %d went without the tool: %s", i, got)
		}
	}
	if s := p.sessions(); len(s) != 1 || len(s[0].Conversations) != 1 || s[0].requests() != 3 {
		t.Errorf("sessions are %+v, want one conversation of three requests", s)
	}

	for _, c := range []struct {
		upstream   string
		has, lacks string
	}{
		{"mlx_lm", `"reasoning_content":"Hm 1."`, `"reasoning":`},
		{"ollama", `"reasoning":"Hm 1."`, "reasoning_content"},
		{"mlx_lm {\n reasoning none\n}", "I look.", "Hm 1."},
	} {
		p.reload(behind(u, c.upstream))
		p.post("/v1/chat/completions", bodies[1])
		if got := u.last().body; !strings.Contains(got, c.has) || strings.Contains(got, c.lacks) || !gjson.Valid(got) {
			t.Errorf("%s got %s", c.upstream, got)
		}
	}
}

// TestStrangeMessages: what cannot be made out in one message costs the conversation
// neither its session nor the tool it was promised, and reaches the upstream as it is.
func TestStrangeMessages(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\n expand on\n}\nreverse_proxy "+u.Listener.Addr().String())
	const head = `{"model":"claude-opus-4-6","max_tokens":9,"tools":[{"name":"Read","input_schema":{"type":"object"}}],` +
		`"messages":[{"role":"user","content":"Go."}`
	for i, strange := range []string{
		`{"role":"assistant","content":[{"type":"text","text":"a","text":"b"}]}`,
		`{"role":"assistant","content":7}`,
		`{"role":"critic","content":"hm"}`,
		`{"r\u006fle":"assistant","content":"a"}`,
		`{"role":"assistant","content":["a"]}`,
	} {
		session := fmt.Sprint("strange-", i)
		p.post("/v1/messages", head+`]}`, "X-Session-Id", session)
		res := p.post("/v1/messages", head+","+strange+`,{"role":"user","content":"On."}]}`, "X-Session-Id", session)
		got := u.last().body
		if !strings.Contains(got, strange) || !strings.Contains(got, "mcp__llm_cache__expand") ||
			res.Header.Get("X-Llm-Cache-Bypass") != "" {
			t.Errorf("%s: headers %v, sent %s", strange, res.Header, got)
		}
	}
	for _, s := range p.sessions() {
		if s.requests() != 2 || len(s.Conversations) != 1 {
			t.Errorf("session %+v, want one conversation of two requests", s)
		}
	}
}

// TestBypass: the client is told when its request passes untouched, and why.
func TestBypass(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	for _, c := range []struct{ body, kind, want string }{
		{conversation(1, false), "application/json", ""},
		{conversation(1, false)[:200], "application/json", "parse"},
		{conversation(1, false), "text/plain", "content_type"},
	} {
		res := p.post("/v1/messages", c.body, "Content-Type", c.kind)
		if got := res.Header.Get("X-Llm-Cache-Bypass"); got != c.want || res.StatusCode != http.StatusOK {
			t.Errorf("status %d, bypass %q, want %q", res.StatusCode, got, c.want)
		}
	}
	p.reload("llm_cache {\n headers off\n}\nreverse_proxy " + u.Listener.Addr().String())
	if res := p.post("/v1/messages", "{"); res.Header.Get("X-Llm-Cache-Bypass") != "" {
		t.Error("a header where there are to be none")
	}
}
