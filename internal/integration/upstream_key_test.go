// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestUpstreamKey: the key of the configuration stands in the header that the upstream's API reads, in
// place of the client's credentials, whatever is asked for. Clients stay apart.
func TestUpstreamKey(t *testing.T) {
	t.Setenv("LLM_CACHE_TEST_UPSTREAM_KEY", "sk-upstream")
	var asked string // path and query
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		asked = r.URL.String()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, message)
	})
	p := start(t, "respond 204")
	const key, bearer = "X-Api-Key: sk-upstream", "Authorization: Bearer sk-upstream"
	for _, c := range []struct {
		upstream, path, body string
		headers              []string // of the client
		want, asked          string
	}{
		{"anthropic", "/v1/messages", apis[0].body, []string{"Authorization", "Bearer sk-anna"}, key, "/v1/messages"},
		{"anthropic", "/v1/messages?key=sk-anna&beta=true", apis[0].body, nil, key, "/v1/messages?beta=true"},
		{"anthropic", "/v1/messages/count_tokens", apis[0].body, []string{"X-Api-Key", "sk-anna"}, key, "/v1/messages/count_tokens"},
		{"anthropic", "/v1/messages/batches", `{}`, []string{"X-Api-Key", "sk-anna"}, key, "/v1/messages/batches"},
		{"anthropic", apis[1].path, apis[1].body, []string{"Authorization", "Bearer sk-anna"}, key, "/v1/messages"},
		{"openai", apis[2].path, apis[2].body, []string{"Authorization", "Bearer sk-anna", "Api-Key", "sk-anna"}, bearer, "/v1/responses"},
		{"openai", "/v1/embeddings", `{"input":"hi"}`, []string{"X-Api-Key", "sk-anna"}, bearer, "/v1/embeddings"},
		{
			"gemini", apis[3].path + "?key=sk-anna", apis[3].body,
			[]string{"X-Goog-Api-Key", "sk-anna"},
			"X-Goog-Api-Key: sk-upstream", apis[3].path,
		},
		{"deepseek", apis[1].path, apis[1].body, []string{"Authorization", "Bearer sk-anna"}, bearer, ""},
		{"openrouter", apis[0].path, apis[0].body, []string{"X-Api-Key", "sk-anna"}, bearer, ""},
		{"", apis[0].path, apis[0].body, []string{"Authorization", "Bearer sk-anna"}, key, "/v1/messages"},
		{"", "/v1/anything", `{}`, []string{"X-Api-Key", "sk-anna"}, key, "/v1/anything"},
		{"mlx_lm", apis[1].path, apis[1].body, []string{"Authorization", "Bearer sk-anna"}, bearer, ""},
	} {
		p.reload("llm_cache {\n upstream " + c.upstream + " {\n key {env.LLM_CACHE_TEST_UPSTREAM_KEY}\n }\n}\nreverse_proxy " +
			u.Listener.Addr().String())
		before := len(u.requests())
		read(t, p.post(c.path, c.body, c.headers...))
		if len(u.requests()) == before {
			t.Errorf("%s %s: the upstream was not asked", c.upstream, c.path)
			continue
		}
		var got []string
		for name, values := range u.last().header {
			for _, v := range values {
				if strings.Contains(v, "sk-") {
					got = append(got, name+": "+v)
				}
			}
		}
		if !slices.Contains(got, c.want) || strings.Contains(strings.Join(got, " ")+asked, "sk-anna") ||
			c.asked != "" && asked != c.asked {
			t.Errorf("%s %s: the upstream was asked for %s with %q, want %q", c.upstream, c.path, asked, got, c.want)
		}
	}

	p.reload("llm_cache {\n upstream anthropic {\n key {env.LLM_CACHE_TEST_UPSTREAM_KEY}\n }\n}\nreverse_proxy " +
		u.Listener.Addr().String())
	before := len(p.sessions())
	for _, user := range []string{"sk-one", "sk-two"} {
		read(t, p.post("/v1/messages", conversation(1, false), "X-Api-Key", user, "X-Session-Id", "of-the-same-name"))
	}
	if n := len(p.sessions()) - before; n != 2 {
		t.Errorf("two clients have %d sessions", n)
	}
}

// TestUpstreamKeyMissing: without a value of the key a request ends here, and the client's credentials stay.
func TestUpstreamKeyMissing(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 204")
	p.reload("llm_cache {\n upstream anthropic {\n key {http.request.header.X-Key}\n }\n}\nreverse_proxy " +
		u.Listener.Addr().String())
	if res := p.post("/v1/messages", conversation(1, false), "X-Api-Key", "sk-anna"); res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %s", res.Status)
	}
	if len(u.requests()) != 0 {
		t.Error("the upstream was asked")
	}
	bad := p.config("llm_cache {\n upstream anthropic {\n key {env.LLM_CACHE_TEST_NOT_SET}\n }\n}\nreverse_proxy " +
		u.Listener.Addr().String())
	if err := p.caddy.Load(bad); err == nil || !strings.Contains(err.Error(), "key: the placeholder is empty") {
		t.Errorf("a configuration without its key is taken: %v", err)
	}
}
