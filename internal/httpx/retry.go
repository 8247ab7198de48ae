// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
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

// Begin implements [Interceptor].
func (a *Attempt) Begin(int) {
	if a.verdict = a.by.Judge(a); a.verdict == Accept {
		a.Send()
	}
}

// Take implements [Interceptor].
func (a *Attempt) Take(p []byte) (int, error) {
	switch a.verdict {
	case Accept:
		return a.ResponseWriter.Write(p)
	case Reject:
		return len(p), nil
	}
	if a.Body = append(a.Body, p...); len(a.Body) > MaxError {
		return len(p), a.conclude()
	}
	return len(p), nil
}

// Holds implements [Interceptor].
func (a *Attempt) Holds() bool { return a.verdict != Accept }

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

func retry(w http.ResponseWriter, original *http.Request, body *Payload, whole bool, by Retrier) (rejected bool, err error) {
	a := NewAttempt(w, by)
	r := Isolate(original, a)
	if whole {
		body.Attach(r)
	}
	defer Tell(original.Context(), r.Context())
	return a.Serve(by, r)
}
