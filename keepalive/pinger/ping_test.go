// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// await waits for an event that is certain to happen.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 10000 {
		if f() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

// TestPingPanics: a ping that panics ends, and the next one takes its place in flight.
func TestPingPanics(t *testing.T) {
	carrier := new(selfrequest.Carrier)
	carrier.Use(nil)
	k := New(carrier, clock.Machine)
	k.Schedule.Configure(keepalive.Options{Flying: 1})
	every := 285 * time.Second
	target := selfrequest.Reopen(selfrequest.Open{URI: "/"})
	begun := k.now().Add(-every)
	for i := range 3 {
		k.Schedule.Leave(keepalive.ID{Conversation: i}, false, &keepalive.Target{
			Begun: begun, Lifetime: 5 * time.Minute, Every: every, MaxPings: 5, Prompt: 1e6, Write: 1.25, Read: 0.1,
			MaxLoss: 1e9,
			Payload: &conversation{
				Target: target, session: new(sessioncache.Session),
				price: func(wire.Usage) (wire.Usage, float64, float64) { panic("of a test") },
			},
		})
	}
	count := httpx.BackgroundPanics
	before := testkit.MetricValue(t, count)
	k.awake()
	defer k.Stop()
	await(t, "three pings", func() bool {
		return testkit.MetricValue(t, count) == before+3 &&
			k.Schedule.Stats(k.now()).Flying == 0
	})
	if s := k.Schedule.Stats(k.now()); s.Stopped[keepalive.Failed] != 3 || s.Bytes != 0 {
		t.Errorf("the schedule holds %+v", s)
	}
}
