// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/feature"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Clients of the Responses API may use a WebSocket. Each response.create is served as the POST of the
// whole conversation: the handlers behind need not know of sockets.

var (
	sockets  = metric.Gauge("websocket_connections", "WebSockets of clients that are open.")
	messages = metric.Counter("websocket_requests_total", "Requests that came over the WebSockets of clients.")
)

func listen(s *feature.Site) *websocket.Server {
	return &websocket.Server{
		MaxMessage: s.Upstream.MaxBody, Kept: websocket.Of(s.State), Behind: s.Upstream.CanRetain(wire.OpenAIResponses),
		Open: func() websocket.Room { return budget.Of(s.State.Instance).Open() }, Background: httpx.Background,
		Failure: func(e []byte) (int, []byte) {
			return translate.ReadFailure(wire.OpenAIResponses, 0, e).Write(wire.OpenAIResponses)
		},
	}
}

func (s *part) serve(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (served bool, err error) {
	if !websocket.Asked(r) {
		return false, nil
	}
	if !s.Upstream.Understands(wire.OpenAIResponses) || !websocket.Upgrades(w, r) {
		return true, websocket.Refuse(w)
	}
	sockets.Inc()
	defer sockets.Dec()
	s.sockets.Accept(w, r, func(w http.ResponseWriter, post *http.Request) error {
		messages.Inc()
		return s.serveMessage(w, alone(post, w, r), next)
	})
	return true, nil
}

// alone makes a socket's request look like a POST, with variables and log fields of its own.
func alone(post *http.Request, w http.ResponseWriter, socket *http.Request) *http.Request {
	post = httpx.Isolate(post, w)
	ctx := context.WithValue(post.Context(), caddyhttp.ExtraLogFieldsCtxKey, new(caddyhttp.ExtraLogFields))
	if known, ok := socket.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		known.Method = http.MethodPost
		ctx = context.WithValue(ctx, caddyhttp.OriginalRequestCtxKey, known)
	}
	return post.WithContext(ctx)
}

// serveMessage serves a request of a socket.
func (s *part) serveMessage(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	defer func() {
		// No server around it recovers from panics.
		if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // the very value
			err = websocket.ErrCut
		} else if p != nil {
			httpx.Recovered(s.Log, "answering over a WebSocket", p)
			err = websocket.ErrCut
		}
	}()
	websocket.InSession(r.Context(), func() string {
		session, _ := caddyhttp.GetVar(r.Context(), "llm_session").(string)
		return session
	})
	rec := caddyhttp.NewResponseRecorder(w, nil, nil)
	err = s.Serve(rec, r, next)
	if e, ok := errors.AsType[caddyhttp.HandlerError](err); ok && r.Context().Err() == nil {
		if rec.Status() == e.StatusCode {
			// The client has the error already. No server stands around to log it.
			s.Log.Error("no answer from upstream", zap.Int("status", e.StatusCode), zap.Error(e.Err))
			return nil
		}
		message := httpx.Unreached[e.StatusCode]
		if message == "" {
			message = http.StatusText(e.StatusCode)
		}
		return &websocket.RefusalError{Status: e.StatusCode, Message: message}
	}
	return err
}
