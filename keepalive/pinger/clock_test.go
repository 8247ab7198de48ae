// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func init() {
	caddy.RegisterModule(new(app.App))
	caddy.RegisterModule(pinger.Limits{})
	caddy.RegisterModule(app.MemoryStore{})
	caddy.RegisterModule(handler.Handler{})
}

// advance moves the clock of all keepers ahead and makes them check it.
func advance(d time.Duration) {
	pinger.Advance(d)
	for _, s := range state.Open(shared.Process) {
		pinger.Of(s).Awake()
	}
}

// settled waits until no ping is due or in flight, and returns the total of all keepers.
func settled() (sum pinger.Report) {
	for {
		busy := false
		for _, s := range state.Open(shared.Process) {
			k := pinger.Of(s)
			// Both before and after the pings in flight: a due ping may start in between, or wait
			// for another to end.
			before, was := k.Schedule.Next()
			sum = k.Report()
			after, is := k.Schedule.Next()
			now := k.Now()
			busy = busy || sum.Schedule.Flying > 0 || was && before <= now || is && after <= now
		}
		if !busy {
			return sum
		}
		time.Sleep(time.Millisecond)
	}
}

// sessions returns the ids of all sessions.
func sessions() (ids []string) {
	for _, s := range state.Open(shared.Process) {
		for _, session := range s.Page(sessioncache.Newest, 1000) {
			ids = append(ids, session.ID())
		}
	}
	return ids
}
