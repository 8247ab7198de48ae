// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua/cl100k"
)

// None leaves every text as it is.
type None struct{}

// CaddyModule returns the Caddy module information.
func (None) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.compressors.none", New: func() caddy.Module { return new(None) }}
}

// Compress implements Compressor.
func (None) Compress(_ context.Context, text string, _ float64) (lingua.Result, error) {
	n := cl100k.Count(text)
	return lingua.Result{Text: text, Before: n, After: n}, nil
}

// Health implements Compressor.
func (None) Health(context.Context) Health { return Health{} }

// UnmarshalCaddyfile sets the compressor up from Caddyfile tokens: none.
func (None) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}
