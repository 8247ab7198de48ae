// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package extend_test

import (
	"context"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/extend"
)

func init() { caddy.RegisterModule(Console{}) }

var _ extend.AuditStore = (*Console)(nil)

// Console prints a line for each turn.
type Console struct {
	extend.AuditOptions
}

// CaddyModule returns the Caddy module information.
func (Console) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.audit.console", New: func() caddy.Module { return new(Console) }}
}

// Identity implements extend.AuditStore. All consoles are the same one.
func (*Console) Identity() string { return "console" }

// Open implements extend.AuditStore.
func (*Console) Open() (extend.Records, error) { return lines{}, nil }

// lines implements extend.Records.
type lines struct{}

func (lines) Write(_ context.Context, batch []*extend.Record) error {
	for _, r := range batch {
		fmt.Println(r.At.Format(time.TimeOnly), r.User, r.Model)
	}
	return nil
}

// Prune deletes nothing: printed lines stay.
func (lines) Prune(context.Context, time.Time) (int64, error) { return 0, nil }

func (lines) Close() error { return nil }

// A Caddyfile names an audit store in the global options: llm_cache { audit console }.
func ExampleAuditStore() {
	records, err := new(Console).Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)
	err = records.Write(context.Background(), []*extend.Record{{At: at, User: "ann", Model: "claude-opus-5-5"}})
	fmt.Println(err)
	// Output:
	// 09:30:00 ann claude-opus-5-5
	// <nil>
}
