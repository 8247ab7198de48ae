// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func servers(n int) reverseproxy.UpstreamPool {
	pool := make(reverseproxy.UpstreamPool, n)
	for i := range pool {
		pool[i] = &reverseproxy.Upstream{Host: new(reverseproxy.Host), Dial: fmt.Sprintf("10.0.0.%d:8080", i)}
	}
	return pool
}

// of returns a request of a conversation; agent distinguishes conversations of one session.
func of(session string, agent byte) *http.Request {
	vars := map[string]any{}
	if session != "" {
		vars["llm_session"], vars["llm_conversation"] = session, wire.Hash{agent}
	}
	r, err := http.NewRequestWithContext(context.WithValue(context.Background(), caddyhttp.VarsCtxKey, vars),
		http.MethodPost, "http://box/v1/messages", nil)
	if err != nil {
		panic(err)
	}
	return r
}

func chosen(t *testing.T, pool reverseproxy.UpstreamPool, n int) []string {
	t.Helper()
	a := &Affinity{Load: 100}
	out := make([]string, n)
	for i := range out {
		r := of(strconv.Itoa(i), 0)
		out[i] = a.Select(pool, r, nil).Dial
		if again := a.Select(pool, r, nil).Dial; again != out[i] { // a retry
			t.Fatalf("session %d went to %s, then to %s", i, out[i], again)
		}
	}
	return out
}

func TestAffinityMovesOnlyTheConversationsOfADeadBox(t *testing.T) {
	const sessions = 300
	pool := servers(4)
	before := chosen(t, pool, sessions)
	dead := pool[1]
	during := chosen(t, append(servers(1), pool[2:]...), sessions) // the other servers, by their addresses
	after := chosen(t, pool, sessions)
	count := map[string]int{}
	for i := range before {
		count[before[i]]++
		if before[i] != dead.Dial && during[i] != before[i] {
			t.Errorf("session %d moved from %s, which is alive, to %s", i, before[i], during[i])
		}
		if after[i] != before[i] {
			t.Errorf("session %d did not move back from %s to %s", i, after[i], before[i])
		}
	}
	for _, u := range pool {
		if n := count[u.Dial]; n < sessions/8 || n > sessions/2 {
			t.Errorf("%s has %d of %d conversations", u.Dial, n, sessions)
		}
	}
}

func TestAffinitySpreadsSubAgents(t *testing.T) {
	pool, a := servers(4), &Affinity{Load: 100}
	seen := map[string]bool{}
	for agent := range byte(32) {
		seen[a.Select(pool, of("one", agent), nil).Dial] = true
	}
	if len(seen) < 3 {
		t.Errorf("32 agents of a session are on %d of 4 boxes", len(seen))
	}
}

func TestAffinityOfOtherRequests(t *testing.T) {
	pool, a := servers(3), &Affinity{Load: 2}
	seen := map[string]bool{}
	for range 200 {
		seen[a.Select(pool, of("", 0), nil).Dial] = true
	}
	if len(seen) != 3 {
		t.Errorf("requests without a conversation went to %d of 3 boxes", len(seen))
	}
	if u := a.Select(nil, of("", 0), nil); u != nil {
		t.Errorf("an empty pool gave %v", u)
	}
	if u := a.Select(nil, of("one", 0), nil); u != nil {
		t.Errorf("an empty pool gave %v", u)
	}
	replica := of("", 0)
	caddyhttp.SetVar(replica.Context(), ReplicaVar, new(Replica))
	if u := a.Select(nil, replica, nil); u != nil {
		t.Errorf("an empty pool gave %v", u)
	}
}

// No load, however large, makes a server skipped.
func TestAffinityOfAnyLoad(t *testing.T) {
	for _, load := range []float64{1e9, 1e300, math.Inf(1)} {
		if got := (&Affinity{Load: load}).bound(servers(2)); got < 1e8 {
			t.Errorf("load %v: a box is passed over from %v requests on", load, got)
		}
	}
}

// A dynamic list of upstreams may be empty.
func TestAffinityWithoutBoxes(t *testing.T) {
	for _, turn := range []*Replica{nil, {Index: 1}} {
		r := of("a", 0)
		caddyhttp.SetVar(r.Context(), ReplicaVar, turn)
		if u := new(Affinity).Select(nil, r, nil); u != nil {
			t.Errorf("chosen: %v", u)
		}
	}
}
