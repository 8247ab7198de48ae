// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

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
