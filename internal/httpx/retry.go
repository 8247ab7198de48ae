// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"context"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Verdict is a decision on the response to an attempt.
type Verdict uint8

const (
	// Wait puts the decision off until the body is there.
	Wait Verdict = iota
	// Accept sends the response to the client.
	Accept
	// Reject drops the response: the request is sent once more, or the layer itself responds.
	Reject
)

// Judge decides which responses the client gets.
type Judge interface {
	// Judge is called with the header of a response, and after [Wait] once more with the body. It is
	// also called if there is no response, or if an error ends a response that still waits. If
	// Gathered is set, Wait means [Accept].
	Judge(a *Attempt) Verdict
}

// Attempt is the writer of a response that a layer may reject. The response has a separate header,
// which becomes the client's with the response.
type Attempt struct {
	Answer
	// Body is the body held back. It is complete up to MaxError bytes.
	Body []byte
	// Err is the error of the next handlers, [http.ErrAbortHandler] if they cut the response.
	Err error
	// Gathered reports that no more of the body will be held back.
	Gathered bool
	// Early ends a Wait with the first bytes of the body. A judge sets it.
	Early bool

	verdict Verdict
	by      Judge
}

// NewAttempt returns the writer of a response that is subject to a judge.
func NewAttempt(w http.ResponseWriter, by Judge) *Attempt {
	a := &Attempt{by: by}
	a.Answer = NewAnswer(w, a)
	return a
}

// Serve calls the next handler, and reports whether its response was rejected. An error that ends a
// response which still waits is returned without the response, for error routes; a cut response is
// sent as far as it arrived.
func (a *Attempt) Serve(next caddyhttp.Handler, r *http.Request) (rejected bool, err error) {
	a.Apart()
	cut := true
	defer func() {
		if !cut {
			return
		}
		p := recover()
		if p == http.ErrAbortHandler && a.ends(r, http.ErrAbortHandler) { //nolint:errorlint,err113 // the very value
			rejected = true
			return
		}
		if a.verdict == Wait && a.Status != 0 {
			_ = a.release()
		}
		if p != nil {
			panic(p)
		}
	}()
	err = next.ServeHTTP(a, r)
	cut = false
	switch {
	case a.verdict == Reject:
		return true, nil
	case a.verdict == Accept:
		return false, err
	case err == nil && a.Status != 0:
		err = a.conclude()
		return a.verdict == Reject, err
	case a.ends(r, err):
		return true, nil
	case a.Status == 0: // error routes start from this header
		a.Join()
	}
	return false, err
}

// ends reports whether a response that is missing or incomplete was rejected.
func (a *Attempt) ends(r *http.Request, err error) bool {
	if r.Context().Err() != nil { // the client has left
		return false
	}
	if a.verdict == Wait {
		a.Err, a.Gathered = err, true
		if a.by.Judge(a) == Reject {
			a.verdict = Reject
		}
	}
	return a.verdict == Reject
}

// conclude decides on a response by its body.
func (a *Attempt) conclude() error {
	a.Gathered = true
	if a.verdict = a.by.Judge(a); a.verdict == Reject {
		return nil
	}
	return a.release()
}

// release sends the client the part that was held back.
func (a *Attempt) release() error {
	body := a.Body
	a.verdict, a.Body = Accept, nil
	a.Send()
	if len(body) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(body)
	return err
}

// Rejected reports whether the response was rejected.
func (a *Attempt) Rejected() bool { return a.verdict == Reject }

// Begin implements [Receiver].
func (a *Attempt) Begin(int) {
	if a.verdict = a.by.Judge(a); a.verdict == Accept {
		a.Send()
	}
}

// Take implements [Receiver].
func (a *Attempt) Take(p []byte) (int, error) {
	switch a.verdict {
	case Accept:
		return a.ResponseWriter.Write(p)
	case Reject:
		return len(p), nil
	}
	if a.Body = append(a.Body, p...); len(a.Body) > MaxError || a.Early && len(p) > 0 {
		return len(p), a.conclude()
	}
	return len(p), nil
}

// Buffering implements [Receiver].
func (a *Attempt) Buffering() bool { return a.verdict != Accept }

// Retrier edits and forwards the attempts of a request. The handler's writer is the [Attempt].
type Retrier interface {
	caddyhttp.Handler
	Judge
}

// Retry sends a request until a response is not rejected, and the client gets only that one. Each
// attempt gets the request as it was before the first, with variables and placeholders of its own.
func Retry(w http.ResponseWriter, r *http.Request, by Retrier) error {
	original := r.Clone(r.Context()) // the next handlers may change r
	body, whole := Whole(r)
	rejected, err := NewAttempt(w, by).Serve(by, r)
	for rejected {
		rejected, err = retry(w, original, body, whole, by)
	}
	return err
}

func retry(
	w http.ResponseWriter, original *http.Request, body *Payload, whole bool, by Retrier,
) (rejected bool, err error) {
	a := NewAttempt(w, by)
	r := Isolate(original, a)
	if whole {
		body.Attach(r)
	}
	defer Tell(original.Context(), r.Context())
	return a.Serve(by, r)
}

// The outcomes of a request that was sent again without our edits.
const (
	ResendAccepted = "accepted" // the edits caused the refusal
	ResendRefused  = "refused"  // the client's own request is refused, too
	ResendFailed   = "failed"   // neither is known
)

var (
	// Resends counts requests that were sent again without our edits.
	Resends = metric.CounterOf("resends_total",
		"Requests sent once more without our edits after a refusal, by outcome: accepted, refused again, or failed for "+
			"another reason.", "outcome",
		ResendAccepted, ResendRefused, ResendFailed)
	// ResendsLeftOut counts refusals that were forwarded without another attempt.
	ResendsLeftOut = metric.Counter("resends_left_out_total",
		"Refusals of edited requests that were not followed by another try: too many requests of that tenant are refused "+
			"without our edits, too.")
)

// Refusal reports whether a status means that the upstream rejects the form of a request. Statuses
// about credentials, payment, time or size alone do not.
func Refusal(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusTooManyRequests:
		return false
	}
	return status/100 == 4
}

// upstreamStatus is the placeholder with the status that reverse_proxy received.
const upstreamStatus = "http.reverse_proxy.status_code"

// UpstreamStatus returns the status that reverse_proxy received for a request, 0 if there was none.
// Mappings (replace_status, handle_response, intercept) may show another status to its writers.
func UpstreamStatus(ctx context.Context) int {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return 0
	}
	v, _ := repl.Get(upstreamStatus)
	status, _ := v.(int)
	return status
}

// ForgetUpstreamStatus makes UpstreamStatus return 0 until the next response. Another
// reverse_proxy, such as forward_auth, may have set it for the same request.
func ForgetUpstreamStatus(ctx context.Context) {
	if repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		repl.Delete(upstreamStatus)
	}
}

// Additions are edits that the layers after the handler make on their own.
type Additions struct {
	// Off are the kinds that the layers must not make.
	Off wire.EditKinds
	// Made are the kinds in the request that was sent.
	Made wire.EditKinds

	refused []func()
}

// additionsVar is the request variable with its Additions.
const additionsVar = "llm_additions"

// Attach makes the additions available to the layers of a request, by its context.
func (a *Additions) Attach(ctx context.Context) { caddyhttp.SetVar(ctx, additionsVar, a) }

// AdditionsOf returns the additions of a request, empty ones if none are attached.
func AdditionsOf(ctx context.Context) *Additions {
	if a, ok := caddyhttp.GetVar(ctx, additionsVar).(*Additions); ok {
		return a
	}
	return new(Additions)
}

// Make records that the request has an addition. refused, if not nil, is called if the upstream
// accepts the request only without it.
func (a *Additions) Make(kind wire.EditKinds, refused func()) {
	a.Made |= kind
	if refused != nil {
		a.refused = append(a.refused, refused)
	}
}

// Refuse reports to the layers that the upstream accepted the request only without their additions.
func (a *Additions) Refuse() {
	for _, refused := range a.refused {
		refused()
	}
	a.refused = nil
}

// Ours tells the outer writers that the next response is our own, not the upstream's.
func Ours(w http.ResponseWriter) {
	for w != nil {
		if t, ok := w.(interface{ Ours() }); ok {
			t.Ours()
			return
		}
		// Writers of other modules may be in between.
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}
