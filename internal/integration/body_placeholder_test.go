// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/tidwall/gjson"
)

// TestBodyPlaceholders: a member that stands for a value says it, whatever it is: text as
// text, JSON as JSON. Only where there is no value is there no member.
func TestBodyPlaceholders(t *testing.T) {
	u := newUpstream(t, answerMessage)
	t.Setenv("LLM_TEST_OPTIONS", `{"a":[1,2.50]}`)
	p := start(t, `vars number 7
llm_cache {
	upstream lm_studio {
		format anthropic
		body sessionId "{http.llm_cache.session}"
		body user "{http.request.header.X-User}"
		body options "{env.LLM_TEST_OPTIONS}"
		body number "{http.vars.number}"
		body tokens "{http.llm_cache.original_tokens}"
		body nobody "{http.request.header.X-Nobody}"
		body both "{http.request.header.X-User}{http.request.header.X-User}"
	}
}
reverse_proxy `+u.Listener.Addr().String())
	res := p.post("/v1/messages", conversation(2, false), "X-User", `anna "a" b`, "X-Session-Id", "s"+p.addr)
	_ = read(t, res)
	body := u.last().body
	for name, want := range map[string]string{
		"sessionId": `"` + res.Header.Get("X-Llm-Cache-Session") + `"`,
		"user":      `"anna \"a\" b"`,
		"options":   `{"a":[1,2.50]}`,
		"number":    "7",
		"tokens":    res.Header.Get("X-Llm-Cache-Original-Tokens"),
		"nobody":    "",
		"both":      `"anna \"a\" banna \"a\" b"`,
	} {
		if got := gjson.Get(body, name).Raw; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
