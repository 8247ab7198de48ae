// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestRefusals: refusals of two tenants within ten minutes pause the kinds of edits that both show
// for all tenants, for an hour and on that route alone. One tenant changes only its own requests.
func TestRefusals(t *testing.T) {
	route := Route{"api.example", "m", "plan token"}
	other := Route{"api.example", "m", "API key"}
	type refused struct {
		tenant byte
		kinds  wire.EditKinds
		after  time.Duration
	}
	const tools, marks, both = wire.EditTools, wire.EditMarkers, wire.EditTools | wire.EditMarkers
	for _, c := range []struct {
		name          string
		refused       []refused
		at            time.Duration // of the query
		own, stranger wire.EditKinds
	}{
		{"one conversation", []refused{{1, tools, 0}}, time.Minute, 0, 0},
		{"two of one tenant", []refused{{1, tools, 0}, {1, tools, 1}}, time.Minute, 0, 0},
		{"three of one tenant", []refused{{1, tools, 0}, {1, tools, 1}, {1, tools, 2}}, time.Minute, tools, 0},
		{"nine of one tenant", []refused{
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
			{1, both, 0},
		}, time.Minute, both, 0},
		{"two tenants", []refused{{1, tools, 0}, {2, tools, time.Minute}}, 2 * time.Minute, tools, tools},
		{"in common", []refused{{1, both, 0}, {2, tools, time.Minute}}, 2 * time.Minute, tools, tools},
		{"nothing in common", []refused{{1, marks, 0}, {2, tools, time.Minute}}, 2 * time.Minute, 0, 0},
		{"too far apart", []refused{{1, tools, 0}, {2, tools, 11 * time.Minute}}, 12 * time.Minute, 0, 0},
		{"within an hour", []refused{{1, tools, 0}, {2, tools, time.Minute}}, 60 * time.Minute, tools, tools},
		{"after an hour", []refused{{1, tools, 0}, {2, tools, time.Minute}}, 62 * time.Minute, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Refusals
			start := time.Unix(1e9, 0)
			for _, r := range c.refused {
				f.Accepted(route, sessioncache.Tenant{r.tenant}, r.kinds, start.Add(r.after))
			}
			now := start.Add(c.at)
			if got := f.Without(route, sessioncache.Tenant{1}, now); got != c.own {
				t.Errorf("the tenant goes without %v, want %v", got, c.own)
			}
			if got := f.Without(route, sessioncache.Tenant{9}, now); got != c.stranger {
				t.Errorf("others go without %v, want %v", got, c.stranger)
			}
			if got := f.Without(other, sessioncache.Tenant{1}, now); got != 0 {
				t.Errorf("with another credential %v is left out", got)
			}
		})
	}
}

// TestResendShare: a client that sends invalid requests does not double the load. A request
// refused for our edits always gets its second attempt.
func TestResendShare(t *testing.T) {
	tenant := sessioncache.Tenant{1}
	for _, accepts := range []bool{false, true} {
		var f Refusals
		const requests = 500
		tries := 0
		for range requests {
			f.Sent(tenant, "api.example")
			if !f.MayResend(tenant, "api.example") {
				continue
			}
			if tries++; accepts {
				f.Accepted(Route{Upstream: "api.example"}, tenant, wire.EditTools, time.Unix(1e9, 0))
			} else {
				f.Refused()
			}
		}
		if most := resendBurst + int(requests*resendShare); !accepts && tries > most {
			t.Errorf("%d of %d requests are sent twice in vain, want at most %d", tries, requests, most)
		}
		if accepts && tries != requests {
			t.Errorf("%d of %d requests are repaired", tries, requests)
		}
		if !f.MayResend(sessioncache.Tenant{2}, "api.example") {
			t.Error("another tenant has no share of its own")
		}
	}
}

// TestRefusalsAreBounded: invented tenants leave a bounded number of entries.
func TestRefusalsAreBounded(t *testing.T) {
	var f Refusals
	for i := range 2 * maxRefusals {
		f.MayResend(sessioncache.Tenant{byte(i), byte(i >> 8)}, "api.example")
	}
	if n := f.shares.Len(); n > maxRefusals {
		t.Errorf("%d tenants are remembered, want at most %d", n, maxRefusals)
	}
}

func TestRefusalsOnThePage(t *testing.T) {
	var f Refusals
	now := time.Unix(1e9, 0)
	if h := f.health(now); h != nil {
		t.Errorf("got %v before any refusal", h)
	}
	f.Refused()
	if h := f.health(now); len(h) != 1 || h[0].State != page.OK ||
		!strings.Contains(h[0].Note, "0 accepted, 1 refused again") {
		t.Errorf("got %v after a refusal of the client's own request", h)
	}
	for tenant := range byte(2) {
		f.Accepted(Route{"api.example", "m", "plan token"}, sessioncache.Tenant{tenant}, wire.EditTools, now)
	}
	if h := f.health(now); len(h) != 1 || h[0].State != page.Slow || !strings.Contains(h[0].Note, "2 accepted") ||
		!strings.Contains(h[0].Note, "tools for m at api.example with plan token until ") {
		t.Errorf("got %v after two tenants", h)
	}
}
