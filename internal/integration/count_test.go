// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

// TestCountsWhatGoesOut: a count of tokens is asked of the prompt as the next request brings
// it, and leaves nothing behind.
func TestCountsWhatGoesOut(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	p := start(t, pruning(u))
	ask := func(path, body string, headers ...string) string {
		t.Helper()
		read(t, p.post(path, body, headers...))
		got := gjson.Parse(u.last().body)
		return got.Get("tools").Raw + got.Get("messages").Raw
	}
	const count = "/v1/messages/count_tokens"
	for _, c := range []struct {
		name, body string
		folds      bool
	}{
		{"the first request", agent(1, false), false},
		{"an early one", agent(4, false), true},
		{"a later one", agent(6, false), true},
	} {
		before := ask(count, c.body)
		sent := ask("/v1/messages", c.body)
		if before != sent {
			t.Errorf("%s: counted\n%s\nwant what was sent\n%s", c.name, before[8000:], sent[8000:])
		}
		if c.folds != stubName.MatchString(sent) {
			t.Errorf("%s: folded is %v, want %v", c.name, !c.folds, c.folds)
		}
	}
	other := agent(9, false)
	if got := ask(count, other, "Authorization", "Bearer somebody-else"); got == "" {
		t.Error("got nothing")
	}
	if s := p.sessions(); len(s) != 1 {
		t.Errorf("got the sessions %v, want one", s)
	}
}

// TestSealedReasoningStaysAtHome: what was sealed for one upstream goes to no API of the
// client's own format, in a request or a count, under any policy that reads requests and in any
// coding.
func TestSealedReasoningStaysAtHome(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	sealed := seal.Sealed{Format: wire.OpenAIResponses, ID: "rs_1", Text: "t", Data: "gAAA"}.Seal()
	body := `{"model":"claude-opus-4-8","max_tokens":100,"messages":[{"role":"user","content":"hi"},` +
		`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"` + sealed +
		`"},{"type":"tool_use","id":"toolu_1","name":"Read","input":{}}]},{"role":"user","content":[{"type":"tool_result",` +
		`"tool_use_id":"toolu_1","content":"r"}]}]}`
	unsealed := func(body string) string {
		return strings.Replace(body, `{"type":"thinking","thinking":"t","signature":"`+sealed+`"},`, "", 1)
	}
	want := unsealed(body)
	for _, policy := range []string{"cost_aware", "eager", "observe"} {
		p := start(t, "llm_cache {\n policy "+policy+"\n}\nreverse_proxy "+u.Listener.Addr().String())
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			for coding, sent := range map[string]string{"": body, "gzip": gzipped(t, body)} {
				var headers []string
				if coding != "" {
					headers = []string{"Content-Encoding", coding}
				}
				read(t, p.post(path, sent, headers...))
				if got := u.last(); got.body != want || got.length != int64(len(want)) {
					t.Errorf("%s, %s %s: got %d bytes %s, want %s", policy, path, coding, got.length, got.body, want)
				}
			}
		}
		// The conversation is known now.
		more := strings.TrimSuffix(body, "]}") + `,{"role":"assistant","content":"ok"},{"role":"user","content":"go on"}]}`
		read(t, p.post("/v1/messages", more))
		if got := u.last(); got.body != unsealed(more) {
			t.Errorf("%s, grown: got %s, want %s", policy, got.body, unsealed(more))
		}
	}
}
