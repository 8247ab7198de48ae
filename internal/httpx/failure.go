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

// MaxError bounds the buffered part of an error response, in bytes.
const MaxError = 64 << 10

// MaxAnswer bounds the buffered part of a response in one piece, in bytes.
const MaxAnswer = 8 << 20

// Unreached has a message for the client for each status of the proxy. The messages contain no
// address.
var Unreached = map[int]string{
	http.StatusBadGateway:         "the model's server cannot be reached, or broke off",
	http.StatusServiceUnavailable: "no server of the model is available",
	http.StatusGatewayTimeout:     "the model's server did not answer in time",
}

// ReadFailure reads an upstream's error: its status, its header, and the beginning of its body.
func ReadFailure(format wire.Format, status int, h http.Header, body []byte) *translate.Failure {
	plain, err := Decode(Coding(h), body, 16*MaxError, nil)
	if err != nil {
		plain = nil
	}
	f := translate.ReadFailure(format, status, plain)
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		f.RetryAfter = n
	}
	return f
}

// Keep appends the next bytes of a body to those held back, up to limit bytes in all.
func Keep(buffered, p []byte, limit int) []byte {
	return append(buffered, p[:min(len(p), max(0, limit-len(buffered)))]...)
}

// Respond sends a response of our own in one piece.
func Respond(w http.ResponseWriter, status int, mediaType string, body []byte) error {
	h := w.Header()
	DropCoded(h)
	h["Content-Type"], h["Content-Length"] = []string{mediaType}, []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// Fail sends an error of our own to the client, in the format of its API. w must not have been
// written to.
func Fail(w http.ResponseWriter, format wire.Format, f *translate.Failure) error {
	Ours(w)
	return Relay(w, format, f)
}

// Relay sends the upstream's error to the client, in the format of its API. w must not have been
// written to.
func Relay(w http.ResponseWriter, format wire.Format, f *translate.Failure) error {
	status, body := f.Write(format)
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	delete(h, "Content-Length") // the server sets it, and later writers may change the text
	if f.RetryAfter > 0 && h.Get("Retry-After") == "" {
		h.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// FailUnreached responds, in the format of the client's API, that there was no response. Error
// routes of the site that match the request take precedence. The error is returned in any case, so
// that Caddy logs and counts it as without this module. The message begins with the name of the server, if it
// has one. w must not have been written to.
func FailUnreached(w http.ResponseWriter, r *http.Request, format wire.Format, server string, err error) error {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	// Other errors are not the proxy's, or the client has left.
	if !ok || Unreached[e.StatusCode] == "" || r.Context().Err() != nil {
		return err
	}
	srv, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || srv == nil || routesError(srv, r, err) {
		return err
	}
	// Caddy itself would send a status without a body, and clients show that as it is. It still
	// writes a second header afterwards, without an error route, which net/http drops.
	message := Unreached[e.StatusCode]
	if server != "" {
		message = server + ": " + message
	}
	if failed := Fail(w, format, &translate.Failure{
		Status:  e.StatusCode,
		Message: message,
	}); failed != nil {
		return failed
	}
	return err
}

// routesError reports whether an error route of the server matches a failed request.
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

// takes reports whether a request reaches any handler in some routes.
func takes(routes caddyhttp.RouteList, r *http.Request) bool {
	for i := range routes {
		if match, err := routes[i].MatcherSets.AnyMatchWithError(r); err != nil || !match {
			continue
		}
		for _, h := range routes[i].Handlers {
			// A subroute counts only if one of its own routes matches.
			if sub, ok := h.(*caddyhttp.Subroute); !ok || takes(sub.Routes, r) {
				return true
			}
		}
	}
	return false
}

// LogCut logs why a response is cut off, with no more detail than Caddy's own log.
func LogCut(l *zap.Logger, err error) {
	l.Error("cutting an answer short that failed on the way", zap.Error(err))
}
