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

// job is one base to be sent to one box, or to one slot of it.
type job struct {
	base  *base
	to    *selfrequest.Target // the base's when it was sent: another request may bring another
	slot  int                 // queue.AnySlot where the box chooses
	turn  *local.Replica
	keeps bool // only to keep the model loaded
	tries int
	load  bool          // by ollama's own request for that
	every time.Duration // between two of those
}

// What became of a warm-up.
const (
	warmRead        = "read"        // the box has read it
	warmHeld        = "held"        // the box had it in its cache
	warmInterrupted = "interrupted" // somebody came
	warmUnreachable = "unreachable" // the box is not there
	warmRefused     = "refused"     // the site or the box answered with an error
	warmNeedless    = "needless"    // its slots hold conversations; it was not sent
)

// longest bounds a warm-up: a slow machine reads 60,000 tokens in it.
const longest = 15 * time.Minute

var metrics = struct {
	sent   *prometheus.CounterVec
	tokens *prometheus.CounterVec
}{
	sent: metric.CounterOf("warmups_total", "Requests that only had a box read the base of prompts, by what became of them.", "outcome",
		warmRead, warmHeld, warmInterrupted, warmUnreachable, warmRefused),
	tokens: metric.CounterOf("warmup_tokens_total", "Tokens of those requests: read anew, or held in the cache.", "bucket",
		"read", "held"),
}

// send has the box read one base once it has nothing else to do.
func (x *Box) send(ctx context.Context, j *job) (outcome string) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if !x.of.Pin() {
		return warmRefused
	}
	defer func() { _ = x.of.Unpin() }()
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
		switch bare := x.queue.Bare(); { // the others hold what conversations began with
		case len(bare) == 0, j.slot != queue.AnySlot && !slices.Contains(bare, j.slot):
			return warmNeedless
		case j.slot == queue.AnySlot:
			x.spread(j, bare)
		}
	}
	at := site.Now()
	e := &selfrequest.Errand{Kind: selfrequest.WarmUp, Target: j.to, Adapt: j.adapt, Bare: j.load}
	a, err := x.of.Carrier.Carry(s.Context, e)
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
		if u.Read > 0 && 10*u.Uncached < u.Read {
			outcome = warmHeld
		}
	}
	metrics.sent.WithLabelValues(outcome).Inc()
	metrics.tokens.WithLabelValues("read").Add(float64(u.Uncached))
	metrics.tokens.WithLabelValues("held").Add(float64(u.Read))
	rules := site.Upstream.Rules()(j.to.Model, at)
	e.Record(&audit.Record{
		At: at, Kind: audit.KindWarmUp, Model: j.to.Model, ClientFormat: string(j.to.Client), UpstreamFormat: string(j.base.target),
		Cost: rules.Cost(u) + rules.CostOutput(u), USD: rules.Dollars(u), Reason: outcome,
	}, u, outcome == warmRead || outcome == warmHeld)
	return outcome
}
