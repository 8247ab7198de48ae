// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package idlefold

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Outcomes of an idle fold.
const (
	foldRead        = "read"        // the server has read the fold, and the fold is committed
	foldInterrupted = "interrupted" // a client's request came
	foldLate        = "late"        // the conversation had continued
	foldFailed      = "failed"      // the server answered with an error, or not at all
)

var foldMetrics = metric.CounterOf("idle_folds_total",
	"Conversations that a box was to read folded while nobody waited, by what became of that.", "outcome",
	foldRead, foldInterrupted, foldLate, foldFailed)

// Site is the part of the site that folds need.
type Site struct {
	*Options
	// Upstream is the site's upstream.
	Upstream *upstream.Profile
	// Queue is the local server's queue.
	Queue *queue.Queue
	// State has the sessions, and carries internal requests to the local server.
	State *state.State
	// Log gets errors.
	Log *zap.Logger
	// Now returns the current time.
	Now func() time.Time
}

// Answered is a completed turn.
type Answered struct {
	// Exchange is the edited request, View the client's request, Turn the answer.
	Exchange *pipeline.Transaction
	// View: see Exchange.
	View *wire.View
	// Turn: see Exchange.
	Turn *wire.Turn
	// Session is the public id of the session, Tenant its tenant.
	Session string
	// Tenant: see Session.
	Tenant sessioncache.Tenant
	// Target returns the target for a body on the request's route.
	Target func(body []byte) *selfrequest.Target
	// Keep stores folded texts.
	Keep func([]pipeline.Block)
}

// Fold is a planned fold that the local server has to read.
type Fold struct {
	site *Site
	*Answered
	plan *pipeline.Background
	to   *selfrequest.Target
	wait time.Duration // minimum delay of the start
}

// Plan plans a fold after an answer, nil for none. The request must be in its original state.
func (s *Site) Plan(a *Answered) (f *Fold) {
	httpx.Guard(s.Log, "planning what to fold while nobody waits", func() {
		limit := 0
		// The results of tools are likely to arrive soon, so bound the reading.
		if len(a.Turn.Calls) > 0 {
			if limit = defaultFoldCallTokens; s.CallTokens != nil {
				limit = *s.CallTokens
			}
			if limit == 0 {
				return
			}
		}
		plan := a.Exchange.Background(a.Turn, limit)
		if plan == nil {
			return
		}
		body, err := foldBody(a.View, plan.Body)
		if err != nil {
			return
		}
		after := time.Duration(s.After)
		if after == 0 {
			after = defaultFoldAfter
		}
		f = &Fold{site: s, Answered: a, plan: plan, to: a.Target(body), wait: after}
	})
	return f
}

var errNoPrefill = errors.New("the format has no request by which a box reads a history")

// foldBody returns the request that makes the server read a history.
func foldBody(v *wire.View, body []byte) ([]byte, error) {
	c, ok := v.Format.Codec().(wire.Prefiller)
	if !ok {
		return nil, errNoPrefill
	}
	// One token, and no stream: only the reading matters.
	return wire.Patch(body, append(c.Prefill(), wire.Member{Name: "stream", Value: []byte("false")},
		wire.Member{Name: "stream_options"})...)
}

// Doing names the work on a fold, from its planning on.
const Doing = "folding while nobody waits"

// Start sends the fold in the background, when the server is idle.
func (f *Fold) Start() {
	s := f.site.State
	ctx := s.Sender.Running()
	if ctx == nil {
		return
	}
	// The client's next request often follows at once, and would interrupt the fold.
	s.Clock.After(f.wait, Doing, func() {
		// A configuration that has ended meanwhile may have closed the state.
		if ctx.Err() == nil && s.Pin() {
			defer s.Unpin()
			f.run(ctx)
		}
	})
}

// maxDuration bounds the time of a fold: a slow machine reads 60,000 tokens in it.
const maxDuration = 15 * time.Minute

func (f *Fold) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
	if !f.plan.Current() {
		return
	}
	first := f.View.First()
	s, err := f.site.Queue.Spare(ctx, f.Session+first.String(), queue.AnySlot)
	if err != nil {
		return
	}
	defer s.Leave()
	if f.plan.Current() { // the wait for a slot may have been long
		f.send(s.Context, s.Slot)
	}
}

func (f *Fold) send(ctx context.Context, slot int) {
	at, format := f.site.Now(), f.View.Format
	e := &selfrequest.Request{
		Kind: selfrequest.Fold, Target: f.to, Tokens: f.plan.Process, Session: f.Session, Tenant: f.Tenant,
	}
	e.Adapt = func(_ *selfrequest.Site, r *http.Request) ([]byte, error) {
		caddyhttp.SetVar(r.Context(), "llm_slot", slot)
		caddyhttp.SetVar(r.Context(), "llm_session", f.Session)
		caddyhttp.SetVar(r.Context(), "llm_conversation", f.View.First())
		return nil, nil //nolint:nilnil // the body is the target's
	}
	a, err := f.site.State.Sender.Send(ctx, e)
	var u wire.Usage
	var outcome string
	switch {
	case errors.Is(context.Cause(ctx), queue.ErrWanted):
		outcome = foldInterrupted
	case err != nil || a.Status/100 != 2:
		outcome = foldFailed
	default:
		u = a.Turn(format).Usage
		outcome = foldLate
		// Commit fails if the conversation has continued.
		if f.plan.Commit(u) {
			outcome = foldRead
			f.Keep(f.plan.Texts())
		}
	}
	foldMetrics.WithLabelValues(outcome).Inc()
	rules := f.Exchange.Rules()
	conversation, _ := f.Exchange.Committed()
	e.Record(&audit.Record{
		At: at, Kind: audit.KindIdleFold, Conversation: conversation, Model: f.View.Model,
		ClientFormat: string(format), UpstreamFormat: string(f.site.Upstream.Target(format)),
		Cost: rules.Cost(u), USD: rules.Dollars(u), Reason: outcome,
	}, u, outcome == foldRead || outcome == foldLate)
}
