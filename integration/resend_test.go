// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package integration_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestResend sends the original once when an edit of ours met a 400, through
// route groups that let a request pass only once.
func TestResend(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-First", "yes")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.0: tool_use ids were found without tool_result blocks"}}`)
	})
	site := "route {\n" + strings.Replace(eager(u), "reverse_proxy", "handle /v1/* {\n uri strip_prefix /v1\n reverse_proxy", 1) + " {\n header_up X-Var {vars.team}\n }\n }\n handle {\n respond 404\n }\n}"
	p := start(t, "vars team red\n"+site)
	before := p.metric("caddy_llm_cache_resends_total")
	body := conversation(9, false)
	res := p.post("/v1/messages", gzipped(t, body), "Content-Encoding", "gzip")
	if res.StatusCode != http.StatusOK || read(t, res) != message {
		t.Fatalf("status %d", res.StatusCode)
	}
	got := u.requests()
	if len(got) != 2 {
		t.Fatalf("upstream got %d requests, want 2", len(got))
	}
	if len(got[0].body) >= len(body) || got[0].header.Get("Content-Encoding") != "" {
		t.Error("the first request was not edited")
	}
	if got[1].body != gzipped(t, body) || got[1].header.Get("Content-Encoding") != "gzip" {
		t.Error("the second request was not the original")
	}
	for i, r := range got {
		if r.path != "/messages" || r.header.Get("X-Var") != "red" || r.header.Get("Accept-Encoding") != "identity" {
			t.Errorf("request %d: path %s, headers %v", i, r.path, r.header)
		}
	}
	h := res.Header
	if len(h["Via"]) != 1 || len(h["Content-Type"]) != 1 || h.Get("X-First") != "" {
		t.Errorf("headers are %v", h)
	}
	if h.Get("X-Llm-Cache-Transforms") != "none;resent" || h.Get("X-Llm-Cache-Saved-Tokens") != "0" {
		t.Errorf("headers are %v", h)
	}
	if p.metric("caddy_llm_cache_resends_total") != before+1 {
		t.Error("not counted")
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
		t.Errorf("sessions are %v, want one with one request", s)
	}

	// From here on the lineage is left alone.
	longer := conversation(10, false)
	if read(t, p.post("/v1/messages", longer)); u.last().body != longer {
		t.Error("the lineage was edited again")
	}
}

// A marker of ours breaks no thinking and no call: only a 400 that speaks of
// markers is taken for its doing.
func TestResendOfMarkers(t *testing.T) {
	for _, c := range []struct {
		name, message string
		requests      int
	}{
		{"signature", "messages.2.content.0: Invalid `signature` in `thinking` block.", 1},
		{"marker", "A maximum of 4 blocks with cache_control may be provided. Found 5.", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, c.message)
			})
			p := start(t, "llm_cache {\n policy cost_aware\n breakpoints on\n}\nreverse_proxy "+u.Listener.Addr().String())
			res := p.post("/v1/messages", conversation(9, false))
			if got := read(t, res); res.StatusCode != http.StatusBadRequest || got != c.message {
				t.Errorf("%d: %s", res.StatusCode, got)
			}
			got := u.requests()
			if len(got) != c.requests {
				t.Errorf("upstream got %d requests, want %d", len(got), c.requests)
			}
			if !strings.Contains(got[0].body, "cache_control") || strings.Contains(conversation(9, false), "cache_control") {
				t.Error("no marker of ours was sent")
			}
		})
	}
}

// TestAcquitted: where the original is refused as the edited request was, the
// client has its answer, and the conversation goes on being edited.
func TestAcquitted(t *testing.T) {
	const refusal = "messages.2.content.0: Invalid `signature` in `thinking` block."
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 2 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Request-Id", "req_"+strconv.Itoa(n))
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, refusal)
	})
	p := start(t, eager(u))
	res := p.post("/v1/messages", conversation(9, false))
	if got := read(t, res); res.StatusCode != http.StatusBadRequest || got != refusal || res.Header.Get("Request-Id") != "req_2" || len(u.requests()) != 2 {
		t.Errorf("%d, %s, %v after %d requests", res.StatusCode, got, res.Header, len(u.requests()))
	}
	body := conversation(10, false)
	if read(t, p.post("/v1/messages", body)); len(u.last().body) >= len(body) {
		t.Error("the conversation is not edited any more")
	}
}

// TestOtherErrors reach the client as they are, once.
func TestOtherErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
	}{
		{"unrelated 400", 400, `{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`},
		{"large 400", 400, `{"error":{"message":"` + strings.Repeat("tool_use ", 10_000) + `"}}`},
		{"empty 400", 400, ""},
		{"overloaded", 529, `{"error":{"message":"tool_use thinking"}}`},
		{"rate limit", 429, `{"error":{"message":"slow down"}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Request-Id", "req_1")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			p := start(t, eager(u))
			res := p.post("/v1/messages", conversation(9, false))
			if res.StatusCode != test.status || read(t, res) != test.body || res.Header.Get("Request-Id") != "req_1" {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
			if res.Header.Get("X-Llm-Cache-Session") == "" || len(res.Header["Via"]) != 1 {
				t.Errorf("headers are %v", res.Header)
			}
			if n := len(u.requests()); n != 1 {
				t.Errorf("upstream got %d requests", n)
			}
			if s := p.sessions(); len(s) != 0 {
				t.Errorf("sessions are %v, want none", s)
			}
		})
	}
}

// TestSecond400 reaches the client: the original is sent once, not for ever.
func TestSecond400(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "tool_use "+strconv.Itoa(n))
	})
	p := start(t, eager(u))
	res := p.post("/v1/messages", conversation(9, false))
	if got := read(t, res); res.StatusCode != http.StatusBadRequest || got != "tool_use 2" {
		t.Errorf("status %d, body %q", res.StatusCode, got)
	}
	if n := len(u.requests()); n != 2 {
		t.Errorf("upstream got %d requests, want 2", n)
	}
}
