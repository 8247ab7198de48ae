// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// outcome is the result of a request. Its values are computed once: by open before the request is sent,
// and by report when its turn has ended.
type outcome struct {
	record audit.Record    // for page, metrics, budgets, access log, span and audit store
	sink   *app.Sink       // of the audit store, nil without one
	begun  *audit.OpenTurn // the turn in that store

	turn      *wire.Turn // the answer, set by settle; nil if there is none
	status    int        // of the answer, 0 if none came
	settled   bool
	joined    bool // the request is part of its conversation
	untold    bool // other processes do not know of it yet
	resent    bool
	bounded   bool         // the usage was more than there can be
	estimated bool         // the usage's cached tokens are our estimate
	trailers  bool         // the client takes trailers
	tellAll   bool         // in headers of their own
	common    float64      // share of the prompt that the upstream has seen before
	service   wire.Service // as the upstream has said, where its answer was translated
	single    [1]string    // the one header, unless all values are told
}

// The response headers that other code names, in canonical form.
const (
	headerBrief     = "X-Llm-Cache" // the main values in one structured field (RFC 9651), like Cache-Status (RFC 9211)
	headerSession   = "X-Llm-Cache-Session"
	headerPolicy    = "X-Llm-Cache-Policy"
	headerCached    = "X-Llm-Cache-Cached-Tokens"
	headerEstimated = "X-Llm-Cache-Cached-Tokens-Estimated" // beside it, if the upstream did not report them
	headerGuess     = "X-Llm-Cache-Input-Tokens-Estimated"  // of a count of tokens that is ours
)

// headerMode is the request header by which a client asks for all values.
const headerMode = "X-Llm-Cache-Headers"

// HeaderMode is the set of headers about a request in its answer.
type HeaderMode string

// The modes.
const (
	// HeadersCompact puts the main values into one header.
	HeadersCompact HeaderMode = "compact"
	// HeadersFull has a header for each value.
	HeadersFull HeaderMode = "full"
	// HeadersOff has none.
	HeadersOff HeaderMode = "off"
)

// values lists everything that clients and operators are told about a request, and where: in a header of
// its own, as a parameter of X-Llm-Cache behind the policy, as the placeholder {http.llm_cache.NAME}, in
// the access log, and in the span of the request. A value that is not known, or not yet, is left out.
// Metrics, the page and the audit store take theirs from the record.
//
// Placeholders and access log ask for a value as late as after the request. A function may read the
// exchange, its record, and the results in x.Edit, which outlive [pipeline.Transaction.Close]. It must not
// read x.View or bodies: their memory then belongs to other requests.
var values = [...]struct {
	header      string
	parameter   string
	placeholder string
	log         string
	span        attribute.Key
	of          func(x *exchange) value
}{
	{
		header: headerSession, parameter: "session", placeholder: "session", log: "llm_session",
		of: func(x *exchange) value { return text(x.Session) },
	},
	{header: headerPolicy, placeholder: "policy", of: func(x *exchange) value { return word(string(x.Edit.Policy)) }},
	{
		header: "X-Llm-Cache-Holdout", parameter: "holdout", log: "llm_holdout", span: "llm_cache.holdout",
		of: func(x *exchange) value { return flag(x.Edit.Holdout()) },
	},
	{log: "llm_user", of: func(x *exchange) value { return text(x.user.Name) }},
	{log: "llm_project", of: func(x *exchange) value { return text(x.record.Project) }},
	{log: "llm_model", of: func(x *exchange) value { return text(x.record.Model) }},
	{header: "X-Llm-Cache-Model", parameter: "model", of: func(x *exchange) value { return text(x.record.BilledModel) }},
	{header: "X-Llm-Cache-Assumed-From", of: func(x *exchange) value { return text(x.Edit.Rules().AssumedFrom) }},

	// The prompt.
	{
		header: "X-Llm-Cache-Original-Tokens", placeholder: "original_tokens", span: "llm_cache.tokens.original",
		of: func(x *exchange) value { return number(x.Edit.Prompt.OriginalTokens) },
	},
	{
		header: "X-Llm-Cache-Sent-Tokens", parameter: "tokens", placeholder: "sent_tokens", span: "llm_cache.tokens.sent",
		of: func(x *exchange) value { return number(x.sent()) },
	},
	{
		header: "X-Llm-Cache-Saved-Tokens", parameter: "saved", placeholder: "saved_tokens",
		of: func(x *exchange) value { return number(x.saved()) },
	},
	{
		header: "X-Llm-Cache-Reduction-Pct", placeholder: "reduction_pct",
		of: func(x *exchange) value { return text(x.reduction()) },
	},
	{
		header: "X-Llm-Cache-Transforms", placeholder: "transforms", span: "llm_cache.stages",
		of: func(x *exchange) value { return text(x.transforms()) },
	},
	{
		header: "X-Llm-Cache-Compressed", placeholder: "compressed",
		of: func(x *exchange) value { return text(x.compressed()) },
	},
	{header: "X-Llm-Cache-Decision", placeholder: "decision", span: "llm_cache.decision", of: decision},
	{
		header: "X-Llm-Cache-Overhead-Us", placeholder: "overhead_us",
		of: func(x *exchange) value { return number(x.overhead.Microseconds()) },
	},
	{span: "llm_cache.overhead", of: func(x *exchange) value { return seconds(x.overhead) }},

	// The answer. Its usage is known in time for a header in answers in one piece only.
	{header: headerCached, parameter: "read", placeholder: "cached_tokens", of: cached},
	{
		header: headerEstimated, parameter: "estimated", log: "llm_cached_estimated",
		of: func(x *exchange) value { return flag(x.estimated) },
	},
	{parameter: "epoch", of: func(x *exchange) value { return word(string(x.Edit.Decision.Epoch)) }},
	{header: "X-Llm-Cache-Fallback", parameter: "fallback", log: "llm_fallback", of: func(x *exchange) value {
		return word(x.record.Fallback)
	}},
	{parameter: "resent", of: func(x *exchange) value { return flag(x.resent) }},
	{span: "http.response.status_code", of: func(x *exchange) value { return number(x.status).unless(x.status == 0) }},
	{span: "llm_cache.break", of: func(x *exchange) value { return text(string(x.Edit.Lesson.Break)) }},
	{span: "llm_cache.wait", of: answer(func(t *wire.Turn) value { return seconds(t.Timing.Queue) })},
	{span: "gen_ai.response.id", of: answer(func(t *wire.Turn) value { return text(t.ID) })},
	{span: "gen_ai.response.model", of: answer(func(t *wire.Turn) value { return text(t.Model) })},
	{
		span: "gen_ai.response.time_to_first_chunk",
		of:   answer(func(t *wire.Turn) value { return seconds(t.Timing.FirstToken).unless(t.Timing.FirstToken == 0) }),
	},
	// those of the cache included
	{span: "gen_ai.usage.input_tokens", of: usage(func(u *wire.Usage) int64 { return u.Prompt() })},
	{span: "gen_ai.usage.output_tokens", of: usage(func(u *wire.Usage) int64 { return u.Output })},
	{span: "gen_ai.usage.cache_read.input_tokens", of: cached},

	// The turn that has ended.
	{log: "llm_outcome", of: func(x *exchange) value { return word(x.record.Outcome) }},
	{log: "llm_prompt_tokens", of: ended(func(r *audit.Record) value { return number(r.Billed.Prompt()) })},
	{log: "llm_cached_tokens", of: ended(func(r *audit.Record) value { return number(r.Billed.Read) })},
	{log: "llm_output_tokens", of: ended(func(r *audit.Record) value { return number(r.Billed.Output) })},
	{log: "llm_saved_tokens", of: ended(func(r *audit.Record) value { return number(r.OriginalTokens - r.SentTokens) })},
	// A model without a price has no cost, which is not a cost of 0.
	{
		log: "llm_cost_usd", span: "llm_cache.cost.usd",
		of: ended(func(r *audit.Record) value { return dollars(r.USD).unless(r.ClientUSD == 0) }),
	},
	{
		log: "llm_saved_usd",
		of:  ended(func(r *audit.Record) value { return dollars(r.ClientUSD - r.USD).unless(r.ClientUSD == 0) }),
	},
	{
		span: "llm_cache.cost.client_usd",
		of:   ended(func(r *audit.Record) value { return dollars(r.ClientUSD).unless(r.ClientUSD == 0) }),
	},
}

// sent estimates the tokens sent upstream: the original's after a resend.
func (x *exchange) sent() int {
	if x.resent {
		return x.Edit.Prompt.OriginalTokens
	}
	return x.Edit.Prompt.SentTokens
}

func (x *exchange) saved() int { return x.Edit.Prompt.OriginalTokens - x.sent() }

func (x *exchange) reduction() string {
	if x.Edit.Prompt.OriginalTokens <= 0 {
		return "0.0"
	}
	return strconv.FormatFloat(100*float64(x.saved())/float64(x.Edit.Prompt.OriginalTokens), 'f', 1, 64)
}

// transforms lists the stages that have edited the prompt, with the number of their edits.
func (x *exchange) transforms() string {
	if x.resent {
		return "none;resent"
	}
	if len(x.Edit.Prompt.Fired) == 0 {
		return "none"
	}
	var b strings.Builder
	for i, f := range x.Edit.Prompt.Fired {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Stage)
		b.WriteString(";n=")
		b.WriteString(strconv.Itoa(f.Count))
	}
	return b.String()
}

// compressed summarises the words left out of the prompt.
func (x *exchange) compressed() string {
	c := &x.Edit.Prompt.Compressed
	if c.Texts == 0 || x.resent {
		return ""
	}
	return "texts=" + strconv.Itoa(c.Texts) + "; saved_tokens=" + strconv.Itoa(c.Tokens) + "; ms=" +
		strconv.FormatInt(c.Took.Milliseconds(), 10)
}

func decision(x *exchange) value {
	if x.Edit.Decision.Epoch == "" {
		return value{}
	}
	return text(x.Edit.Decision.String())
}

// cached is the number of tokens that the upstream reports to have read from its cache.
func cached(x *exchange) value {
	if x.turn == nil || !x.turn.Usage.Reported {
		return value{}
	}
	return number(x.turn.Usage.Read)
}

func answer(of func(*wire.Turn) value) func(x *exchange) value {
	return func(x *exchange) value {
		if x.turn == nil {
			return value{}
		}
		return of(x.turn)
	}
}

func usage(of func(*wire.Usage) int64) func(x *exchange) value {
	return func(x *exchange) value {
		if x.turn == nil || !x.turn.Usage.Reported {
			return value{}
		}
		return number(of(&x.turn.Usage))
	}
}

func ended(of func(*audit.Record) value) func(x *exchange) value {
	return func(x *exchange) value {
		if x.record.Outcome == "" {
			return value{}
		}
		return of(&x.record)
	}
}

// open begins the record of the turn. Its time, client, project and fallback are known since prepare.
func (x *exchange) open() {
	project, fallback := x.record.Project, x.record.Fallback
	x.record = x.site.records.begin(x.record.At, x.user, x.record.Client, x.View, x.Edit.OffersTools())
	r := &x.record
	r.Project, r.Fallback, r.Session, r.Conversation, r.Policy = project, fallback, x.Session, x.Edit.Conversation,
		string(x.Edit.Policy)
	r.Holdout, r.Compaction = x.Edit.Holdout(), x.Edit.Summarizes()
	r.OriginalTokens, r.SentTokens, r.Queue = int64(x.Edit.Prompt.OriginalTokens), int64(x.sent()), x.overhead
	if s := x.site.records.sink; s != nil {
		if x.sink = s.Pinned(); x.sink != nil {
			x.begun = x.sink.Begin(r)
		}
	}
}

// ended reports whether the answer has come to a proper end.
func (e *outcome) ended() bool { return e.turn != nil && e.turn.Done && !e.turn.Failed() }

// report tells how the turn has ended: metrics, page, budgets and audit store. Headers, placeholders,
// access log and span ask for their values later.
func (x *exchange) report(word string) {
	o := x.site
	o.records.count(word)
	x.countTurn()
	o.guard("reporting a turn", func() {
		if x.sink != nil {
			defer x.sink.Unpin()
		}
		x.conclude(word)
		r := &x.record
		if (r.AssumedFrom != "" || r.PricesOf != "" || r.Unpriced()) && !o.up.Local() { // a local server costs nothing
			x.warnOfModel()
		}
		app.Count(o.store.Instance, r, x.host)
		if s := o.records.sink; s != nil {
			s.Spend(r)
		}
		if x.sink != nil {
			x.sink.End(x.begun, x.detailed())
		}
	})
}

// conclude completes the record.
func (x *exchange) conclude(word string) {
	e, r := x.Edit, &x.record
	r.Outcome, r.Status, r.Resent, r.Bounded = word, x.status, x.resent, x.bounded
	r.Conversation, r.SentTokens, r.Total = e.Conversation, int64(x.sent()), time.Since(r.At)
	if word == outcomeFellBack { // the fallback's turn counts the prompt
		r.OriginalTokens, r.SentTokens = 0, 0
	}
	d := &e.Decision
	r.Epoch, r.Reason = string(d.Epoch), d.Reason
	r.Folded, r.Removed, r.Rewritten = int64(d.Folded), int64(d.Removed), int64(d.Rewritten)
	r.Break, r.FoldMisses = string(e.Lesson.Break), int32(e.Lesson.Misses.Sum())
	r.BreakCost, r.Rereads, r.FailedEdits = e.Lesson.BreakCost, e.Lesson.Misses.Reread, e.Lesson.Misses.Failed
	b := e.Bill(x.turn)
	r.Billed, r.ClientBilled = tokens(b.Actual), tokens(b.Client)
	r.Cost, r.ClientCost, r.USD, r.ClientUSD = b.Cost, b.ClientCost, b.Dollars, b.ClientDollars
	r.WouldSave, r.WouldSaveUSD, r.Translation, r.TranslationUSD = b.WouldSave, b.WouldSaveDollars, b.Translation,
		b.TranslationDollars
	if e.Policy == pipeline.Observe {
		r.SimulatedCost = b.Simulated
	}
	rules := e.Rules()
	r.AssumedFrom, r.PricesOf = rules.AssumedFrom, rules.PricesOf
	if x.estimated {
		r.ReadEstimated = r.Billed.Read
	}
	if b.Estimated {
		r.Estimated = 1
	}
	if t := x.turn; t != nil {
		if t.Limits != "" && len(r.Windows) == 0 {
			r.Windows = subscription.ReadEvent(t.Limits, time.Now())
		}
		r.StopReason = t.StopReason
		r.FirstByte, r.FirstToken, r.LastToken = t.Timing.FirstByte, t.Timing.FirstToken, t.Timing.LastToken
	}
}

// stamp writes the headers of the answer, at the moment when it is released.
func (x *exchange) stamp(h http.Header) {
	if x.tap.Status/100 == 2 {
		x.stampCap(h)
	}
	if !x.site.up.Headers {
		return
	}
	delete(h, headerCached) // another llm_cache upstream may have set it
	delete(h, headerEstimated)
	delete(h, headerBrief)
	if x.Edit.Prompt.Err != nil {
		h[headerBypass] = []string{reasonSplice}
	}
	if x.tellAll {
		all := make([]string, 0, len(values))
		for i := range values {
			if name := values[i].header; name != "" {
				if v := values[i].of(x); v.known() {
					all = append(all, v.String())
					h[name] = all[len(all)-1 : len(all) : len(all)]
				}
			}
		}
	} else {
		x.single[0] = x.brief()
		h[headerBrief] = x.single[:]
	}
	if x.trailers && x.hasTrailer() && !cached(x).known() {
		h.Add("Trailer", headerCached)
	}
}

// stampEarly writes the headers that are known before the answer.
func (x *exchange) stampEarly(h http.Header) {
	x.stampCap(h)
	switch {
	case !x.site.up.Headers:
	case x.tellAll:
		h[headerSession], h[headerPolicy] = []string{x.Session}, []string{string(x.Edit.Policy)}
	default:
		h[headerBrief] = []string{x.brief()}
	}
}

// brief is the value of the one header.
func (x *exchange) brief() string {
	var few [160]byte
	b := append(few[:0], x.Edit.Policy...)
	for i := range values {
		if name := values[i].parameter; name != "" {
			b = values[i].of(x).appendParameter(b, name)
		}
	}
	return string(b)
}

// hasTrailer reports whether the answer to a client that takes trailers carries some, for values known at
// its end only.
func (x *exchange) hasTrailer() bool {
	return x.tap.dec != nil && len(x.tap.Header()["Content-Length"]) == 0
}

// stampTrailer writes the trailer that stamp announced.
func (x *exchange) stampTrailer() {
	if !x.site.up.Headers || !x.hasTrailer() {
		return
	}
	h := x.tap.ResponseWriter.Header()
	if !slices.Contains(h["Trailer"], headerCached) { // it was a header
		return
	}
	if v := cached(x); v.known() {
		h[headerCached] = []string{v.String()}
		if x.estimated {
			h[http.TrailerPrefix+headerEstimated] = []string{"1"}
		}
	}
}

// placeholder resolves {http.llm_cache.*}.
func (x *exchange) placeholder(key string) (any, bool) {
	name, ok := strings.CutPrefix(key, "http.llm_cache.")
	if !ok || name == "" {
		return nil, false
	}
	for i := range values {
		if values[i].placeholder == name {
			return values[i].of(x).any(), true
		}
	}
	return nil, false
}

// MarshalLogObject implements [zapcore.ObjectMarshaler]: caller, tokens and cost, never content. It is
// called when the line of the access log is written, after the answer.
func (x *exchange) MarshalLogObject(e zapcore.ObjectEncoder) error {
	for i := range values {
		if name := values[i].log; name != "" {
			values[i].of(x).log(e, name)
		}
	}
	return nil
}

// endSpan ends the span with figures of the answer, never with content.
func (x *exchange) endSpan(ctx context.Context) {
	s := x.span
	defer s.Span.End()
	attributes := make([]attribute.KeyValue, 0, 24)
	for i := range values {
		if key := values[i].span; key != "" {
			if v := values[i].of(x); v.known() {
				attributes = append(attributes, v.attribute(key))
			}
		}
	}
	attributes = append(attributes, server(ctx)...)
	reason := ""
	if t := x.turn; t != nil {
		reason = t.StopReason
		if t.Usage.Reported {
			attributes = append(attributes, s.names.cacheWrite.Int64(t.Usage.Write5m+t.Usage.Write1h))
		}
	}
	if x.record.Outcome == audit.Interrupted {
		reason = "error" // as the conventions have it, also after a stop reason
	}
	if reason != "" {
		attributes = append(attributes, attribute.StringSlice("gen_ai.response.finish_reasons", []string{reason}))
	}
	if what := x.failure(); what != "" {
		attributes = append(attributes, attribute.String("error.type", what))
		s.SetStatus(codes.Error, "")
	}
	s.SetAttributes(attributes...)
}

// failure names the error of a request, "" for none: the provider's word, the status, or the outcome.
func (x *exchange) failure() string {
	switch {
	case x.record.Outcome == audit.Completed:
		return ""
	case x.turn != nil && x.turn.ErrorType != "":
		return x.turn.ErrorType
	case x.status >= http.StatusBadRequest:
		return strconv.Itoa(x.status)
	case x.record.Outcome == "":
		return "_OTHER"
	}
	return x.record.Outcome
}

// value is a text, a number or a flag about a request. The zero value is one that is not known. It is no
// interface, which would allocate.
type value struct {
	kind valueKind
	text string
	n    int64
	f    float64
}

type valueKind uint8

const (
	isUnknown valueKind = iota
	isText
	isWord // a text that is a token in headers
	isNumber
	isFraction
	isFlag
)

// text returns the value of a text, unknown if it is empty.
func text(s string) value { return value{kind: isText, text: s}.unless(s == "") }

// word returns the value of a token, unknown if it is empty.
func word(s string) value { return value{kind: isWord, text: s}.unless(s == "") }

func number[N int | int64](n N) value { return value{kind: isNumber, n: int64(n)} }

func seconds(d time.Duration) value { return value{kind: isFraction, f: d.Seconds()} }

func dollars(usd float64) value { return value{kind: isFraction, f: usd} }

// flag returns a flag that is set, or an unknown value.
func flag(set bool) value { return value{kind: isFlag}.unless(!set) }

// unless returns the value, or an unknown one.
func (v value) unless(unknown bool) value {
	if unknown {
		return value{}
	}
	return v
}

func (v value) known() bool { return v.kind != isUnknown }

// String returns the value as a header has it.
func (v value) String() string {
	switch v.kind {
	case isNumber:
		return strconv.FormatInt(v.n, 10)
	case isFraction:
		return strconv.FormatFloat(v.f, 'f', -1, 64)
	case isFlag:
		return "1"
	}
	return v.text
}

// appendParameter appends the value as a parameter of a structured field. A text that cannot stand in one
// is left out.
func (v value) appendParameter(b []byte, name string) []byte {
	if !v.known() || v.kind == isText && strings.ContainsFunc(v.text,
		func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return b
	}
	b = append(append(b, "; "...), name...)
	switch v.kind {
	case isFlag:
		return b
	case isText:
		return append(append(append(b, `="`...), v.text...), '"')
	case isNumber:
		return strconv.AppendInt(append(b, '='), v.n, 10)
	}
	return append(append(b, '='), v.String()...)
}

// any returns the value of a placeholder, an empty text for an unknown one.
func (v value) any() any {
	switch v.kind {
	case isNumber:
		return v.n
	case isFraction:
		return v.f
	case isFlag:
		return true
	}
	return v.text
}

// log adds the value to a line of the access log.
func (v value) log(e zapcore.ObjectEncoder, name string) {
	switch v.kind {
	case isUnknown:
	case isNumber:
		e.AddInt64(name, v.n)
	case isFraction:
		e.AddFloat64(name, v.f)
	case isFlag:
		e.AddBool(name, true)
	default:
		e.AddString(name, v.text)
	}
}

// attribute returns the value as an attribute of a span.
func (v value) attribute(key attribute.Key) attribute.KeyValue {
	switch v.kind {
	case isNumber:
		return key.Int64(v.n)
	case isFraction:
		return key.Float64(v.f)
	case isFlag:
		return key.Bool(true)
	}
	return key.String(v.text)
}
