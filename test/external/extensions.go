// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package extensions implements each extension point of llm_cache outside of its module.
package extensions

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/extend"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(Sessions{})
	caddy.RegisterModule(Audit{})
	caddy.RegisterModule(Stamp{})
	caddy.RegisterModule(Shout{})
}

// Interface guards
var (
	_ extend.Store       = (*Sessions)(nil)
	_ extend.KeyProvider = (*Sessions)(nil)
	_ extend.AuditStore  = (*Audit)(nil)
	_ extend.Signer      = (*Stamp)(nil)
	_ extend.Compressor  = (*Shout)(nil)
)

// Sessions keeps sessions in memory.
type Sessions struct{}

// CaddyModule returns the Caddy module information.
func (Sessions) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.external", New: func() caddy.Module { return new(Sessions) }}
}

// Identity implements extend.Store.
func (*Sessions) Identity() string { return "external" }

// Open implements extend.Store.
func (*Sessions) Open() (*sessioncache.Store, error) {
	m, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Adjust implements extend.Store.
func (*Sessions) Adjust(*sessioncache.Store) error { return nil }

// Secret implements extend.KeyProvider.
func (*Sessions) Secret() extend.Key { return extend.Key{1} }

// Audit counts records.
type Audit struct {
	extend.AuditOptions
}

// written counts the records of all stores of this package.
var written atomic.Int64

// CaddyModule returns the Caddy module information.
func (Audit) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.external", New: func() caddy.Module { return new(Audit) }}
}

// Identity implements extend.AuditStore.
func (*Audit) Identity() string { return "external" }

// Open implements extend.AuditStore.
func (*Audit) Open() (extend.Records, error) { return records{}, nil }

// Settings implements extend.AuditStore.
func (a *Audit) Settings() *extend.AuditOptions { return &a.AuditOptions }

type records struct{}

func (records) Write(_ context.Context, batch []*extend.Record) error {
	written.Add(int64(len(batch)))
	return nil
}
func (records) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (records) Close() error                                    { return nil }

// Stamp signs with a header.
type Stamp struct{}

// CaddyModule returns the Caddy module information.
func (Stamp) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.signers.external", New: func() caddy.Module { return new(Stamp) }}
}

// Ready implements extend.Signer.
func (*Stamp) Ready(context.Context) error { return nil }

// Sign implements extend.Signer.
func (*Stamp) Sign(r *http.Request, _ []byte) error {
	r.Header.Set("X-Stamp", "stamped")
	return nil
}

// Shout returns texts in capitals, at full length.
type Shout struct{}

// CaddyModule returns the Caddy module information.
func (Shout) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.compressors.external", New: func() caddy.Module { return new(Shout) }}
}

// Compress implements extend.Compressor.
func (*Shout) Compress(_ context.Context, text string, _ float64) (extend.Compressed, error) {
	return extend.Compressed{Text: strings.ToUpper(text)}, nil
}

// Health implements extend.Compressor.
func (*Shout) Health(context.Context) extend.CompressorHealth {
	return extend.CompressorHealth{Device: "lungs"}
}
