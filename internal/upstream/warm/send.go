// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// job is the warm-up of one base on one server or slot.
type job struct {
	base  *base
	to    *selfrequest.Target // a copy, because another request may replace the base's target
	slot  int                 // queue.AnySlot if the server chooses
	turn  *local.Replica
	keeps bool // only keeps the model loaded
	tries int
	load  bool          // uses ollama's load request
	every time.Duration // interval of load requests
}

// Outcomes of a warm-up.
const (
	warmRead        = "read"        // the server has read the base
	warmCached      = "cached"      // the server had the base in its cache
	warmInterrupted = "interrupted" // a client's request came
	warmUnreachable = "unreachable" // the server is unreachable
	warmRefused     = "refused"     // the site or the server answered with an error
	warmNeedless    = "needless"    // the slots have conversations; nothing was sent
)

// maxDuration bounds the time of a warm-up: a slow machine reads 60,000 tokens in it.
const maxDuration = 15 * time.Minute

var metrics = struct {
	sent   *prometheus.CounterVec
	tokens *prometheus.CounterVec
}{
	sent: metric.CounterOf("warmups_total",
		"Requests that only had a box read the base of prompts, by what became of them.", "outcome",
		warmRead, warmCached, warmInterrupted, warmUnreachable, warmRefused),
	tokens: metric.CounterOf("warmup_tokens_total", "Tokens of those requests: read anew, or cached before.", "bucket",
		"read", "cached"),
}

func (x *Server) send(ctx context.Context, j *job) (outcome string) {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
	if !x.of.state.Pin() {
		return warmRefused
	}
	defer x.of.state.Unpin()
	x.mu.Lock()
	site := x.site
	j.to = j.base.to
	x.mu.Unlock()
	preset := site.Upstream.Name()
	j.load, j.every = j.keeps && preset == "ollama", site.every(preset)
	s, err := x.queue.Spare(ctx, "", j.slot)
	if err != nil {
		return warmInterrupted
	}
	defer s.Leave()
	if site.Upstream.Slotted() {
		switch bare := x.queue.Bare(); { // the other slots have conversations
		case len(bare) == 0, j.slot != queue.AnySlot && !slices.Contains(bare, j.slot):
			return warmNeedless
		case j.slot == queue.AnySlot:
			x.spread(j, bare)
		}
	}
	at := site.Now()
	e := &selfrequest.Request{Kind: selfrequest.WarmUp, Target: j.to, Adapt: j.adapt, Bare: j.load}
	a, err := x.of.state.Sender.Send(s.Context, e)
	var u wire.Usage
	switch {
	case errors.Is(context.Cause(s.Context), queue.ErrWanted), s.Context.Err() != nil:
		outcome = warmInterrupted
	case !e.Arrived():
		outcome = warmRefused
	case err != nil || a.Status == http.StatusBadGateway || a.Status == http.StatusServiceUnavailable || a.Status == 0:
		outcome = warmUnreachable
	case a.Status/100 != 2:
		outcome = warmRefused
	default:
		outcome = warmRead
		if !j.load {
			u = a.Turn(j.base.target).Usage
		}
		// Nearly all of the base came from the cache.
		if u.Read > 0 && 10*u.Uncached < u.Read {
			outcome = warmCached
		}
	}
	metrics.sent.WithLabelValues(outcome).Inc()
	metrics.tokens.WithLabelValues("read").Add(float64(u.Uncached))
	metrics.tokens.WithLabelValues("cached").Add(float64(u.Read))
	rules := site.Upstream.Rules()(j.to.Model, at)
	e.Record(&audit.Record{
		At: at, Kind: audit.KindWarmUp, Model: j.to.Model, ClientFormat: string(j.to.Client),
		UpstreamFormat: string(j.base.target),
		Cost:           rules.Cost(u) + rules.CostOutput(u), USD: rules.Dollars(u), Reason: outcome,
	}, u, outcome == warmRead || outcome == warmCached)
	return outcome
}
