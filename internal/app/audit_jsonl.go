// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
)

// AuditJSONL writes a record of every turn as a line of JSON to any of Caddy's log writers. The
// writer also rotates and deletes.
type AuditJSONL struct {
	// WriterRaw is the log writer. Default: the file llm_cache/audit.jsonl in Caddy's data
	// directory, rolled like log files.
	WriterRaw json.RawMessage `json:"writer,omitempty" caddy:"namespace=caddy.logging.writers inline_key=output"`
	AuditOptions

	writer caddy.WriterOpener
}

// CaddyModule returns the Caddy module information.
func (AuditJSONL) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.jsonl", New: func() caddy.Module { return new(AuditJSONL) }}
}

// Provision loads the writer. It does not open a file.
func (j *AuditJSONL) Provision(ctx caddy.Context) error {
	if j.WriterRaw == nil {
		j.WriterRaw = caddyconfig.JSON(map[string]string{
			"output":   "file",
			"filename": filepath.Join(option.DataDir(), "audit.jsonl"),
		}, nil)
	}
	v, err := ctx.LoadModule(j, "WriterRaw")
	if err != nil {
		return fmt.Errorf("loading the writer: %w", err)
	}
	w, ok := v.(caddy.WriterOpener)
	if !ok {
		return fmt.Errorf("loading the writer: %T writes nothing", v)
	}
	j.writer = w
	return j.Validate()
}

// Identity implements AuditStore.
func (j *AuditJSONL) Identity() string { return j.writer.WriterKey() }

// Open implements AuditStore.
func (j *AuditJSONL) Open() (audit.Store, error) {
	w, err := j.writer.OpenWriter()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", j.writer, err)
	}
	return audit.NewJSONL(w), nil
}

// UnmarshalCaddyfile sets the store up from Caddyfile tokens. Syntax:
//
//	jsonl {
//		output   <writer> ...
//		content  on|off
//		batch    <records>
//		interval <duration>
//		on_error memory|refuse
//	}
//
// Writers are those of Caddy's `log`, with their options.
func (j *AuditJSONL) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return j.unmarshalAudit(d, nil, option.Options{"output": j.output})
}

func (j *AuditJSONL) output(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	name := d.Val()
	var w any
	switch name {
	case "stdout":
		w = caddy.StdoutWriter{}
	case "stderr":
		w = caddy.StderrWriter{}
	case "discard":
		w = caddy.DiscardWriter{}
	default:
		u, err := caddyfile.UnmarshalModule(d, "caddy.logging.writers."+name)
		if err != nil {
			return err
		}
		w = u
	}
	j.WriterRaw = caddyconfig.JSONModuleObject(w, "output", name, nil)
	return nil
}
