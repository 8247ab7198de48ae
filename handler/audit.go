// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// records counts requests and puts them on record.
type records struct {
	of          *shared.Instance
	sink        *app.Sink // nil for no records
	policy      pipeline.Policy
	up          *upstream.Profile
	outcomes    map[string]prometheus.Counter
	conventions *spanConventions // of spans
}

// begin begins the record of a request: caller, model and kind. A conversation has tools, a side
// request has none.
func (o *records) begin(at time.Time, who tenant.Person, client string, v *wire.View, tools bool) audit.Record {
	rec := audit.Record{
		ID: audit.NewID(at), At: at, Turns: 1, Kind: audit.KindTurn,
		Tenant: who.Hash, User: who.Name, Client: client,
		Model: audit.Bounded(v.Model), ClientFormat: string(v.Format), UpstreamFormat: string(o.up.Target(v.Format)), Policy: string(o.policy), Stream: v.Reply.Stream,
	}
	rec.BilledModel = o.billed(v.Model)
	if !tools {
		rec.Kind = audit.KindSide
	}
	return rec
}

// billed returns the upstream's name of a model, "" where it is the client's.
func (o *records) billed(model string) string {
	if name := o.up.Model(model); name != model {
		return audit.Bounded(name)
	}
	return ""
}

// refused puts a request on record that was read, answered here by 400, and sent nowhere.
func (o *records) refused(r *http.Request, who tenant.Person, v *wire.View, session string) {
	rec := o.begin(time.Now(), who, audit.ClientName(first(r.Header, "User-Agent")), v, v.OffersTools() || v.InheritsTools())
	rec.Session = session
	rec.Outcome, rec.Status = audit.Failed, http.StatusBadRequest
	rec.Total = time.Since(rec.At)
	app.Count(o.of, &rec, r.Host)
	if s := o.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(&rec)
	}
}

// spent puts a request on record that a spent budget has refused.
func (o *records) spent(r *http.Request, who tenant.Person, v *wire.View, status int) {
	rec := o.begin(time.Now(), who, audit.ClientName(first(r.Header, "User-Agent")), v, true)
	rec.Outcome, rec.Status = audit.Refused, status
	app.Count(o.of, &rec, r.Host)
	if s := o.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(&rec)
	}
}

// errand puts an internal request on record, sent along the route of r.
func (o *site) errand(r *http.Request, rec *audit.Record, u wire.Usage) {
	who := selfrequest.Of(r).Person
	if who.Hash == "" { // its target has lain on disk
		who = o.whose(r)
	}
	rec.Tenant, rec.User, rec.Client = who.Hash, who.Name, audit.ClientName(r.UserAgent())
	rec.Policy, rec.Billed = string(o.records.policy), tokens(u)
	rec.BilledModel = o.records.billed(rec.Model)
	countTokens(u)
	app.Count(o.store.Instance, rec, r.Host)
	o.records.sink.Spend(rec)
	if s := o.records.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(rec)
	}
}

// assumed are the models of which the log has told today that others stand in for them.
var assumed struct {
	sync.Mutex
	day    time.Time
	models *Strangers
}

// warnOfModel logs, once a day for each model, that its rules or its prices are not known.
func (x *exchange) warnOfModel() {
	r := &x.record
	if r.AssumedFrom == "" && r.PricesOf == "" && !r.Unpriced() {
		return
	}
	if x.site.up.Local() {
		return // a local server costs nothing
	}
	assumed.Lock()
	if day := allowance.DayOf(r.At); assumed.models == nil || !day.Equal(assumed.day) {
		assumed.day, assumed.models = day, new(Strangers)
	}
	models := assumed.models
	assumed.Unlock()
	if models.Meet(r.Model, r.AssumedFrom) {
		x.site.up.Log.Warn("model is not in the models file: others stand in for its rules and prices",
			zap.String("model", r.Model), zap.String("assumed_from", r.AssumedFrom), zap.String("charged_as", r.PricesOf), zap.Bool("unpriced", r.Unpriced()))
	}
}

// detailed returns the record as it is kept: with its edits, its content if that is wanted, and without
// the cost of continuations, which have records of their own.
func (x *exchange) detailed() *audit.Record {
	r := x.record
	if fired := x.Edit.Prompt.Fired; len(fired) > 0 {
		r.Edits = make([]audit.Edits, len(fired))
		for i, f := range fired {
			r.Edits[i] = audit.Edits{Stage: f.Stage, Count: f.Count, Tokens: f.Tokens}
			if f.Stage == stage.Compress {
				r.Edits[i].Tokens, r.Edits[i].Millis = x.Edit.Prompt.Compressed.Tokens, x.Edit.Prompt.Compressed.Took.Milliseconds()
			}
		}
	}
	if x.turn != nil {
		r.Service = x.Edit.Service(x.turn).String()
	}
	x.setApart(&r)
	if x.sink.Content() {
		r.Content = content(x.View, x.turn)
	}
	return &r
}

func tokens(u wire.Usage) audit.Tokens {
	return audit.Tokens{Uncached: u.Uncached, Write5m: u.Write5m, Write1h: u.Write1h, Read: u.Read, Output: u.Output}
}

// content copies prompt and answer, for the memory of the bodies is used again.
func content(v *wire.View, t *wire.Turn) *audit.Content {
	c := &audit.Content{Prompt: bytes.Clone(v.Raw), Answer: json.RawMessage("null")}
	if t == nil {
		return c
	}
	answer := struct {
		Text     string      `json:"text"`
		Thinking string      `json:"thinking,omitempty"`
		Calls    []wire.Call `json:"calls,omitempty"`
		Error    string      `json:"error,omitempty"`
	}{t.Text, t.Thinking, t.Calls, t.ErrorMessage}
	if b, err := json.Marshal(answer); err == nil {
		c.Answer = b
	}
	return c
}
