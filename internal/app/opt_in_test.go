// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
)

// A store that is missing in this build of Caddy is refused with the import that adds it, any other
// unknown store without.
func TestStoreOutsideTheBuild(t *testing.T) {
	const add = "--with github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/valkey"
	for name, named := range map[string]bool{"valkey": true, "redis": false} {
		d := caddyfile.NewTestDispenser("llm_cache {\n\tstore " + name + "\n}")
		if err := new(app.App).UnmarshalCaddyfile(d); err == nil || strings.Contains(err.Error(), add) != named {
			t.Errorf("store %s in a Caddyfile: %v, want an error that names the import: %t", name, err, named)
		}
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		a := &app.App{StoreRaw: []byte(`{"module":"` + name + `"}`)}
		if err := a.Provision(ctx); err == nil || strings.Contains(err.Error(), add) != named {
			t.Errorf("store %s in JSON: %v, want an error that names the import: %t", name, err, named)
		}
		cancel()
	}
}
