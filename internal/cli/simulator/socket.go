// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
)

// serveSocket speaks the Responses API over a WebSocket: what was said lives with the
// connection, one answer a lane, and an answer that fails takes what it went on from
// with it. An answer that is cut cuts the connection.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	s := &websocket.Server{MaxMessage: maxBody, Kept: websocket.NewMemory(mostStored), Strict: true, Life: h.SocketLife}
	s.Accept(w, r, func(w http.ResponseWriter, r *http.Request) (err error) {
		defer func() {
			if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // the very value
				err = websocket.ErrCut
			} else if p != nil {
				panic(p)
			}
		}()
		h.ServeHTTP(w, r)
		return nil
	})
}
