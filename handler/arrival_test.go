// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unsafe"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// TestRefusedBodies: a body that is not taken is refused in the words of the client's API.
func TestRefusedBodies(t *testing.T) {
	for name, test := range map[string]struct {
		fail   func(w http.ResponseWriter, r *http.Request, f wire.Format) error
		status int
	}{
		"too large": {func(w http.ResponseWriter, r *http.Request, f wire.Format) error {
			_, err := httpx.Read(w, r, 10, nil)
			return failBody(w, r, f, err)
		}, http.StatusRequestEntityTooLarge},
		"cut": {func(w http.ResponseWriter, r *http.Request, f wire.Format) error {
			return failBody(w, r, f, caddyhttp.Error(http.StatusBadRequest, errors.New("unexpected EOF")))
		}, http.StatusBadRequest},
		"no room": {
			func(w http.ResponseWriter, _ *http.Request, f wire.Format) error { return budget.Fail(w, f) },
			http.StatusServiceUnavailable,
		},
		"stalled": {
			func(w http.ResponseWriter, _ *http.Request, f wire.Format) error { return budget.FailStalled(w, f) },
			http.StatusServiceUnavailable,
		},
	} {
		for format, kind := range map[wire.Format]string{
			wire.Anthropic: "error.type", wire.OpenAIChat: "error.message", wire.OpenAIResponses: "error.message",
			wire.Gemini: "error.status",
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.ContentLength = 1 << 20
			if err := test.fail(w, r, format); err != nil {
				t.Errorf("%s, %s: %v", name, format, err)
			}
			if w.Code != test.status || gjson.Get(w.Body.String(), kind).Str == "" ||
				gjson.Get(w.Body.String(), "error.message").Str == "" {
				t.Errorf("%s, %s: %d %s, want %d and words", name, format, w.Code, w.Body, test.status)
			}
		}
	}
}

// TestAddress: a client is known by the address that Caddy trusts, be it one of many of
// its network.
func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"fe80::1%eth0": "fe80::", "": "invalid IP", "a pipe": "invalid IP",
	} {
		ctx := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: text})
		if got := address(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)).String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestWarnings: one line for each kind of client and reason, none with content, and
// never more than the bound.
func TestWarnings(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	h := attached(t, pipeline.Options{})
	h.site.notes.log = zap.New(core)
	send := func(agent, reason string) http.Header {
		r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
		r.Header.Set("User-Agent", agent)
		w := httptest.NewRecorder()
		h.site.notes.pass(w, r, wire.Anthropic, bypass{reason: reason, err: wire.ErrSyntax})
		return w.Header()
	}
	for range 3 {
		if got := send("Agent/1.0 (linux; secret)", reasonParse).Get(headerBypass); got != reasonParse {
			t.Errorf("the header says %q", got)
		}
	}
	send("Agent/1.0 (linux)", reasonDecode)
	send("Agent/1.1", reasonParse)
	if n := logs.Len(); n != 3 {
		t.Errorf("%d warnings, want 3", n)
	}
	for _, e := range logs.All() {
		if c := e.ContextMap()["client"].(string); !strings.HasPrefix(c, "Agent/1.") || strings.Contains(c, "secret") {
			t.Errorf("the client is called %q", c)
		}
	}
	for i := range 10 * MostStrangers {
		send(fmt.Sprint("Agent/", i, strings.Repeat("x", 1000)), reasonParse)
	}
	if n := logs.Len(); n > MostStrangers {
		t.Errorf("%d warnings, want %d at most", n, MostStrangers)
	}
}

func TestUnreadable(t *testing.T) {
	for contentType, want := range map[string]string{
		"": "", "application/json": "", "application/json; charset=utf-8": "", "APPLICATION/JSON": "",
		"application/vnd.api+json": "",
		"text/plain":               reasonContentType, "application/x-www-form-urlencoded": reasonContentType,
		";":                 reasonContentType,
		"application/jsonl": reasonContentType,
	} {
		h := http.Header{}
		if contentType != "" {
			h.Set("Content-Type", contentType)
		}
		if got := unreadable(h); got != want {
			t.Errorf("%q: got %q, want %q", contentType, got, want)
		}
	}
}

// Clients choose their names, so the remembered names are bounded.
func TestStrangersAreBounded(t *testing.T) {
	var s Strangers
	if !s.Meet("a", "parse") || s.Meet("a", "parse") || !s.Meet("a", "decode") {
		t.Error("a client is not met once for each reason")
	}
	long := strings.Repeat("x", 1<<20)
	s.Meet(long[:64], "parse")
	for k := range s.met {
		if unsafe.StringData(k[0]) == unsafe.StringData(long) {
			t.Error("all of a header stays in memory")
		}
	}
	for i := range 10 * MostStrangers {
		s.Meet(fmt.Sprint(i), "parse")
	}
	if n := len(s.met); n != MostStrangers {
		t.Errorf("%d clients are remembered", n)
	}
}
