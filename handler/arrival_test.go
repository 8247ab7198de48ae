// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
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
		"no room": {func(w http.ResponseWriter, _ *http.Request, f wire.Format) error { return budget.Fail(w, f) }, http.StatusServiceUnavailable},
		"stalled": {func(w http.ResponseWriter, _ *http.Request, f wire.Format) error { return budget.FailStalled(w, f) }, http.StatusServiceUnavailable},
	} {
		for format, kind := range map[wire.Format]string{
			wire.Anthropic: "error.type", wire.OpenAIChat: "error.message", wire.OpenAIResponses: "error.message", wire.Gemini: "error.status",
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
			r.ContentLength = 1 << 20
			if err := test.fail(w, r, format); err != nil {
				t.Errorf("%s, %s: %v", name, format, err)
			}
			if w.Code != test.status || gjson.Get(w.Body.String(), kind).Str == "" || gjson.Get(w.Body.String(), "error.message").Str == "" {
				t.Errorf("%s, %s: %d %s, want %d and words", name, format, w.Code, w.Body, test.status)
			}
		}
	}
}

// TestAddress: a client is known by the address that Caddy trusts, be it one of many of
// its network.
func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%eth0": "fe80::", "": "invalid IP", "a pipe": "invalid IP",
	} {
		ctx := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.ClientIPVarKey: text})
		if got := address(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)).String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
