// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

const (
	// unreachedFor is how many requests in a row must have had no answer before the upstream
	// is said to fail.
	unreachedFor = 3
	// unreachedTime is how long it is said so after the last of them: whoever sends no
	// more requests then would never learn that it is up again.
	unreachedTime = 30 * time.Second
)

// Reach is what the requests of a site have found out about whether its upstream answers.
// The zero value has found out nothing.
type Reach struct {
	row      atomic.Int64 // requests since the last answer
	answered atomic.Int64 // when, in Unix nanoseconds
	missed   atomic.Int64
	host     atomic.Pointer[string]
}

// Note takes account of a request that has ended. Any answer counts, an error as well; that
// the client has left says nothing.
func (h *Reach) Note(answered bool, err error) {
	now := time.Now().UnixNano()
	if answered {
		h.row.Store(0)
		h.answered.Store(now)
		return
	}
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && httpx.Unreached[e.StatusCode] != "" {
		h.row.Add(1)
		h.missed.Store(now)
	}
}

// At notes which server a request went to, "" for one that is not known.
func (h *Reach) At(host string) {
	if before := h.host.Load(); host != "" && (before == nil || *before != host) {
		now := host // only then is it kept
		h.host.Store(&now)
	}
}

// last is when it found anything out, in Unix nanoseconds, 0 for never.
func (h *Reach) last() int64 { return max(h.answered.Load(), h.missed.Load()) }

// Health says how the upstream is.
func (h *Reach) Health(now time.Time) page.Health {
	out := page.Health{Name: page.Upstream, State: page.OK, Note: "no request has been answered yet"}
	if host := h.host.Load(); host != nil {
		out.Of = *host
	}
	if at := h.answered.Load(); at != 0 {
		out.Note = "last answer at " + time.Unix(0, at).Format("2006-01-02 15:04:05")
	}
	row := h.row.Load()
	if row == 0 {
		return out
	}
	out.State = page.Slow
	out.Note = fmt.Sprintf("requests in a row without an answer: %d; %s", row, out.Note)
	if row >= unreachedFor && now.Sub(time.Unix(0, h.missed.Load())) < unreachedTime {
		out.State = page.Failing
	}
	return out
}

// Upstreams are those of the sites that share a state.
type Upstreams struct {
	mu  sync.Mutex
	all []*Reach
}

// Add has the upstream of a site shown, Remove no more.
func (u *Upstreams) Add(h *Reach) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, h)
}

// Remove undoes Add, if that was called.
func (u *Upstreams) Remove(h *Reach) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(o *Reach) bool { return o == h })
}

// health says how each server is that sites have asked: what the last of them has found
// out.
func (u *Upstreams) health(now time.Time) []page.Health {
	u.mu.Lock()
	all := slices.Clone(u.all)
	u.mu.Unlock()
	slices.SortStableFunc(all, func(a, b *Reach) int { return cmp.Compare(b.last(), a.last()) })
	var out []page.Health
	for _, r := range all {
		h := r.Health(now)
		known := slices.ContainsFunc(out, func(o page.Health) bool { return o.Of == h.Of })
		if !known && (r.last() != 0 || len(out) == 0) {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b page.Health) int { return cmp.Compare(a.Of, b.Of) })
	return out
}
