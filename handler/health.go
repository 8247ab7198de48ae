// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// health is the answer on the health path.
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

// serveHealth answers with the state of upstream and stores, its status for load balancers, and with
// the effective configuration without secrets.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	checks := append([]page.Health{h.site.reach.Health(time.Now())}, app.Health(h.site.store.Instance)...)
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

// status sums the checks up for load balancers.
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
