// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger_test

import (
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func init() {
	caddy.RegisterModule(app.App{})
	caddy.RegisterModule(app.MemoryStore{})
	caddy.RegisterModule(handler.Handler{})
}

// advance lets the clock of all keepers jump ahead, as if so much time had
// passed, and has them look at it.
func advance(d time.Duration) {
	pinger.Advance(d)
	for _, s := range app.Open() {
		s.Keeper.Awake()
	}
}

// settled waits until nothing is due and nothing in flight, and returns what the
// keepers have come to.
func settled() (sum pinger.Report) {
	for {
		busy := false
		for _, s := range app.Open() {
			k := s.Keeper
			// Asked for both before and after what flies: what is due takes off in
			// between, or waits for another to land.
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

// sessions are the ids of all sessions.
func sessions() (ids []string) {
	for _, s := range app.Open() {
		for _, session := range s.Page(sessioncache.Newest, 1000) {
			ids = append(ids, session.ID())
		}
	}
	return ids
}
