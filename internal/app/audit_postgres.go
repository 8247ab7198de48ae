// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// AuditPostgres keeps a record of every turn in a PostgreSQL database, in the schema llm_cache,
// which it creates. Several Caddys may share a database. A database that is down delays no request.
type AuditPostgres struct {
	// DSN is the connection string or URL of libpq. Placeholders such as {env.AUDIT_DSN} keep
	// passwords out of the configuration.
	DSN string `json:"dsn,omitempty"`
	Retention
	AuditOptions

	dsn string
}

// CaddyModule returns the Caddy module information.
func (AuditPostgres) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.postgres", New: func() caddy.Module { return new(AuditPostgres) }}
}

// Provision replaces placeholders. It does not connect.
func (p *AuditPostgres) Provision(caddy.Context) error {
	p.dsn = caddy.NewReplacer().ReplaceAll(p.DSN, "")
	if p.dsn == "" {
		return errors.New("dsn: none given")
	}
	if err := audit.CheckDSN(p.dsn); err != nil {
		return fmt.Errorf("dsn: %w", err)
	}
	return p.Validate()
}

// Validate reports the first option out of its range.
func (p *AuditPostgres) Validate() error {
	if err := p.Retention.Validate(); err != nil {
		return err
	}
	return p.AuditOptions.Validate()
}

// Identity implements AuditStore.
func (p *AuditPostgres) Identity() string { return p.dsn }

// Open implements AuditStore.
func (p *AuditPostgres) Open() (audit.Store, error) { return audit.OpenPostgres(p.dsn) }

// KeepsFor is the optional interface of audit stores with a retention.
func (p *AuditPostgres) KeepsFor() time.Duration { return p.keeps() }

// UnmarshalCaddyfile sets the store up from Caddyfile tokens. Syntax:
//
//	postgres [<dsn>] {
//		dsn       <connection string or URL>
//		retention <duration>|forever
//		content   on|off
//		batch     <records>
//		interval  <duration>
//		on_error  memory|refuse
//	}
func (p *AuditPostgres) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	err := p.unmarshalAudit(d, &p.DSN, option.Options{
		"dsn":       once(&p.DSN),
		"retention": p.retention(),
	})
	if err == nil && p.DSN == "" {
		return d.Err("audit postgres: no dsn given")
	}
	return err
}
