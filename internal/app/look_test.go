// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestHealthOfStores: eviction is no trouble. A failure or lost turns are, as long as they are
// recent.
func TestHealthOfStores(t *testing.T) {
	store, now := new(sessioncache.Store), time.Now()
	full := sessioncache.StoreStats{Sessions: 9, Bytes: 1 << 20, MaxBytes: 1 << 20, Evicted: 5}
	if h := healthOf(full, storeTrouble(store, now)); h.State != page.OK ||
		h.Note != "1.0 MiB of 1.0 MiB in memory, 5 let go for want of room since the start" {
		t.Errorf("%+v", h)
	}
	storeFailed(store, "save")
	defer lastFailed.Delete(store)
	if h := healthOf(full, storeTrouble(store, time.Now())); h.State != page.Failing {
		t.Errorf("it fails: %+v", h)
	}
	if h := healthOf(full, storeTrouble(store, time.Now().Add(2*troubleTime))); h.State != page.OK {
		t.Errorf("it did: %+v", h)
	}

	var c audit.Counters
	if h := healthOfRecord(audit.Stats{Waiting: 3}, "", &c, now); h.State != page.OK ||
		h.Note != "3 turns wait to be written" {
		t.Errorf("%+v", h)
	}
	for _, reason := range audit.Reasons {
		if h := healthOfRecord(audit.Stats{Waiting: 3}, reason, &c, now); h.State != page.Failing ||
			h.Note != "3 turns wait to be written in memory: the audit store fails, "+troubles[reason] ||
			troubles[reason] == "" {
			t.Errorf("%s: %+v", reason, h)
		}
	}
	if h := healthOfRecord(audit.Stats{Waiting: 3, Lag: time.Minute}, "", &c, now); h.State != page.Slow ||
		h.Note != "3 turns wait to be written, the oldest for 1m0s" {
		t.Errorf("%+v", h)
	}
	c.Drop(2)
	if h := healthOfRecord(audit.Stats{}, "", &c, time.Now()); h.State != page.Failing {
		t.Errorf("turns are lost: %+v", h)
	}
	if h := healthOfRecord(audit.Stats{}, "", &c, time.Now().Add(2*troubleTime)); h.State != page.OK ||
		h.Note != "0 turns wait to be written, 2 were lost since the start: the store did not take them" {
		t.Errorf("they were: %+v", h)
	}
}

// The page cuts the model names of clients.
func TestLongModelOnPage(t *testing.T) {
	s := sessionOf(sessioncache.SessionSummary{Conversations: []sessioncache.ConversationSummary{{Model: strings.Repeat("x", 1<<20)}}}, new(audit.Tally).Identity)
	if n := len(s.Model); n == 0 || n > 256 {
		t.Errorf("it shows %d bytes", n)
	}
}

// A session's saving is what all other savings are: net of its pings.
func TestSessionBearsItsPings(t *testing.T) {
	r := sessioncache.SessionSummary{Conversations: []sessioncache.ConversationSummary{{
		Cost:   sessioncache.CostSummary{Units: 100, ClientUnits: 300, USD: 1, ClientUSD: 3},
		Breaks: map[string]int{"model": 2}, Ledger: map[string]int{"prune": 4},
	}, {Breaks: map[string]int{"model": 1, "tools": 1}}}}
	s := sessionOf(r, func(string) audit.Identity { return audit.Identity{Internal: 50, InternalUSD: 0.5} })
	if s.Saved != 1.5 || !s.Priced || s.Misses != 4 || s.Breaks["model"] != 3 || s.Breaks["tools"] != 1 || s.Stages["prune"] != 4 {
		t.Errorf("got %+v", s)
	}
	r.Conversations[0].Cost.ClientUSD = 0
	if s := sessionOf(r, func(string) audit.Identity { return audit.Identity{Internal: 50} }); s.Saved != 150 || s.Priced {
		t.Errorf("without a price: got %+v", s)
	}
}
