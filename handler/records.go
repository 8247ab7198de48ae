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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

type records struct {
	of          *shared.Instance
	sink        *app.Sink // nil for no records
	policy      pipeline.Policy
	up          *upstream.Profile
	outcomes    map[string]prometheus.Counter
	conventions *spanConventions // of spans
}

// begin begins the record of a request.
func (o *records) begin(at time.Time, who tenant.User, client string, v *wire.View, tools bool) audit.Record {
	rec := audit.Record{
		ID: audit.NewID(at), At: at, Turns: 1, Kind: audit.KindTurn,
		Tenant: who.Hash, User: who.Name, Groups: who.Groups, Client: client,
		Model: audit.Bounded(v.Model), ClientFormat: string(v.Format), UpstreamFormat: string(o.up.Target(v.Format)),
		Policy: string(o.policy), Stream: v.Reply.Stream,
	}
	rec.BilledModel = o.billed(v.Model)
	// A conversation has tools, a side request has none.
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
func (o *records) refused(r *http.Request, who tenant.User, v *wire.View, session string) {
	rec := o.begin(time.Now(), who, audit.ClientName(first(r.Header, "User-Agent")), v,
		v.OffersTools() || v.InheritsTools())
	rec.Session = session
	rec.Outcome, rec.Status = audit.Failed, http.StatusBadRequest
	rec.Total = time.Since(rec.At)
	app.Count(o.of, &rec, r.Host)
	if s := o.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(&rec)
	}
}

// denied puts a request on record that is refused for a spent budget, or an unknown or forbidden model.
func (o *records) denied(r *http.Request, who tenant.User, v *wire.View, status int) {
	rec := o.begin(time.Now(), who, audit.ClientName(first(r.Header, "User-Agent")), v, true)
	rec.Outcome, rec.Status = audit.Refused, status
	app.Count(o.of, &rec, r.Host)
	if s := o.sink.Pinned(); s != nil {
		defer s.Unpin()
		s.Put(&rec)
	}
}

// internalRequest puts an internal request on record, sent along the route of r.
func (o *site) internalRequest(r *http.Request, rec *audit.Record, u wire.Usage) {
	internal := selfrequest.Of(r)
	who := internal.User
	if who.Hash == "" { // its target has lain on disk
		who = o.userOf(r)
	}
	rec.Tenant, rec.User, rec.Groups, rec.Project = who.Hash, who.Name, who.Groups, internal.Project
	rec.Client = audit.ClientName(r.UserAgent())
	rec.Policy, rec.Billed = string(o.records.policy), tokens(u)
	rec.BilledModel = o.records.billed(rec.Model)
	countTokens(u)
	app.Count(o.store.Instance, rec, r.Host)
	if o.records.sink == nil {
		return
	}
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

// warnOfModel logs, once a day for each model, that its rules or its prices are assumed or not known.
func (x *exchange) warnOfModel() {
	r := &x.record
	assumed.Lock()
	if day := allowance.DayOf(r.At); assumed.models == nil || !day.Equal(assumed.day) {
		assumed.day, assumed.models = day, new(Strangers)
	}
	models := assumed.models
	assumed.Unlock()
	if models.Meet(r.Model, r.AssumedFrom) {
		x.site.up.Log.Warn("model is not in the models file: others stand in for its rules and prices",
			zap.String("model", r.Model), zap.String("assumed_from", r.AssumedFrom), zap.String("charged_as", r.PricesOf),
			zap.Bool("unpriced", r.Unpriced()))
	}
}

// detailed returns the record as it is stored.
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
	// Continuations have records of their own.
	x.setApart(&r)
	if x.sink.Content() {
		r.Content = content(x.View, x.turn)
	}
	return &r
}

func tokens(u wire.Usage) audit.Tokens {
	return audit.Tokens{Uncached: u.Uncached, Write5m: u.Write5m, Write1h: u.Write1h, Read: u.Read, Output: u.Output}
}

func content(v *wire.View, t *wire.Turn) *audit.Content {
	// The memory of the bodies is used again.
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

// How a request ended.
const (
	outcomeCompleted   = "completed"     // the answer came to its proper end
	outcomeFailed      = "failed"        // the upstream answered with an error, or not at all
	outcomeInterrupted = "interrupted"   // the answer was cut, or could not be read
	outcomePassed      = "passed"        // failed open: forwarded untouched
	outcomeNoRoom      = "no_room"       // answered by 503: no room for its body in memory
	outcomeStalled     = "stalled"       // answered by 503: its body stalled while others needed the memory
	outcomeRefused     = "too_large"     // answered by 413
	outcomeBudget      = "budget"        // answered by 429: a budget is spent
	outcomeUnknown     = "unknown_model" // answered by 400: unknown models are refused
	outcomeStranger    = "unknown_user"  // answered by 401: users must be known
	outcomeModel       = "model"         // answered by 403: the user may not use the model
	outcomeUnrecorded  = "unrecorded"    // answered by 503: the audit store or the counters of budgets fail, and on_error is refuse
	outcomeFellBack    = "fell_back"     // the upstream failed, and the fallback has served the request
	outcomeUnretained  = "unretained"    // goes on from an answer at an upstream that keeps none: answered by 400
)

// Why a request or its answer was not read.
const (
	reasonContentType    = "content_type"
	reasonSigned         = "signed"
	reasonEncoding       = "content_encoding"
	reasonDecode         = "decode"
	reasonBomb           = "bomb" // it decodes to far more than was sent
	reasonParse          = "parse"
	reasonSplice         = "splice"
	reasonStore          = "store"
	reasonNoRoom         = "no_room" // for its body in memory
	reasonAnswerEncoding = "answer_encoding"
)

var outcomes = [...]string{
	outcomeCompleted, outcomeFailed, outcomeInterrupted, outcomePassed, outcomeNoRoom, outcomeStalled, outcomeRefused,
	outcomeBudget, outcomeUnknown, outcomeStranger, outcomeModel, outcomeUnrecorded, outcomeUnretained, outcomeFellBack,
}

var interceptedLost = metric.Counter("hidden_turns_lost_total",
	"Requests in which what had been hidden from the client could not be put back, because the client has changed the "+
		"message that it belongs to.")

var boundedUsages = metric.Counter("usage_bounded_total",
	"Answers whose usage was beyond the model's window or the request's bound on the answer. No more than these are "+
		"charged.")

var cutPrompts = metric.Counter("cut_prompts_total",
	"Answers of local servers that count less than half of the prompt that was sent, and no more than of the one "+
		"before: the context length is too low.")

var tellBounded sync.Once

var metrics = struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	edits    *prometheus.CounterVec
	breaks   *prometheus.CounterVec
	misses   *prometheus.CounterVec
	words    prometheus.Counter
	first    prometheus.Histogram
	overhead prometheus.Histogram
}{
	requests: metric.CounterVec("requests_total",
		"Requests to model endpoints, by policy and how they ended.", "policy", "outcome"),
	tokens: metric.CounterOf("tokens_total",
		"Tokens by bucket: uncached, write_5m, write_1h, read and output as upstreams reported them, removed as estimated.",
		"bucket",
		"uncached", "write_5m", "write_1h", "read", "output", "removed"),
	edits: metric.CounterOf("edits_total",
		"Edits in requests sent, those repeated from earlier requests included, by stage.", "stage",
		stage.All[:]...),
	breaks: metric.CounterOf("breaks_total", "Requests for which the upstream's cache held less than expected, by cause.",
		"cause",
		string(pipeline.BreakExpired), string(pipeline.BreakModel), string(pipeline.BreakTools), string(pipeline.BreakSystem),
		string(pipeline.BreakMessages), string(pipeline.BreakServerEdit), string(pipeline.BreakEdit),
		string(pipeline.BreakUnknown)),
	misses: metric.CounterOf("fold_misses_total",
		"Signs that models have missed folded text: they asked for it (expand), read its file again (reread), or an edit "+
			"did not find its place (edit).", "sign",
		"expand", "reread", "edit"),
	words: metric.Counter("compress_saved_tokens_total",
		"Tokens by which words that were left out have shortened prompts, as estimated."),
	first: metric.Histogram("first_token_seconds",
		"Time from when a request was handed on to the first text, thinking or call of its answer.",
		0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160),
	overhead: metric.Histogram("overhead_seconds",
		"Own time before a request is handed on, without the time its body took to arrive.",
		0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05),
}

// outcomesOf returns the counters of a site's requests, by outcome.
func outcomesOf(p pipeline.Policy) map[string]prometheus.Counter {
	all := make(map[string]prometheus.Counter, len(outcomes))
	// The counter exists before the first request, and is not looked up with each.
	for _, outcome := range outcomes {
		all[outcome] = metrics.requests.WithLabelValues(string(p), outcome)
	}
	return all
}

func (o *records) count(outcome string) { o.outcomes[outcome].Inc() }

// buckets are the counters of tokens, found once.
var buckets = struct{ uncached, write5m, write1h, read, output, removed prometheus.Counter }{
	uncached: metrics.tokens.WithLabelValues("uncached"),
	write5m:  metrics.tokens.WithLabelValues("write_5m"),
	write1h:  metrics.tokens.WithLabelValues("write_1h"),
	read:     metrics.tokens.WithLabelValues("read"),
	output:   metrics.tokens.WithLabelValues("output"),
	removed:  metrics.tokens.WithLabelValues("removed"),
}

// signs are the counters of fold misses.
var signs = struct{ expand, reread, edit prometheus.Counter }{
	expand: metrics.misses.WithLabelValues("expand"),
	reread: metrics.misses.WithLabelValues("reread"),
	edit:   metrics.misses.WithLabelValues("edit"),
}

func add[N int | int64](c prometheus.Counter, n N) {
	// Most counters get 0, which costs no atomic operation here.
	if n > 0 {
		c.Add(float64(n))
	}
}

// countTurn counts cache breaks, fold misses, the savings of edits, and the cost of the response.
func (x *exchange) countTurn() {
	if cause := x.Edit.Lesson.Break; cause != pipeline.NoBreak {
		metrics.breaks.WithLabelValues(string(cause)).Inc()
	}
	if g := &x.Edit.Lesson.Misses; x.Edit.Policy != pipeline.Observe {
		add(signs.expand, int(g.Expanded))
		add(signs.reread, int(g.Reread))
		add(signs.edit, int(g.Failed))
	}
	if x.Edit.Prompt.Edited {
		add(metrics.words, x.Edit.Prompt.Compressed.Tokens)
		add(buckets.removed, x.saved())
	}
	if t := x.turn; t != nil {
		if d := t.Timing.FirstToken; d > 0 {
			metrics.first.Observe(d.Seconds())
		}
		countTokens(t.Usage)
	}
}

// countTokens counts the usage that an upstream has reported, also for internal requests.
func countTokens(u wire.Usage) {
	if !u.Reported {
		return
	}
	add(buckets.uncached, u.Uncached)
	add(buckets.write5m, u.Write5m)
	add(buckets.write1h, u.Write1h)
	add(buckets.read, u.Read)
	add(buckets.output, u.Output)
}
