// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Headers that distinguish tenants are secret, whichever name they have.
func TestIsSecret(t *testing.T) {
	for by, want := range map[string]bool{
		"{http.request.header.X-Team-Key}": true, "{header.x-team-key}": true, "team {http.request.header.X-Team-Key}": true,
		"{http.request.header.X-Team}": false, "{http.request.host}": false,
	} {
		repl := caddy.NewReplacer()
		for _, p := range []string{"http.request.header.X-Team-Key", "header.x-team-key", "http.request.header.X-Team", "http.request.host"} {
			repl.Set(p, "secret")
		}
		ctx := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{})
		r := httptest.NewRequestWithContext(context.WithValue(ctx, caddy.ReplacerCtxKey, repl), http.MethodPost, "/", nil)
		Name(r, []string{by}, false)
		if got := IsSecret(r, "X-Team-Key"); got != want {
			t.Errorf("tenant %s: X-Team-Key is a secret: %t, want %t", by, got, want)
		}
		for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization"} {
			if !IsSecret(r, name) {
				t.Errorf("%s is no secret", name)
			}
		}
	}
}
