// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// MaxError bounds, in bytes, what is held of an answer that is an error.
const MaxError = 64 << 10

// MaxAnswer bounds, in bytes, what is held of an answer in one piece.
const MaxAnswer = 8 << 20

// Unreached says what an error of the handlers behind means to who waits
// for an answer. They name no address.
var Unreached = map[int]string{
	http.StatusBadGateway:         "the model's server cannot be reached, or broke off",
	http.StatusServiceUnavailable: "no server of the model is available",
	http.StatusGatewayTimeout:     "the model's server did not answer in time",
}

// Fail tells the client of a failure of ours in its own API's words. w has not been
// written to.
func Fail(w http.ResponseWriter, format wire.Format, f *translate.Failure) error {
	Ours(w)
	return Relay(w, format, f)
}

// Relay tells the client of the upstream's failure in its own API's words. w has not been
// written to.
func Relay(w http.ResponseWriter, format wire.Format, f *translate.Failure) error {
	status, body := f.Write(format)
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	delete(h, "Content-Length") // the server knows it; who puts other words in the place of these need not
	if f.RetryAfter > 0 && h.Get("Retry-After") == "" {
		h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// FailUnreached answers, as the client's own API would, that there was no answer: Caddy
// itself says so by a status without a body, which clients show as it is. Error routes of
// the site that take the request answer in its place. The error is returned in any case,
// so that Caddy logs and counts it as without this module. w has not been written to.
func FailUnreached(w http.ResponseWriter, r *http.Request, format wire.Format, err error) error {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	if !ok || Unreached[e.StatusCode] == "" || r.Context().Err() != nil {
		return err
	}
	srv, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || srv == nil || routesError(srv, r, err) {
		return err
	}
	// What Caddy writes behind this for want of an error route is a second header, which
	// net/http drops.
	if failed := Fail(w, format, &translate.Failure{Status: e.StatusCode, Message: Unreached[e.StatusCode]}); failed != nil {
		return failed
	}
	return err
}

// routesError reports whether an error route of the server takes a request that has ended
// in an error. The routes of all sites of a server stand in one list.
func routesError(srv *caddyhttp.Server, r *http.Request, err error) bool {
	if srv.Errors == nil {
		return false
	}
	r = srv.Errors.WithError(r, err)
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		// The server restores these before it looks for a route.
		r.Method, r.RequestURI, r.URL = original.Method, original.RequestURI, original.URL
	}
	return takes(srv.Errors.Routes, r)
}

// takes reports whether a request meets any handler in some routes.
func takes(routes caddyhttp.RouteList, r *http.Request) bool {
	for i := range routes {
		if match, err := routes[i].MatcherSets.AnyMatchWithError(r); err != nil || !match {
			continue
		}
		for _, h := range routes[i].Handlers {
			if sub, ok := h.(*caddyhttp.Subroute); !ok || takes(sub.Routes, r) {
				return true
			}
		}
	}
	return false
}

// LogCut logs why an answer is cut short. It says no more than Caddy's own log does.
func LogCut(l *zap.Logger, err error) {
	l.Error("cutting an answer short that failed on the way", zap.Error(err))
}
