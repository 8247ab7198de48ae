// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Agents are known up to a limit and for a time, those at work in any case, and go with their
// session.
func TestAgentsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	var s Agents
	if s.forgetSession(sessioncache.Tenant{1}, "s"); len(s.Report()) != 0 {
		t.Error("there are agents without a site")
	}
	s.limit(3, time.Hour, func() time.Time { return now })
	of := func(session string) conversation {
		return conversation{Side: retain.Side{Tenant: sessioncache.Tenant{1}}, session: session}
	}
	take := func(session string) *agent {
		t.Helper()
		a, err := s.take(t.Context(), of(session))
		if err != nil {
			t.Fatal(err)
		}
		s.name(a, "agent-"+session)
		return a
	}
	wants := func(want string) {
		t.Helper()
		got := ""
		for _, r := range s.Report() {
			got += r.Session
		}
		if got != want {
			t.Errorf("%q are known, want %q", got, want)
		}
	}
	busy := take("a")
	for _, session := range []string{"b", "c", "d"} {
		s.give(of(session), take(session))
	}
	wants("acd")
	now = now.Add(30 * time.Minute)
	s.give(of("d"), take("d"))
	now = now.Add(30 * time.Minute)
	wants("ad")
	s.forgetSession(sessioncache.Tenant{2}, "d")
	wants("ad")
	s.forgetSession(sessioncache.Tenant{1}, "d")
	wants("a")
	s.give(of("a"), busy)
	now = now.Add(time.Hour)
	wants("")
	s.give(of("a"), take("a"))
	s.limit(3, time.Minute, func() time.Time { return now })
	now = now.Add(time.Minute)
	wants("")
}
