// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

// Intercept answers the calls that a model makes on the way to the client's
// message, and makes one message of all that it says until then.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/decode"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// maxContinuations is how often in one turn the upstream is asked to go on
// after a call that was answered on the way.
const maxContinuations = 3

// InterceptTap is what the client reads through, and what is asked of the request's handler.
type InterceptTap interface {
	http.ResponseWriter
	FlushError() error
	// Follow returns what is to be told of a stream whose header was written, in place of its
	// bytes being read again, nil if nobody reads them.
	Follow() wire.Sink
	// Pass runs the handlers behind, with w for their writer. Should they panic, it
	// calls [Interceptor.Spill].
	Pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error
	// Abort cuts an answer that cannot come to its end, by a panic.
	Abort(err error)
	// Recall finds the text of a folded block that the client has dropped.
	Recall(name string) (string, bool)
	// GoesOn is told of each continuation, and what the model had asked for and got.
	GoesOn(what string)
}

// Interceptor stands between the upstream's answers and the tap, in conversations
// that have the expand tool, or stubs and notes of ours in their prompt. It keeps calls
// of that tool and calls that hold a stub or a note, and makes one message of all
// answers to a request, so that the tap and the client see only that.
type Interceptor struct {
	httpx.Answer // with a header of its own, if it is not the first
	tap          InterceptTap
	calls        *pipeline.Interceptor
	format       wire.Format
	log          *zap.Logger
	rewrite      *hidden.Interceptor
	first        int // the status of the first answer
	stream       bool
	whole        bool // the answer is gathered: JSON
	begun        bool // the first byte of a stream that says anything was there
	posed        bool // it came as a stream, whose header the client has, and is JSON
	body         []byte
	further      bool // not the first answer
	failed       bool // a further answer is an error
}

// NewInterceptor returns what stands between the answers to a request in a format, and the tap.
func NewInterceptor(tap InterceptTap, calls *pipeline.Interceptor, format wire.Format, log *zap.Logger) *Interceptor {
	r := &Interceptor{tap: tap, calls: calls, format: format, log: log}
	r.Answer = httpx.NewAnswer(tap, r)
	r.rewrite = hidden.NewInterceptor(format, options(calls))
	return r
}

// WriteHeader implements [http.ResponseWriter]. Of an answer that is not the first the
// client learns nothing that is only informational.
func (r *Interceptor) WriteHeader(status int) {
	if status >= http.StatusOK || !r.further {
		r.Answer.WriteHeader(status)
	}
}

// Begin implements [httpx.Interceptor].
func (r *Interceptor) Begin(status int) {
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
		r.tap.WriteHeader(status)
		r.rewrite.Follow(r.tap.Follow())
	case ok && httpx.IsJSON(kind):
		r.whole = true // the header waits: its length may change
	default:
		r.tap.WriteHeader(status)
	}
}

// Holds implements [httpx.Interceptor].
func (r *Interceptor) Holds() bool { return r.whole }

// Take implements [httpx.Interceptor].
func (r *Interceptor) Take(p []byte) (int, error) {
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
		return r.tap.Write(p)
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
	if _, err := r.tap.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// copied notes that the stream ends in an error, before the tap sees that. What the
// upstream says behind it reaches nobody.
func (r *Interceptor) copied() {
	before := len(r.calls.Expansions)
	r.calls.Copied()
	count(r.calls.Expansions[before:])
}

// feed rewrites a piece of a stream. A panic in there ends the rewriting, not
// the answer.
func (r *Interceptor) feed(p []byte) (out []byte, ok bool) {
	defer func() {
		if e := recover(); e != nil {
			httpx.Recovered(r.log, "rewriting an answer", e)
			r.stream, ok = false, false
		}
	}()
	return r.rewrite.Feed(p), true
}

// giveUp lets an answer pass that is too long to be gathered.
func (r *Interceptor) giveUp() error {
	body := r.body
	r.whole, r.body = false, nil
	r.tap.WriteHeader(r.first)
	_, err := r.tap.Write(body)
	return err
}

// say tells the exchange what the client's message is made of, before the tap
// sees its end.
func (r *Interceptor) say() {
	httpx.Guard(r.log, "noting what was hidden", func() {
		it := r.rewrite.Iteration()
		for _, p := range it.Hidden() {
			if p.Result == "" && it.Complete() {
				r.answer(p)
			}
		}
		r.calls.Say(r.rewrite.Iterations())
	})
}

// Plain reports whether nothing was kept from the client so far.
func (r *Interceptor) Plain() bool { return r.rewrite.Plain() }

// Answers returns the answers so far of which the client's message is made.
func (r *Interceptor) Answers() []hidden.Iteration { return r.rewrite.Iterations() }

// answer answers a call that the client does not see.
func (r *Interceptor) answer(p *hidden.Part) {
	before := len(r.calls.Expansions)
	r.calls.Answer(p, r.tap.Recall)
	count(r.calls.Expansions[before:])
}

// Serve hands a request on: as long as an answer holds nothing but calls that are
// answered on the way, the upstream is asked to go on, and the client gets one message.
func (r *Interceptor) Serve(request *http.Request, next caddyhttp.Handler) error {
	again := request.Clone(request.Context())
	if err := r.tap.Pass(r, request, next); err != nil {
		if r.stream || r.posed { // its length is not what the upstream said any more: nobody would see that it is cut
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
		for _, p := range r.rewrite.Iteration().Hidden() {
			r.answer(p)
		}
		if n == maxContinuations {
			continuations.WithLabelValues(continuationLimit).Inc()
			return r.close()
		}
		r.tap.GoesOn(told(r.calls.Expansions[carried:]))
		carried = len(r.calls.Expansions)
		switch err := r.goOn(again, next); {
		case err != nil && r.rewrite.Ended():
			return err
		case err != nil || r.failed:
			return r.fail(err)
		}
	}
}

func options(calls *pipeline.Interceptor) hidden.Options {
	o := hidden.Options{Hide: calls.CallsExpand, LastUsage: calls.LastUsage()}
	if calls.Marked() {
		o.Watch, o.Marks, o.Whole = calls.Writes, calls.Marks, calls.Whole()
	}
	return o
}

// errContinuation says that the body of a continuation could not be made.
var errContinuation = errors.New("continuing an answer")

// goOn asks the upstream to go on.
func (r *Interceptor) goOn(original *http.Request, next caddyhttp.Handler) error {
	body, err := r.calls.Continue(r.rewrite.Iterations())
	if err != nil {
		return fmt.Errorf("%w: %w", errContinuation, err)
	}
	request := original.Clone(original.Context())
	httpx.SetLength(request, len(body))
	httpx.SetBody(request, body)
	r.rewrite.Next()
	r.further, r.Own, r.Status, r.body = true, http.Header{}, 0, nil
	answered := false
	defer func() {
		// A client may leave as soon as it has the end of the answer.
		if answered || r.rewrite.Ended() {
			continuations.WithLabelValues(continuationAnswered).Inc()
		}
	}()
	if err := r.tap.Pass(r, httpx.Isolate(request, r), next); err != nil {
		return err
	}
	answered = true
	return nil
}

// rewriteWhole reads an answer in one piece.
func (r *Interceptor) rewriteWhole(body []byte) (out []byte, done bool) {
	out, done = body, true
	httpx.Guard(r.log, "rewriting an answer", func() { out, done = r.rewrite.Whole(body) })
	return out, done
}

// finishWhole gives the client its answer in one piece.
func (r *Interceptor) finishWhole(out []byte) error {
	if r.rewrite.Ended() {
		r.say()
	}
	r.whole = false
	h := r.tap.Header()
	if _, ok := h["Content-Length"]; ok {
		h["Content-Length"] = []string{strconv.Itoa(len(out))}
	}
	trailers := httpx.TakeTrailers(h)
	defer func() { maps.Copy(r.tap.Header(), trailers) }()
	r.tap.WriteHeader(r.first)
	if len(out) == 0 {
		return nil
	}
	_, err := r.tap.Write(out)
	return err
}

// finishStream gives the client the last event of a stream that does not end in a
// blank line.
func (r *Interceptor) finishStream() error {
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
	if _, err := r.tap.Write(out); err != nil {
		return err
	}
	return r.tap.FlushError()
}

// close ends the client's message where the model would not stop asking.
func (r *Interceptor) close() error {
	if r.whole {
		out := r.rewrite.CloseWhole()
		return r.finishWhole(out)
	}
	out := r.rewrite.Close()
	r.say()
	if _, err := r.tap.Write(out); err != nil {
		return err
	}
	return r.tap.FlushError()
}

// fail tells the client that a continuation failed: by an error in the stream,
// or, where it has seen nothing, by the upstream's own answer.
func (r *Interceptor) fail(err error) error {
	continuations.WithLabelValues(continuationFailed).Inc()
	if r.posed { // the client has seen a header
		r.tap.Abort(errors.Join(errContinuation, err))
	}
	if !r.stream {
		if err != nil {
			return err
		}
		h := r.tap.Header()
		for _, name := range []string{"Content-Type", "Content-Encoding", "Retry-After"} {
			if v := r.Own[name]; v != nil {
				h[name] = v
			}
		}
		h["Content-Length"] = []string{strconv.Itoa(len(r.body))}
		r.tap.WriteHeader(r.Status)
		_, err = r.tap.Write(r.body)
		return err
	}
	out := r.failure(err)
	if _, e := r.tap.Write(out); e != nil {
		return e
	}
	if e := r.tap.FlushError(); e != nil {
		return e
	}
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return nil // the client has its answer
	}
	return err
}

// Spill gives the client what there is of an answer that is cut, and the event
// that says so where it waits for a continuation.
func (r *Interceptor) Spill() {
	switch {
	case r.whole && !r.further:
		r.whole = false
		r.tap.WriteHeader(r.Status)
		_, _ = r.tap.Write(r.body)
	case r.stream && r.further:
		_, _ = r.tap.Write(r.failure(nil))
	case r.stream:
		if rest := r.rewrite.Rest(); len(rest) > 0 {
			_, _ = r.tap.Write(rest)
		}
	}
}

// failure is the event that tells of a failed continuation. Where the upstream
// did not say why, it is the one after which clients try again.
func (r *Interceptor) failure(err error) []byte {
	kind, text := "overloaded_error", "The upstream did not go on with its answer."
	switch {
	case err != nil:
		if he, ok := errors.AsType[caddyhttp.HandlerError](err); ok && (he.StatusCode == http.StatusGatewayTimeout || errors.Is(err, context.DeadlineExceeded)) {
			kind, text = "timeout_error", "The upstream did not go on with its answer in time."
		}
	case len(bytes.TrimSpace(r.body)) > 0:
		d := decode.New(r.format, false)
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
