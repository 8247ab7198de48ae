// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

func init() {
	caddy.RegisterModule(new(app.App))
	caddy.RegisterModule(pinger.Limits{})
	caddy.RegisterModule(app.MemoryStore{})
	caddy.RegisterModule(Handler{})
}

// TestValidateLeavesNothing: `caddy validate` provisions a configuration and
// must give back all that it took, also where it finds a mistake.
func TestValidateLeavesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		handler string
		ok      bool
	}{
		"defaults":       {`{"handler":"llm_cache"}`, true},
		"off":            {`{"handler":"llm_cache","policy":"off"}`, true},
		"bad policy":     {`{"handler":"llm_cache","policy":"greedy"}`, false},
		"bad zone":       {`{"handler":"llm_cache","zones":{"hot":0}}`, false},
		"bad preset":     {`{"handler":"llm_cache","upstream":{"preset":"x"}}`, false},
		"bad format":     {`{"handler":"llm_cache","upstream":{"format":"morse"}}`, false},
		"bad ttl":        {`{"handler":"llm_cache","upstream":{"cache_ttl":"1ms"}}`, false},
		"bad write":      {`{"handler":"llm_cache","upstream":{"cache_write":-1}}`, false},
		"bad window":     {`{"handler":"llm_cache","upstream":{"context_window":0}}`, false},
		"bad body":       {`{"handler":"llm_cache","max_body":2147483648}`, false},
		"negative body":  {`{"handler":"llm_cache","max_body":-1}`, false},
		"bad header":     {`{"handler":"llm_cache","session_header":"a b"}`, false},
		"bad health":     {`{"handler":"llm_cache","health":"x"}`, false},
		"unknown member": {`{"handler":"llm_cache","strip_thoughts":{}}`, false},
	} {
		cfg := new(caddy.Config)
		raw := `{"admin":{"disabled":true},"apps":{"http":{"servers":{"s":{"listen":["127.0.0.1:0"],"routes":[{"handle":[` +
			test.handler + `]}]}}}}}`
		if err := caddy.StrictUnmarshalJSON([]byte(raw), cfg); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Validate(cfg); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(state.Open(shared.Process)); n > 0 {
			t.Errorf("%s: %d states are still open", name, n)
		}
	}
}
