// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package extensions implements each extension point of llm_cache outside of its module.
package extensions

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// Sessions keeps snapshots of sessions in a map.
type Sessions struct{}

// CaddyModule returns the Caddy module information.
func (Sessions) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.external", New: func() caddy.Module { return new(Sessions) }}
}

// Identity implements extend.Store.
func (*Sessions) Identity() string { return "external" }

// Open implements extend.Store.
func (*Sessions) Open() (*sessioncache.Store, error) {
	return sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
		Open: func() (sessioncache.Backend, error) { return &snapshots{}, nil },
	}})
}

// Adjust implements extend.Store.
func (*Sessions) Adjust(*sessioncache.Store) error { return nil }

// Secret implements extend.KeyProvider.
func (*Sessions) Secret() extend.Key { return extend.Key{1} }

// snapshots is a sessioncache.Backend.
type snapshots struct {
	mu      sync.Mutex
	records map[sessioncache.Digest]sessioncache.Record
}

var _ sessioncache.Backend = (*snapshots)(nil)

// find returns the record used last of those that match.
func (s *snapshots) find(is func(sessioncache.Record) bool) (found sessioncache.Record, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if is(r) && (!ok || r.Used.After(found.Used)) {
			found, ok = r, true
		}
	}
	return found, ok
}

func (s *snapshots) Load(_ context.Context, d sessioncache.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[d].Snapshot, nil
}

func (s *snapshots) Answered(_ context.Context, answer sessioncache.Digest) (sessioncache.Digest, bool, error) {
	r, ok := s.find(func(r sessioncache.Record) bool { return slices.Contains(r.Answers, answer) })
	return r.Digest, ok, nil
}

func (s *snapshots) Named(_ context.Context, begins [8]byte) (sessioncache.Digest, bool, error) {
	r, ok := s.find(func(r sessioncache.Record) bool { return [8]byte(r.Digest[:8]) == begins })
	return r.Digest, ok, nil
}

func (s *snapshots) Save(_ context.Context, records []sessioncache.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		s.records = map[sessioncache.Digest]sessioncache.Record{}
	}
	for _, r := range records {
		r.Snapshot = bytes.Clone(r.Snapshot)
		s.records[r.Digest] = r
	}
	return nil
}

func (s *snapshots) Delete(_ context.Context, d sessioncache.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, d)
	return nil
}

func (s *snapshots) Usage() (sessions int, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		size += int64(len(r.Snapshot))
	}
	return len(s.records), size
}

func (*snapshots) Close() error { return nil }

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
