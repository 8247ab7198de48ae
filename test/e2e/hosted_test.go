// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// hostedProvider is the part of a provider's API that differs from its format.
type hostedProvider struct {
	path    string                                        // of the API that a Gemini client's requests go to
	local   string                                        // the simulated model's path for it
	refused []string                                      // members that the provider refuses
	session func(h http.Header, body gjson.Result) string // the name of the conversation
	wants   func(message gjson.Result) (missing string)   // of each message
}

func inHeader(name string) func(http.Header, gjson.Result) string {
	return func(h http.Header, _ gjson.Result) string { return h.Get(name) }
}

func inBody(name string) func(http.Header, gjson.Result) string {
	return func(_ http.Header, body gjson.Result) string { return body.Get(name).Str }
}

const (
	chatPath     = "/v1/chat/completions"
	messagesPath = "/v1/messages"
)

var hostedProviders = map[string]hostedProvider{
	"deepseek": {path: chatPath, local: chatPath, wants: func(m gjson.Result) string {
		if m.Get("tool_calls").Exists() && !m.Get("reasoning_content").Exists() {
			return "The reasoning_content in the thinking mode must be passed back to the API."
		}
		return ""
	}},
	"moonshot": {path: chatPath, local: chatPath, session: inBody("prompt_cache_key")},
	"zai":      {path: "/api/paas/v4/chat/completions", local: chatPath},
	"qwen":     {path: "/apps/anthropic/v1/messages", local: messagesPath},
	"minimax":  {path: "/anthropic/v1/messages", local: messagesPath},
	"xai":      {path: chatPath, local: chatPath, session: inHeader("X-Grok-Conv-Id")},
	"mistral": {path: chatPath, local: chatPath, refused: []string{
		"store", "seed", "stream_options", "user",
		"metadata",
	}, session: inBody("prompt_cache_key")},
	"openrouter": {path: "/api/v1/chat/completions", local: chatPath, session: inBody("session_id")},
	"groq": {
		path: "/openai/v1/chat/completions", local: chatPath,
		refused: []string{"prompt_cache_key", "logprobs"},
	},
	"together":  {path: chatPath, local: chatPath},
	"fireworks": {path: "/inference/v1/chat/completions", local: chatPath, session: inHeader("X-Session-Affinity")},
	"azure":     {path: "/openai/v1/responses", local: "/v1/responses"},
}

// TestHostedProviders: a program with Google's SDK, whose format none of them speaks, finishes a task
// of many calls at each hosted provider, whose path, strictness and names of conversations are those
// of its documents.
func TestHostedProviders(t *testing.T) {
	for preset, c := range hostedProviders {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			script := sdkScript()
			var mu sync.Mutex
			names := map[string]bool{}
			s := startStack(t, setup{
				cache: "upstream " + preset, script: script, unwatched: true,
				manner: func(_ *httputil.ReverseProxy, next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.Method != http.MethodPost {
							next.ServeHTTP(w, r)
							return
						}
						body, err := io.ReadAll(r.Body)
						fault := c.judge(r, body)
						if err != nil || fault != "" {
							t.Errorf("%s: %s in %s", r.URL.Path, fault, body)
							w.WriteHeader(http.StatusBadRequest)
							_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, fault)
							return
						}
						if c.session != nil {
							mu.Lock()
							names[c.session(r.Header, gjson.ParseBytes(body))] = true
							mu.Unlock()
						}
						r.Body, r.URL.Path = io.NopCloser(bytes.NewReader(body)), c.local
						next.ServeHTTP(w, r)
					})
				},
			})
			a := geminiAgentFor(s.url)
			a.late = true
			a.prompt("Find out why the build fails.")
			for i, step := range script {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				r, err := a.answer(ctx)
				cancel()
				if err != nil {
					t.Fatalf("request %d: %v", i, err)
				}
				compare(t, i, r, step, "STOP")
				if len(step.Calls) == 0 {
					a.prompt("Now mend it.")
				}
				a.results(results(r.calls))
			}
			mu.Lock()
			defer mu.Unlock()
			if c.session != nil && (len(names) != 1 || names[""]) {
				t.Errorf("got the names %v of the conversation, want one", names)
			}
		})
	}
}

// judge says why the provider refuses a request, "" if it does not.
func (c *hostedProvider) judge(r *http.Request, body []byte) string {
	if r.URL.Path != c.path {
		return "no such path, want " + c.path
	}
	root := gjson.ParseBytes(body)
	for _, name := range c.refused {
		if root.Get(name).Exists() {
			return name + ": Extra inputs are not permitted"
		}
	}
	var faults []string
	if c.wants != nil {
		root.Get("messages").ForEach(func(_, m gjson.Result) bool {
			if fault := c.wants(m); fault != "" {
				faults = append(faults, fault)
			}
			return true
		})
	}
	return strings.Join(faults, " ")
}
