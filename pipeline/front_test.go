// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Reading a long prefix does not refresh a shorter one: the expired entry before the messages is
// written again.
func TestFrontLapses(t *testing.T) {
	m, err := sessioncache.New(sessioncache.Options{MaxBytes: 1 << 24})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	session := m.Acquire(t.Context(), sessioncache.Key{ID: "a"})
	p := New(Options{Policy: CostAware}, func(string, time.Time) pricing.Rules {
		return pricing.Rules{Regime: pricing.Markers, Markers: 4, LookBack: 20, Write: 1.25, Read: 0.1, TTL: 5 * time.Minute, MinTokens: 1024}
	})
	messages := []string{`{"role":"user","content":"go on"}`}
	for i, c := range []struct{ at, marked int }{{0, 0}, {3, 0}, {4, 0}, {7, 7}, {9, 7}} {
		messages = append(messages, fmt.Sprintf(`{"role":"assistant","content":"done with %d"},{"role":"user","content":"go on with %d"}`, i, i))
		v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","tools":[{"name":"bash"}],"messages":[`+strings.Join(messages, ",")+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(0, 0).Add(time.Duration(c.at) * time.Minute)
		x := p.Begin(v, session, at)
		before := hasLapsed(x.req.match.Lineage, 5*time.Minute, at)
		x.Commit(&wire.Turn{Done: true, Usage: wire.Usage{Read: 4000, Write5m: 100, Reported: true}}, at)
		if got, known := x.lineage.Ends.Marked(0); !known || got.Sub(time.Unix(0, 0)) != time.Duration(c.marked)*time.Minute || before != (c.at == 7) {
			t.Errorf("at %d min: marked at %v, lapsed %t", c.at, got.Sub(time.Unix(0, 0)), before)
		}
		x.Close()
	}
}
