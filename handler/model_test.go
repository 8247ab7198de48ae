// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// withVars is a context with Caddy's table of variables.
func withVars(ctx context.Context) context.Context {
	return context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{})
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// matching returns a matcher as Provision leaves it.
func matching(bodies *budget.Budget, models ...string) *MatchModel {
	m := &MatchModel{Models: models}
	m.begin(bodies, zap.NewNop())
	return m
}

// The table has requests, the model that each asks for ("" for none), and whether the body is read for it.
// Whatever the outcome, the next handler gets the whole body.
func TestMatchModel(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":"model"}],"model":"local/qwen3:8b"}`
	large := `{"messages":"` + strings.Repeat("x", defaultMaxBody) + `","model":"local/qwen3:8b"}`
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		chunked            bool
		want               string
	}{
		"Messages":          {path: "/v1/messages", body: body, want: "local/qwen3:8b"},
		"chat":              {path: "/v1/chat/completions", body: body, want: "local/qwen3:8b"},
		"Responses":         {path: "/backend-api/codex/responses", body: body, want: "local/qwen3:8b"},
		"chunks":            {path: "/v1/messages", body: body, chunked: true, want: "local/qwen3:8b"},
		"counts":            {path: "/v1/messages/count_tokens", body: body, want: "local/qwen3:8b"},
		"embeddings":        {path: "/v1/embeddings", body: body, want: "local/qwen3:8b"},
		"Gemini":            {path: "/v1beta/models/gemini-3:streamGenerateContent", body: body, want: "gemini-3"},
		"counts for Gemini": {path: "/v1beta/models/gemini-3:countTokens", body: body, want: "gemini-3"},
		"Bedrock": {
			path: "/model/eu.anthropic.claude-opus-5-5/invoke", body: body, want: "eu.anthropic.claude-opus-5-5",
		},
		"gzip": {
			path: "/v1/messages", body: gzipped(t, body), header: http.Header{"Content-Encoding": {"gzip"}},
			want: "local/qwen3:8b",
		},
		"list of models": {method: http.MethodGet, path: "/v1/models"},
		"WebSocket": {
			method: http.MethodGet, path: "/v1/responses", header: http.Header{"Upgrade": {"websocket"}},
		},
		"no body":             {path: "/v1/messages"},
		"no model":            {path: "/v1/messages", body: `{"messages":[{"model":"x"}]}`},
		"no string":           {path: "/v1/messages", body: `{"model":7}`},
		"no JSON":             {path: "/v1/messages", body: "model=x"},
		"bad gzip":            {path: "/v1/messages", body: body, header: http.Header{"Content-Encoding": {"gzip"}}},
		"another coding":      {path: "/v1/messages", body: body, header: http.Header{"Content-Encoding": {"br"}}},
		"a form":              {path: "/v1/audio/speech", body: body, header: http.Header{"Content-Type": {"multipart/form-data"}}},
		"incremental":         {path: "/v1/messages", body: body, header: http.Header{"Incremental": {"?1"}}},
		"too large":           {path: "/v1/messages", body: large},
		"too large in chunks": {path: "/v1/messages", body: large, chunked: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			var from io.Reader = strings.NewReader(c.body)
			if c.chunked {
				from = struct{ io.Reader }{from}
			}
			r := httptest.NewRequestWithContext(withVars(t.Context()), c.method, c.path, from)
			maps.Copy(r.Header, c.header)
			m := matching(budget.New(256<<20), "*")
			for range 2 {
				if got := m.model(r); got != c.want {
					t.Errorf("got the model %q, want %q", got, c.want)
				}
			}
			got, err := m.MatchWithError(r)
			if err != nil || got != (c.want != "") {
				t.Errorf("got %t, %v for *, want %t", got, err, c.want != "")
			}
			b, err := io.ReadAll(r.Body)
			if err != nil || string(b) != c.body {
				t.Errorf("got %d bytes behind the matcher, %v; want all %d", len(b), err, len(c.body))
			}
		})
	}
}

func TestMatchModelPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns string
		want     bool
	}{
		{"local/*", true},
		{"claude-* local/*", true},
		{"local/qwen", true},
		{"qwen", false},
		{"*", true},
		{"claude-* gpt-*", false},
		{"Local/*", false},
	} {
		r := httptest.NewRequestWithContext(withVars(t.Context()), http.MethodPost, "/v1/messages",
			strings.NewReader(`{"model":"local/qwen"}`))
		m := matching(budget.New(1<<20), strings.Fields(c.patterns)...)
		if got, err := m.MatchWithError(r); got != c.want || err != nil {
			t.Errorf("%s: got %t, %v; want %t", c.patterns, got, err, c.want)
		}
	}
}

// The handler takes over the very bytes that a matcher has read, and their memory. A body that no handler
// takes over releases its memory when the request ends.
func TestMatchedBodyIsTakenOver(t *testing.T) {
	const body = `{"model":"local/qwen","messages":[]}`
	for name, coded := range map[string]bool{"plain": false, "gzip": true} {
		h := attached(t, pipeline.Options{})
		bodies := budget.New(64 << 20)
		ctx, end := context.WithCancel(withVars(t.Context()))
		sent := body
		if coded {
			sent = gzipped(t, body)
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", strings.NewReader(sent))
		if coded {
			r.Header.Set("Content-Encoding", "gzip")
		}
		m := matching(bodies, "local/*")
		if ok, err := m.MatchWithError(r); !ok || err != nil {
			t.Fatalf("%s: got %t, %v, want a match", name, ok, err)
		}
		if bodies.Used() == 0 {
			t.Errorf("%s: the body takes no memory of the budget", name)
		}
		read, _ := httpx.Whole(r)
		raw, plain := read.Data, read.Plain()
		var a arrival
		a.begin(h.site, r, wire.Anthropic)
		if err := a.receive(httptest.NewRecorder(), r); err != nil {
			t.Fatal(err)
		}
		if !httpx.Same(a.Data, raw) || coded && !httpx.Same(a.Plain(), plain) || string(a.body()) != body {
			t.Errorf("%s: got %q, want the bytes that the matcher has read", name, a.body())
		}
		end()
		if bodies.Used() == 0 {
			t.Errorf("%s: the memory was released while the handler has the body", name)
		}
		if a.share.Close(); bodies.Used() != 0 {
			t.Errorf("%s: %d bytes stay in use", name, bodies.Used())
		}
	}

	bodies := budget.New(64 << 20)
	ctx, end := context.WithCancel(withVars(t.Context()))
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", strings.NewReader(body))
	if matching(bodies).read(r); bodies.Used() == 0 {
		t.Error("the body takes no memory of the budget")
	}
	end()
	for range 500 {
		if bodies.Used() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d bytes stay in use", bodies.Used())
}

// A handler with a smaller max_body refuses a body that a matcher has read. A body that breaks off
// fails at the handler.
func TestMatchedBodyIsRefused(t *testing.T) {
	h := attached(t, pipeline.Options{})
	h.site.up.MaxBody = 10
	m := matching(budget.New(64<<20), "*")
	for name, c := range map[string]struct {
		body io.Reader
		want error
	}{
		"too large":  {strings.NewReader(`{"model":"local/qwen"}`), httpx.ErrTooLarge},
		"breaks off": {io.MultiReader(strings.NewReader(`{"model`), iotest.ErrReader(iotest.ErrTimeout)), iotest.ErrTimeout},
	} {
		r := httptest.NewRequestWithContext(withVars(t.Context()), http.MethodPost, "/v1/messages", c.body)
		_, _ = m.MatchWithError(r)
		var a arrival
		a.begin(h.site, r, wire.Anthropic)
		if err := a.receive(httptest.NewRecorder(), r); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		a.share.Close()
	}
}
