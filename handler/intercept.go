// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Intercept answers a model's internal tool calls on the way to the client, and merges all answers
// of the turn into one message.

// maxContinuations bounds the continuations in one turn after intercepted calls.
const maxContinuations = 3

// interceptedTap is the request's handler as the interceptor needs it.
type interceptedTap interface {
	// Follow returns a sink for the parsed events of a stream, so that the tap need not parse the bytes again. It
	// returns nil without a decoder. It is called after the stream's header was written.
	Follow() wire.Sink
	// Pass runs the next handlers with the response writer w. If they panic, it calls
	// the interceptor's Spill.
	Pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error
	// Abort cuts a response that cannot be completed, by a panic.
	Abort(err error)
	// Recall finds the text of a folded block that the client has dropped.
	Recall(name string) (string, bool)
	// GoesOn records a continuation, with a summary of the requested texts.
	GoesOn(what string)
}

// interceptWriter stands between the upstream's responses and the tap, in conversations with the expand
// tool, or with our stubs or notes in their prompt. It withholds calls of that tool and calls that
// contain a stub or a note. It merges all answers to a request into one message, so that tap and
// client see only that message.
type interceptWriter struct {
	httpx.Answer // with a header of its own, except for the first response
	tap          interceptedTap
	calls        *pipeline.Answerer
	format       wire.Format
	log          *zap.Logger
	rewrite      *intercept.Interceptor
	first        int // status of the first response
	stream       bool
	whole        bool // the response is buffered: JSON
	begun        bool // the stream's first significant byte has arrived
	posed        bool // JSON declared as a stream; the client has its header
	body         []byte
	further      bool // not the first response
	failed       bool // a further response is an error
}

func newInterceptWriter(
	w http.ResponseWriter, tap interceptedTap, calls *pipeline.Answerer, format wire.Format, log *zap.Logger,
) *interceptWriter {
	r := &interceptWriter{tap: tap, calls: calls, format: format, log: log}
	r.Answer = httpx.NewAnswer(w, r)
	r.rewrite = intercept.NewInterceptor(format, options(calls))
	return r
}

// WriteHeader implements [http.ResponseWriter]. It drops informational statuses of further responses.
func (r *interceptWriter) WriteHeader(status int) {
	if status >= http.StatusOK || !r.further {
		r.Answer.WriteHeader(status)
	}
}

// Begin implements [httpx.Receiver].
func (r *interceptWriter) Begin(status int) {
	if !r.further {
		r.first = status
	}
	h := r.Header()
	kind := httpx.MediaType(h.Get("Content-Type"))
	ok := status/100 == 2 && httpx.Coding(h) == ""
	switch {
	case r.further:
		r.failed = !ok || (r.stream || r.posed) != httpx.IsStream(kind)
		r.body = nil
	case ok && httpx.IsStream(kind):
		r.stream = true
		delete(h, "Content-Length")
		r.ResponseWriter.WriteHeader(status)
		r.rewrite.Follow(r.tap.Follow())
	case ok && httpx.IsJSON(kind):
		r.whole = true // its length may change, so the header waits
	default:
		r.ResponseWriter.WriteHeader(status)
	}
}

// Buffering implements [httpx.Receiver].
func (r *interceptWriter) Buffering() bool { return r.whole }

// Take implements [httpx.Receiver].
func (r *interceptWriter) Take(p []byte) (int, error) {
	if r.stream && !r.begun {
		if r.begun = httpx.Begins(p); httpx.IsDocument(p) {
			r.stream, r.whole, r.posed = false, true, true
		}
	}
	switch {
	case r.failed, r.whole:
		if r.failed && len(r.body)+len(p) > httpx.MaxError {
			return len(p), nil
		}
		r.body = append(r.body, p...)
		if len(r.body) > httpx.MaxAnswer {
			return len(p), r.giveUp()
		}
		return len(p), nil
	case !r.stream:
		return r.ResponseWriter.Write(p)
	}
	out, ok := r.feed(p)
	if !ok {
		out = p
	}
	if len(out) == 0 {
		return len(p), nil
	}
	switch {
	case r.rewrite.Ended():
		r.say()
	case r.rewrite.Failed():
		r.copied()
	}
	if _, err := r.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (r *interceptWriter) copied() {
	// The tap has not seen the error yet that ends the stream. Later output of the upstream is dropped.
	before := len(r.calls.Expansions)
	r.calls.Copied()
	count(r.calls.Expansions[before:])
}

func (r *interceptWriter) feed(p []byte) (out []byte, ok bool) {
	defer func() {
		// A panic ends the rewriting, not the response.
		if e := recover(); e != nil {
			httpx.Recovered(r.log, "rewriting an answer", e)
			r.stream, ok = false, false
		}
	}()
	return r.rewrite.Feed(p), true
}

// giveUp forwards a response that is too long to buffer.
func (r *interceptWriter) giveUp() error {
	body := r.body
	r.whole, r.body = false, nil
	r.ResponseWriter.WriteHeader(r.first)
	_, err := r.ResponseWriter.Write(body)
	return err
}

func (r *interceptWriter) say() {
	httpx.Guard(r.log, "noting what was hidden", func() {
		it := r.rewrite.Iteration()
		for _, p := range it.Intercepted() {
			if p.Result == "" && it.Complete() {
				r.answer(p)
			}
		}
		r.calls.Say(r.rewrite.Iterations())
	})
}

// Plain reports whether nothing was withheld from the client so far.
func (r *interceptWriter) Plain() bool { return r.rewrite.Plain() }

// Answers returns the answers so far that form the client's message.
func (r *interceptWriter) Answers() []intercept.Iteration { return r.rewrite.Iterations() }

func (r *interceptWriter) answer(p *intercept.Part) {
	before := len(r.calls.Expansions)
	r.calls.Answer(p, r.tap.Recall)
	count(r.calls.Expansions[before:])
}

// Serve forwards a request. As long as an answer contains only intercepted calls, the upstream is
// asked to continue, and the client gets one message.
func (r *interceptWriter) Serve(request *http.Request, next caddyhttp.Handler) error {
	// The next handlers may change the request, and a continuation needs the original.
	again := request.Clone(request.Context())
	if err := r.tap.Pass(r, request, next); err != nil {
		// The header has no length any more, so only an abort shows the client that the response is cut.
		if r.stream || r.posed {
			r.tap.Abort(err)
		}
		return err
	}
	carried := 0
	for n := 0; ; n++ {
		if r.whole && !r.failed {
			body := r.body
			out, done := r.rewriteWhole(body)
			if done {
				return r.finishWhole(out)
			}
		}
		if r.stream {
			if err := r.finishStream(); err != nil {
				return err
			}
		}
		if !r.rewrite.Asks() {
			return nil
		}
		// The continuation needs a result for each intercepted call.
		for _, p := range r.rewrite.Iteration().Intercepted() {
			r.answer(p)
		}
		if n == maxContinuations {
			continuations.WithLabelValues(continuationLimit).Inc()
			return r.close()
		}
		r.tap.GoesOn(summarize(r.calls.Expansions[carried:]))
		carried = len(r.calls.Expansions)
		switch err := r.goOn(again, next); {
		case err != nil && r.rewrite.Ended():
			return err
		case err != nil || r.failed:
			return r.fail(err)
		}
	}
}

func options(calls *pipeline.Answerer) intercept.Options {
	o := intercept.Options{Intercepts: calls.CallsExpand, LastUsage: calls.LastUsage()}
	if calls.Marked() {
		o.Watch, o.Marks, o.Whole = calls.Writes, calls.Marks, calls.Whole()
	}
	return o
}

var errContinuation = errors.New("continuing an answer")

func (r *interceptWriter) goOn(original *http.Request, next caddyhttp.Handler) error {
	body, err := r.calls.Continue(r.rewrite.Iterations())
	if err != nil {
		return fmt.Errorf("%w: %w", errContinuation, err)
	}
	request := httpx.Isolate(original, r)
	httpx.SetLength(request, len(body))
	httpx.SetBody(request, body)
	r.rewrite.Next()
	r.further, r.Separate, r.Status, r.body = true, http.Header{}, 0, nil
	answered := false
	defer func() {
		// A client may leave as soon as it has the end of the answer.
		if answered || r.rewrite.Ended() {
			continuations.WithLabelValues(continuationAnswered).Inc()
		}
	}()
	if err := r.tap.Pass(r, request, next); err != nil {
		return err
	}
	answered = true
	return nil
}

func (r *interceptWriter) rewriteWhole(body []byte) (out []byte, done bool) {
	out, done = body, true
	httpx.Guard(r.log, "rewriting an answer", func() { out, done = r.rewrite.Whole(body) })
	return out, done
}

func (r *interceptWriter) finishWhole(out []byte) error {
	if r.rewrite.Ended() {
		r.say()
	}
	r.whole = false
	r.Separate, r.Status = nil, r.first
	return r.SendWhole(out)
}

// finishStream sends the last event of a stream without a final blank line.
func (r *interceptWriter) finishStream() error {
	var out []byte
	ended := r.rewrite.Ended()
	httpx.Guard(r.log, "rewriting the end of an answer", func() { out = r.rewrite.End() })
	switch {
	case r.rewrite.Ended() && !ended:
		r.say()
	case r.rewrite.Failed() && len(out) > 0:
		r.copied()
	}
	if len(out) == 0 {
		return nil
	}
	if _, err := r.ResponseWriter.Write(out); err != nil {
		return err
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// close ends the client's message after too many continuations.
func (r *interceptWriter) close() error {
	if r.whole {
		out := r.rewrite.CloseWhole()
		return r.finishWhole(out)
	}
	out := r.rewrite.Close()
	r.say()
	if _, err := r.ResponseWriter.Write(out); err != nil {
		return err
	}
	return http.NewResponseController(r.ResponseWriter).Flush()
}

// fail reports a failed continuation to the client.
func (r *interceptWriter) fail(err error) error {
	continuations.WithLabelValues(continuationFailed).Inc()
	if r.posed { // the client has a header
		r.tap.Abort(errors.Join(errContinuation, err))
	}
	if !r.stream {
		if err != nil {
			return err
		}
		// The client has nothing yet: it gets the upstream's own response.
		h := r.ResponseWriter.Header()
		for _, name := range []string{"Content-Type", "Content-Encoding", "Retry-After"} {
			if v := r.Separate[name]; v != nil {
				h[name] = v
			}
		}
		h["Content-Length"] = []string{strconv.Itoa(len(r.body))}
		r.ResponseWriter.WriteHeader(r.Status)
		_, err = r.ResponseWriter.Write(r.body)
		return err
	}
	// The client has a part of the stream, in which the error is an event.
	out := r.failure(err)
	if _, e := r.ResponseWriter.Write(out); e != nil {
		return e
	}
	if e := http.NewResponseController(r.ResponseWriter).Flush(); e != nil {
		return e
	}
	if err == nil {
		return nil
	}
	// The error event in the stream replaces an error route.
	if _, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return nil
	}
	return err
}

// Spill forwards the buffered part of a response that is cut. If the client waits for a
// continuation, Spill sends an error event instead.
func (r *interceptWriter) Spill() {
	switch {
	case r.whole && !r.further:
		r.whole = false
		r.ResponseWriter.WriteHeader(r.Status)
		_, _ = r.ResponseWriter.Write(r.body)
	case r.stream && r.further:
		_, _ = r.ResponseWriter.Write(r.failure(nil))
	case r.stream:
		if rest := r.rewrite.Rest(); len(rest) > 0 {
			_, _ = r.ResponseWriter.Write(rest)
		}
	}
}

// failure returns the error event for a failed continuation.
func (r *interceptWriter) failure(err error) []byte {
	// Clients retry upon this error. It stands unless the upstream gives a reason.
	kind, text := "overloaded_error", "The upstream did not go on with its answer."
	switch {
	case err != nil:
		if he, ok := errors.AsType[caddyhttp.HandlerError](err); ok &&
			(he.StatusCode == http.StatusGatewayTimeout || errors.Is(err, context.DeadlineExceeded)) {
			kind, text = "timeout_error", "The upstream did not go on with its answer in time."
		}
	case len(bytes.TrimSpace(r.body)) > 0:
		d := wire.NewDecoder(r.format, false)
		d.Feed(r.body)
		if t := d.Turn(); t.Failed() {
			kind, text = t.ErrorType, t.ErrorMessage
			if kind == "" {
				kind = "api_error"
			}
		}
	}
	return r.rewrite.Failure(kind, text)
}

// Pass implements [interceptedTap].
func (t *tap) Pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return t.exchange.pass(w, r, next)
}

// Follow implements [interceptedTap].
func (t *tap) Follow() wire.Sink {
	if t.dec == nil {
		return nil
	}
	return t.dec.Follow()
}

// Abort implements [interceptedTap]. It cuts the connection, so that the client does not take the
// response for a complete one.
func (t *tap) Abort(err error) {
	t.exchange.complete(err)
	t.flushAll()
	httpx.LogCut(t.exchange.site.up.Log, err)
	panic(http.ErrAbortHandler)
}

// Recall implements [interceptedTap].
func (t *tap) Recall(name string) (string, bool) {
	x := t.exchange
	return x.site.store.Blocks.Get(x.session, x.View.First(), name)
}

type continuation struct {
	at     time.Time
	reason string // summary of the requested texts
}

// GoesOn implements [interceptedTap].
func (t *tap) GoesOn(what string) {
	x := t.exchange
	x.continued = append(x.continued, continuation{time.Now(), what})
	x.span.Event("llm_cache.expand", attribute.String("llm_cache.texts", what))
}

// setApart puts continuations on record and subtracts their cost from the turn's record.
func (x *exchange) setApart(turn *audit.Record) {
	for i, b := range x.Edit.Continuations(x.turn) {
		if i >= len(x.continued) {
			return
		}
		if b.Actual == (wire.Usage{}) { // it failed, or was cut before it cost anything
			continue
		}
		k, end := &x.continued[i], time.Now()
		if i+1 < len(x.continued) {
			end = x.continued[i+1].at
		}
		rec := &audit.Record{
			ID: audit.NewID(k.at), At: k.at, Turns: 1, Kind: audit.KindExpand, Tenant: turn.Tenant, User: turn.User,
			Groups: turn.Groups, Project: turn.Project, Session: turn.Session, Conversation: turn.Conversation,
			Client: turn.Client, Model: turn.Model, BilledModel: turn.BilledModel, AssumedFrom: turn.AssumedFrom,
			PricesOf: turn.PricesOf, ClientFormat: turn.ClientFormat, UpstreamFormat: turn.UpstreamFormat,
			Policy: turn.Policy, Stream: turn.Stream, Holdout: turn.Holdout,
			Billed: tokens(b.Actual), Cost: b.Cost, USD: b.Dollars, Outcome: audit.Completed, Reason: k.reason,
			Status: turn.Status, Total: end.Sub(k.at),
		}
		// The client's own bytes would not have caused this cost. The client's side, with all responses,
		// stays with the turn.
		t := &turn.Billed
		t.Uncached, t.Write5m, t.Write1h = t.Uncached-rec.Billed.Uncached, t.Write5m-rec.Billed.Write5m,
			t.Write1h-rec.Billed.Write1h
		t.Read, t.Output = t.Read-rec.Billed.Read, t.Output-rec.Billed.Output
		turn.Cost, turn.USD = turn.Cost-rec.Cost, turn.USD-rec.USD
		x.sink.Put(rec)
	}
}

// results are the results of a model's request for a folded text.
var results = []string{"whole", "part", "unknown", "refused"}

// Outcomes of a continuation.
const (
	continuationAnswered = "answered"
	continuationFailed   = "failed"
	continuationLimit    = "limit"
)

var (
	expansions = metric.Known(metric.CounterVec("expansions_total",
		"Folded blocks that models asked for again, by the class of the tool whose text it was and what they got: whole, "+
			"part, unknown, or refused (a call whose arguments held a stub or a note).",
		"class", "result"), sessioncache.ClassNames(), results)
	continuations = metric.CounterOf("continuations_total",
		"Answers to calls of the expand tool that the upstream was asked to go on from: answered, failed, or limit (asked "+
			"too often in one turn).", "result",
		continuationAnswered, continuationFailed, continuationLimit)
)

// count counts expansions. A tool counts under its class, so the labels are bounded.
func count(all []pipeline.Expansion) {
	for _, e := range all {
		expansions.WithLabelValues(e.Class.String(), result(&e)).Inc()
	}
}

func result(e *pipeline.Expansion) string {
	switch {
	case e.Refused:
		return "refused"
	case e.Unknown:
		return "unknown"
	case e.Part:
		return "part"
	}
	return "whole"
}

func summarize(all []pipeline.Expansion) string {
	counts := map[string]int{}
	for i := range all {
		counts[result(&all[i])]++
	}
	var parts []string
	for _, name := range results {
		if n := counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	return strings.Join(parts, ", ")
}
