// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

func init() { caddy.RegisterModule(app.AuditSQLite{}) }

// Recorded pauses are learned at the start of the process. Here the client always returns after
// five minutes.
func TestLearnsFromTheRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	store, err := audit.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	tenant := [16]byte{1, 2, 3, 4, 5, 6, 7, 8}
	at := time.Now().Add(-7 * 24 * time.Hour)
	batch := make([]*audit.Record, 0, 300)
	for range 300 { // more than a day, so every hour has some
		batch = append(batch, &audit.Record{
			ID: audit.NewID(at), At: at, Turns: 1, Kind: audit.KindTurn, Tenant: hex.EncodeToString(tenant[:8]), User: "u",
			Session: "s",
			Client:  "claude-code", Model: "m", ClientFormat: "anthropic", UpstreamFormat: "anthropic", Outcome: audit.Completed,
			StopReason: "end_turn",
		})
		at = at.Add(5 * time.Minute)
	}
	if err := store.Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	k := newKept(t)
	config := strings.Replace(k.config(keeping, ""), `"apps": {`,
		fmt.Sprintf(`"apps": {"llm_cache": {"audit": {"module": "sqlite", "path": %q}}, `, path), 1)
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
	learned := func() *keepalive.Learned { return &pinger.Of(state.Open(shared.Process)[0]).Schedule.Learned }
	habit := keepalive.Habit{Tenant: tenant, Client: keepalive.Client("claude-code"), Hour: 12}
	moment := keepalive.Moment{Prompts: 3}
	prior := keepalive.Prior(moment)
	away := func(c keepalive.Chance) float64 { return c.Away(4*time.Minute, 8*time.Minute) }
	deadline := time.Now().Add(time.Minute)
	for away(learned().Chance(habit, moment)) > away(prior)/4 {
		if time.Now().After(deadline) {
			t.Fatalf("away by the record: %.3f, by the prior %.3f", away(learned().Chance(habit, moment)), away(prior))
		}
		time.Sleep(10 * time.Millisecond)
	}
	other := keepalive.Habit{Tenant: [16]byte{9}}
	if learned().Chance(other, moment) != prior {
		t.Error("another tenant's chance has changed")
	}
}
