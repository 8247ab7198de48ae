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
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/box/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// IdleFolding folds conversations on a box while nobody waits. When an answer has
// come to its end, old results and inputs of tools that are hardly needed any more
// are folded, and the box reads the shorter history by a request of ours for one
// token. Only once it has read it is the next request sent with these folds. That
// one, or any other, ends the reading if it comes before, and goes out as it
// would have gone. It needs a queue, which knows when nobody waits, and a box
// whose cached prefix is free; elsewhere it does nothing.
type IdleFolding struct {
	// After is how long after an answer the reading begins, if the box is idle
	// then. At most 10m. Default: 1s.
	After caddy.Duration `json:"after,omitempty"`
	// CallTokens bounds what the box has to read, in tokens, where the answer
	// calls tools, whose results are likely to be there soon. 0 for not folding
	// then. Default: 8000.
	CallTokens *int `json:"call_tokens,omitempty"`
}

const (
	defaultFoldAfter      = time.Second
	defaultFoldCallTokens = 8000
)

// Validate reports the first option out of its range. A nil IdleFolding is valid.
func (o *IdleFolding) Validate() error {
	switch {
	case o == nil:
	case o.After < 0 || time.Duration(o.After) > 10*time.Minute:
		return fmt.Errorf("after: %s is not between 0s and 10m", time.Duration(o.After))
	case o.CallTokens != nil && (*o.CallTokens < 0 || *o.CallTokens > 1<<30):
		return fmt.Errorf("call_tokens: %d is not between 0 and %d", *o.CallTokens, 1<<30)
	}
	return nil
}

// What became of an idle fold.
const (
	foldRead        = "read"        // the box has read it, and it holds
	foldInterrupted = "interrupted" // somebody came
	foldLate        = "late"        // the conversation had gone on
	foldFailed      = "failed"      // the box answered with an error, or not at all
)

var foldMetrics = metric.CounterVec("idle_folds_total", "Conversations that a box was to read folded while nobody waited, by what became of that.", "outcome")

// idleFold is a fold that a box is to read.
type idleFold struct {
	call *call
	plan *pipeline.Background
	way  *lastRequest
	at   time.Time // when it may begin
}

// anticipate plans what to fold now that the answer is over, and has the box read
// it. r must be as it came.
func (c *call) anticipate(r *http.Request) {
	o := c.h.IdleFolding
	if o == nil || c.turn == nil || !c.turn.Done || c.turn.Failed() || c.resent {
		return
	}
	c.h.guard("planning what to fold while nobody waits", func() {
		limit := 0
		if len(c.turn.Calls) > 0 {
			if limit = or(o.CallTokens, defaultFoldCallTokens); limit == 0 {
				return
			}
		}
		plan := c.ex.Background(c.turn, limit)
		if plan == nil {
			return
		}
		body, err := foldBody(c.view, plan.Body)
		if err != nil {
			return
		}
		after := time.Duration(o.After)
		if after == 0 {
			after = defaultFoldAfter
		}
		f := &idleFold{call: c, plan: plan, way: c.way(r, body), at: c.h.now().Add(after)}
		if c.h.state.keeper.manual {
			c.h.state.pending = f
			return
		}
		if ctx := c.h.state.keeper.running(); ctx != nil && c.h.state.pin() {
			go layer.Background("folding while nobody waits", func() { f.run(ctx) })
		}
	})
}

// foldBody makes the request by which a box reads a history: for one token, in
// one piece.
func foldBody(v *wire.View, body []byte) ([]byte, error) {
	c, ok := v.Format.Codec().(wire.Prefiller)
	if !ok {
		return nil, errNoBase
	}
	return wire.Patch(body, append(c.Prefill(), wire.Member{Name: "stream", Value: []byte("false")}, wire.Member{Name: "stream_options"})...)
}

// run has the box read the fold when it is idle.
func (f *idleFold) run(ctx context.Context) {
	h := f.call.h
	defer func() { _ = h.state.unpin() }()
	ctx, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	select {
	case <-time.After(time.Until(f.at)):
	case <-ctx.Done():
		return
	}
	if !f.plan.Current() {
		return
	}
	first := f.call.view.First()
	s, err := h.slots().Spare(ctx, f.call.id+first.String(), queue.AnySlot)
	if err != nil {
		return
	}
	defer s.Leave()
	if f.plan.Current() { // it may have waited for long
		f.send(s.Context, s.Slot)
	}
}

// send has the box read the fold, and makes it part of the conversation.
func (f *idleFold) send(ctx context.Context, slot int) (u wire.Usage, outcome string) {
	c := f.call
	at := c.h.now()
	fl := &flight{last: f.way, deliver: func(h *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
		if h.IdleFolding == nil {
			return caddyhttp.Error(http.StatusNotFound, errUnreached)
		}
		body, err := layer.Decode("zstd", f.way.body, largestMaxBody, nil)
		if err != nil {
			return caddyhttp.Error(http.StatusInternalServerError, err)
		}
		layer.SetBody(r, body)
		r.ContentLength, r.TransferEncoding = int64(len(body)), nil
		r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
		layer.AskPlain(r.Header)
		caddyhttp.SetVar(r.Context(), "llm_slot", slot)
		caddyhttp.SetVar(r.Context(), "llm_session", c.id)
		caddyhttp.SetVar(r.Context(), "llm_lineage", c.view.First())
		p := &passage{h: h, errand: folding, format: c.view.Format, session: c.id, call: c}
		return p.through(next).ServeHTTP(w, r)
	}}
	w, err := c.h.state.keeper.carry(ctx, fl)
	switch {
	case errors.Is(context.Cause(ctx), queue.ErrWanted):
		outcome = foldInterrupted
	case err != nil || w.status/100 != 2:
		outcome = foldFailed
	default:
		u = w.usage(c.view.Format)
		outcome = foldLate
		if f.plan.Commit(u) {
			outcome = foldRead
			for _, b := range f.plan.Texts() {
				c.h.state.blocks.Put(c.session, c.view.First(), b.Name, b.Text, c.h.now())
			}
		}
	}
	foldMetrics.WithLabelValues(outcome).Inc()
	if fl.handler != nil {
		rules := c.ex.Rules()
		lineage, _ := c.ex.Committed()
		fl.write(&audit.Record{
			At: at, Kind: audit.KindIdleFold, Session: c.id, Lineage: lineage, Model: c.view.Model,
			ClientFormat: string(c.view.Format), UpstreamFormat: string(c.h.up.Target(c.view.Format)),
			Billed: tokens(u), Cost: rules.Cost(u), USD: rules.Dollars(u), Reason: outcome,
		}, outcome == foldRead || outcome == foldLate)
	}
	return u, outcome
}

// IdleFoldRecord is one fold that a box has read while nobody waited.
type IdleFoldRecord struct {
	// Blocks is the number of blocks folded, Removed what they took, Process what
	// the box has to read for it, in estimated tokens.
	Blocks, Removed, Process int
}

// NextIdleFold is the fold that is planned, and when it may begin, for a handler
// that was attached to a clock of its caller's; false if none is.
func (h *Handler) NextIdleFold() (r IdleFoldRecord, at time.Time, ok bool) {
	f := h.state.pending
	if f == nil {
		return r, at, false
	}
	return IdleFoldRecord{f.plan.Blocks, f.plan.Removed, f.plan.Process}, f.at, true
}

// DropIdleFold tells that the next request came before the planned fold was read.
func (h *Handler) DropIdleFold() { h.state.pending = nil }

// SendIdleFold has the planned fold read, and tells what the upstream reported and
// whether it holds.
func (h *Handler) SendIdleFold() (wire.Usage, bool) {
	f := h.state.pending
	h.state.pending = nil
	u, outcome := f.send(context.Background(), 0)
	return u, outcome == foldRead
}

// UnmarshalCaddyfile sets it up from Caddyfile tokens. Syntax:
//
//	idle_folding {
//		after       <duration>
//		call_tokens <tokens>
//	}
func (o *IdleFolding) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "idle_folding", option.Options{
		"after":       option.Checked(option.Duration(&o.After), o.Validate),
		"call_tokens": option.Checked(option.Number(&o.CallTokens), o.Validate),
	})
}
