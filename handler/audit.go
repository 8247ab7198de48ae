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

// account is the record of a turn on its way to the audit store.
type account struct {
	sink   *app.Sink
	turn   *audit.Turn
	record *audit.Record
}

// open begins the record of a turn, so that the turn is on record even if the process ends first.
func (c *requestState) open(r *http.Request) {
	s := c.site.records.sink.Pinned()
	if s == nil {
		return
	}
	rec := c.site.records.begin(c.books.began, c.asker.person, c.asker.client, c.view, c.ex.OffersTools())
	rec.Session, rec.Lineage, rec.Policy = c.session.ID(), c.ex.Lineage, string(c.ex.Policy)
	rec.OriginalTokens, rec.SentTokens, rec.Queue = int64(c.ex.Prompt.OriginalTokens), int64(c.sent()), c.overhead
	c.books.account = &account{s, s.Begin(rec), rec}
}

// begin begins the record of a request: caller, model and kind. A conversation has tools, a side
// request has none.
func (o *records) begin(at time.Time, who tenant.Person, client string, v *wire.View, tools bool) *audit.Record {
	rec := &audit.Record{
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
	app.Count(o.of, rec, r.Host)
	if s := o.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(rec)
	}
}

// spent puts a request on record that a spent budget has refused.
func (o *records) spent(r *http.Request, who tenant.Person, v *wire.View, status int) {
	rec := o.begin(time.Now(), who, audit.ClientName(first(r.Header, "User-Agent")), v, true)
	rec.Outcome, rec.Status = audit.Refused, status
	app.Count(o.of, rec, r.Host)
	if s := o.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(rec)
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

// count counts a turn that is over, on record or not.
func (c *requestState) count(outcome string) {
	b := c.ex.Bill(c.ending.turn)
	r := audit.Record{
		At: c.books.began, Turns: 1, Kind: audit.KindTurn, Tenant: c.asker.person.Hash, User: c.asker.person.Name, Session: c.session.ID(), Client: c.asker.client,
		Model: audit.Bounded(c.view.Model), Policy: string(c.ex.Policy), Outcome: outcome, OriginalTokens: int64(c.ex.Prompt.OriginalTokens), SentTokens: int64(c.sent()),
		Billed: tokens(b.Actual), ClientBilled: tokens(b.Client), Cost: b.Cost, ClientCost: b.ClientCost, USD: b.Dollars, ClientUSD: b.ClientDollars,
		WouldSave: b.WouldSave, WouldSaveUSD: b.WouldSaveDollars, Folded: int64(c.ex.Decision.Folded), Regret: int64(c.ex.Lesson.Regret.Sum()),
		BilledModel: c.site.records.billed(c.view.Model), Translation: b.Translation, TranslationUSD: b.TranslationDollars,
	}
	rules := c.ex.Rules()
	r.AssumedFrom, r.PricesOf = rules.AssumedFrom, rules.PricesOf
	if c.ending.estimated {
		r.ReadEstimated = r.Billed.Read
	}
	if c.ex.Estimated() {
		r.Estimated = 1
	}
	c.warnOfModel(&r)
	l := &c.books.logged
	l.settled, l.outcome, l.saved = true, outcome, int64(c.saved())
	l.prompt, l.cached, l.output, l.cachedGuessed = r.Billed.Prompt(), r.Billed.Read, r.Billed.Output, c.ending.estimated
	l.priced, l.cost, l.own = b.ClientDollars > 0, b.Dollars, b.ClientDollars
	app.Count(c.site.store.Instance, &r, c.asker.host)
	c.site.records.sink.Spend(&r)
}

// assumed are the models of which the log has told today that others stand in for them.
var assumed struct {
	sync.Mutex
	day    time.Time
	models *Strangers
}

// warnOfModel logs, once a day for each model, that its rules or its prices are not known.
func (c *requestState) warnOfModel(r *audit.Record) {
	if r.AssumedFrom == "" && r.PricesOf == "" && !r.Unpriced() {
		return
	}
	if c.site.up.Local() {
		return // a local server costs nothing
	}
	assumed.Lock()
	if day := allowance.DayOf(r.At); assumed.models == nil || !day.Equal(assumed.day) {
		assumed.day, assumed.models = day, new(Strangers)
	}
	models := assumed.models
	assumed.Unlock()
	if models.Meet(r.Model, r.AssumedFrom) {
		c.site.up.Log.Warn("model is not in the models file: others stand in for its rules and prices",
			zap.String("model", r.Model), zap.String("assumed_from", r.AssumedFrom), zap.String("charged_as", r.PricesOf), zap.Bool("unpriced", r.Unpriced()))
	}
}

// close puts a turn on record, once.
func (a *account) close(c *requestState, outcome string, status int) {
	if a == nil || a.sink == nil {
		return
	}
	defer a.sink.Unpin()
	defer func() { a.sink = nil }()
	r := a.record
	r.Outcome, r.Status, r.Resent = outcome, status, c.ending.resent
	r.Total = time.Since(r.At)
	x := c.ex
	r.Lineage, r.SentTokens = x.Lineage, int64(c.sent())
	if len(x.Prompt.Fired) > 0 {
		r.Edits = make([]audit.Edits, len(x.Prompt.Fired))
		for i, f := range x.Prompt.Fired {
			r.Edits[i] = audit.Edits{Stage: f.Stage, Count: f.Count, Tokens: f.Tokens}
			if f.Stage == stage.Compress {
				r.Edits[i].Tokens, r.Edits[i].Millis = x.Prompt.Compressed.Tokens, x.Prompt.Compressed.Took.Milliseconds()
			}
		}
	}
	d := &x.Decision
	r.Epoch, r.Reason = string(d.Epoch), d.Reason
	r.Folded, r.Removed, r.Rewritten = int64(d.Folded), int64(d.Removed), int64(d.Rewritten)
	r.Break, r.Regret = string(x.Lesson.Break), int64(x.Lesson.Regret.Sum())
	b := x.Bill(c.ending.turn)
	r.Billed, r.ClientBilled = tokens(b.Actual), tokens(b.Client)
	r.Cost, r.ClientCost, r.USD, r.ClientUSD = b.Cost, b.ClientCost, b.Dollars, b.ClientDollars
	rules := x.Rules()
	r.WouldSave, r.WouldSaveUSD, r.AssumedFrom, r.PricesOf = b.WouldSave, b.WouldSaveDollars, rules.AssumedFrom, rules.PricesOf
	r.Translation, r.TranslationUSD, r.Bounded = b.Translation, b.TranslationDollars, c.ending.bounded
	if t := c.ending.turn; t != nil {
		r.Service = x.Service(t).String()
	}
	a.apart(c)
	if c.ending.estimated {
		r.ReadEstimated = r.Billed.Read
	}
	if c.ex.Estimated() {
		r.Estimated = 1
	}
	if t := c.ending.turn; t != nil {
		r.StopReason = t.StopReason
		r.FirstByte, r.FirstToken, r.LastToken = t.Timing.FirstByte, t.Timing.FirstToken, t.Timing.LastToken
	}
	if a.sink.Content() {
		r.Content = content(c.view, c.ending.turn)
	}
	a.sink.End(a.turn, r)
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
