// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/box"
	"github.com/caddy-llm-cache/caddy-llm-cache/box/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/billing"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// job is one base to be sent to one box, or to one slot of it.
type job struct {
	base  *base
	way   *lastRequest // the base's when it was sent: another request may bring another
	slot  int          // queue.AnySlot where the box chooses
	turn  *box.Replica
	keeps bool // only to keep the model loaded
	tries int
	load  bool // by ollama's own request for that
}

// loads tells whether the job asks ollama to keep the model, and no more.
func (j *job) loads() bool { return j.load }

// What became of a warm-up.
const (
	warmRead        = "read"        // the box has read it
	warmHeld        = "held"        // the box had it in its cache
	warmInterrupted = "interrupted" // somebody came
	warmUnreachable = "unreachable" // the box is not there
	warmRefused     = "refused"     // the site or the box answered with an error
	warmNeedless    = "needless"    // all its slots are in use; it was not sent
)

// warmTimeout bounds a warm-up: a slow machine reads 60,000 tokens in it.
const warmTimeout = 15 * time.Minute

var warmMetrics = struct {
	sent   *prometheus.CounterVec
	tokens *prometheus.CounterVec
}{
	sent:   metric.CounterVec("warmups_total", "Requests that only had a box read the base of prompts, by what became of them.", "outcome"),
	tokens: metric.CounterVec("warmup_tokens_total", "Tokens of those requests: read anew, or held in the cache.", "bucket"),
}

// send has the box read one base once it has nothing else to do.
func (x *warmer) send(ctx context.Context, j *job) (outcome string) {
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	if !x.state.pin() {
		return warmRefused
	}
	defer func() { _ = x.state.unpin() }()
	x.mu.Lock()
	h := x.handler
	j.way = j.base.way
	x.mu.Unlock()
	j.load = j.keeps && h.Upstream.Name() == "ollama"
	s, err := x.queue.Spare(ctx, "", j.slot)
	if err != nil {
		return warmInterrupted
	}
	defer s.Leave()
	if j.slot == queue.AnySlot && h.up.Slotted() {
		bare := x.queue.Bare() // the others hold what conversations began with
		if len(bare) == 0 {
			return warmNeedless
		}
		x.spread(j, bare)
	}
	at := h.now()
	f := &flight{last: j.way, deliver: j.deliver}
	w, err := x.state.keeper.carry(s.Context, f)
	var u wire.Usage
	switch {
	case errors.Is(context.Cause(s.Context), queue.ErrWanted), s.Context.Err() != nil:
		outcome = warmInterrupted
	case !f.reached:
		outcome = warmRefused
	case err != nil || w.status == http.StatusBadGateway || w.status == http.StatusServiceUnavailable || w.status == 0:
		outcome = warmUnreachable
	case w.status/100 != 2:
		outcome = warmRefused
	default:
		outcome = warmRead
		if !j.load {
			u = w.usage(j.base.target)
		}
		if u.Read > 0 && 10*u.Uncached < u.Read {
			outcome = warmHeld
		}
	}
	warmMetrics.sent.WithLabelValues(outcome).Inc()
	warmMetrics.tokens.WithLabelValues("read").Add(float64(u.Uncached))
	warmMetrics.tokens.WithLabelValues("held").Add(float64(u.Read))
	f.warmed(j.base, at, u, outcome)
	return outcome
}

// usage reads what an answer says that it took.
func (w *pingSink) usage(f wire.Format) wire.Usage {
	d := wire.NewDecoder(f, layer.MediaType(w.header.Get("Content-Type")) == "text/event-stream")
	d.Feed(w.body.Bytes())
	return d.Turn().Usage
}

// warmed puts a warm-up on record.
func (f *flight) warmed(b *base, at time.Time, u wire.Usage, outcome string) {
	if f.handler == nil {
		return
	}
	rules := f.handler.Upstream.Rules()(b.model, at)
	cost, dollars := rules.Cost(u)+rules.CostOutput(u), rules.Dollars(u)
	countCost(&billing.Bill{Dollars: dollars}) // no client has asked
	f.write(&audit.Record{
		At: at, Kind: audit.KindWarmUp, Model: b.model, ClientFormat: string(b.client), UpstreamFormat: string(b.target),
		Billed: tokens(u), Cost: cost, USD: dollars, Reason: outcome,
	}, outcome == warmRead || outcome == warmHeld)
}

// write completes and writes the record of a request of ours.
func (f *flight) write(rec *audit.Record, completed bool) {
	s := f.handler.sink.pinned()
	if s == nil {
		return
	}
	defer s.unpin()
	rec.ID, rec.Turns, rec.Tenant = audit.NewID(rec.At), 1, s.tenant(f.request)
	rec.User, rec.Client, rec.Policy = rec.Tenant, clientName(first(f.request.Header, "User-Agent")), string(f.handler.Policy)
	rec.Outcome, rec.Status, rec.Total = audit.Completed, f.status, time.Since(rec.At)
	if !completed {
		rec.Outcome = audit.Failed
	}
	s.queue.End(s.queue.Begin(rec), rec)
}
