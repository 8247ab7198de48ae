// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// AuditSQLite keeps a record of every turn in a SQLite file, for `caddy llm-cache report`.
type AuditSQLite struct {
	// Path is the file. Default: llm_cache/audit.db in Caddy's data directory.
	Path string `json:"path,omitempty"`
	Retention
	AuditOptions
}

// CaddyModule returns the Caddy module information.
func (AuditSQLite) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.sqlite", New: func() caddy.Module { return new(AuditSQLite) }}
}

// DefaultAuditPath returns the file of the audit store if none is configured.
func DefaultAuditPath() string { return filepath.Join(option.DataDir(), "audit.db") }

// Provision fills in the default. It changes no files.
func (s *AuditSQLite) Provision(caddy.Context) error {
	if s.Path == "" {
		s.Path = DefaultAuditPath()
	}
	path, err := filepath.Abs(option.Expand(s.Path))
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	s.Path = path
	if err := s.Validate(); err != nil || s.OnError != refuseOnError {
		return err
	}
	// Caddy would not start, so that `caddy validate` must fail, too.
	return audit.CheckSQLitePath(s.Path)
}

// Validate reports the first option out of its range.
func (s *AuditSQLite) Validate() error {
	if err := s.Retention.Validate(); err != nil {
		return err
	}
	return s.AuditOptions.Validate()
}

// Identity implements AuditStore.
func (s *AuditSQLite) Identity() string { return s.Path }

// Open implements AuditStore.
func (s *AuditSQLite) Open() (audit.Store, error) { return audit.OpenSQLite(s.Path) }

// KeepsFor is the optional interface of audit stores with a retention.
func (s *AuditSQLite) KeepsFor() time.Duration { return s.keeps() }

// UnmarshalCaddyfile sets the store up from Caddyfile tokens. Syntax:
//
//	sqlite [<path>] {
//		path      <path>
//		retention <duration>|forever
//		content   on|off
//		batch     <records>
//		interval  <duration>
//		on_error  memory|refuse
//	}
func (s *AuditSQLite) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return s.unmarshalAudit(d, &s.Path, option.Options{
		"path":      once(&s.Path),
		"retention": s.retention(),
	})
}
