// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

type health struct {
	// Status is ok, degraded, or failing, with status 503: the upstream does not answer.
	Status        string             `json:"status"`
	Checks        []page.Health      `json:"checks"`
	Upstream      *upstream.Upstream `json:"upstream"` // null: inferred
	Formats       []wire.Format      `json:"formats"`  // null: any
	Options       pipeline.Options   `json:"options"`
	SessionHeader string             `json:"session_header"`
	MaxBody       int64              `json:"max_body"`
	Headers       HeaderMode         `json:"headers"`
	// Features are the states of features that have one, by name.
	Features map[string]any `json:"features,omitempty"`
}

// serveHealth responds with the state of upstream and stores, and the effective configuration without secrets.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Has("ready") {
		return h.serveReadiness(w, r)
	}
	checks := append([]page.Health{h.site.reach.Health(time.Now())}, app.Health(h.site.store.Instance)...)
	// Load balancers read the status only.
	word, code := status(checks)
	w.WriteHeader(code)
	if r.Method == http.MethodHead {
		return nil
	}
	features := map[string]any{}
	for _, f := range h.site.features {
		if f.Health != nil {
			features[f.name] = f.Health()
		}
	}
	return json.NewEncoder(w).Encode(health{
		Features:      features,
		Status:        word,
		Checks:        checks,
		Upstream:      h.Upstream.Redacted(),
		Formats:       h.site.up.Formats,
		Options:       h.Options.WithDefaults(),
		SessionHeader: h.SessionHeader,
		MaxBody:       h.MaxBody,
		Headers:       cmp.Or(h.Headers, HeadersCompact),
	})
}

// serveReadiness tells load balancers whether to send requests to this process. The upstream's state
// does not count: all processes share the upstream, and none would be left.
func (h *Handler) serveReadiness(w http.ResponseWriter, r *http.Request) error {
	word, code := "ready", http.StatusOK
	if leaving, _ := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Get("http.shutting_down"); leaving == true {
		word, code = "draining", http.StatusServiceUnavailable
	} else if h.site.started != nil && !h.site.started() {
		word, code = "starting", http.StatusServiceUnavailable
	}
	w.WriteHeader(code)
	if r.Method == http.MethodHead {
		return nil
	}
	return json.NewEncoder(w).Encode(map[string]string{"status": word})
}

func status(all []page.Health) (word string, code int) {
	word, code = "ok", http.StatusOK
	for _, h := range all {
		switch {
		case h.State == page.Failing && h.Name == page.Upstream:
			return "failing", http.StatusServiceUnavailable
		case h.State == page.Slow, h.State == page.Failing:
			word = "degraded"
		}
	}
	return word, code
}

const (
	// unreachedFor is the number of consecutive requests without a response after which the
	// upstream counts as failing.
	unreachedFor = 3
	// unreachedTime is how long that state lasts after the last of them. It must end by itself:
	// without further requests nothing would end it.
	unreachedTime = 30 * time.Second
)

// Reach tracks whether a site's upstream responds, from the site's requests. The zero value is
// ready to use.
type Reach struct {
	row      atomic.Int64 // requests since the last response
	answered atomic.Int64 // the last time, in Unix nanoseconds
	missed   atomic.Int64
	host     atomic.Pointer[string]
}

// Note records the end of a request. Any response counts, an error too. A client's departure does
// not count.
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

// At records the server of a request, "" if unknown.
func (h *Reach) At(host string) {
	if before := h.host.Load(); host != "" && (before == nil || *before != host) {
		now := host // the copy escapes to the heap only here
		h.host.Store(&now)
	}
}

// last returns the time of the last finding in Unix nanoseconds, 0 for none.
func (h *Reach) last() int64 { return max(h.answered.Load(), h.missed.Load()) }

// Health returns the state of the upstream.
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

// Upstreams are the upstreams of all sites that share a state.
type Upstreams struct {
	mu  sync.Mutex
	all []*Reach
}

func upstreamsOf(s *state.State) *Upstreams {
	return state.Part(s, func() *Upstreams { return new(Upstreams) })
}

// View implements [state.Viewer].
func (u *Upstreams) View(v *page.View) { v.Health = append(v.Health, u.health(v.Now)...) }

// Add shows the upstream of a site on the page.
func (u *Upstreams) Add(h *Reach) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, h)
}

// Remove undoes Add. Without an Add it does nothing.
func (u *Upstreams) Remove(h *Reach) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(o *Reach) bool { return o == h })
}

// health returns the state of each server, by the site with the latest request to it.
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
