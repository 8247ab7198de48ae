// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
)

// serveSocket speaks the Responses API over a WebSocket. Responses are stored with the connection,
// one a lane, and a failed response deletes its predecessor. A truncated response closes the
// connection.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	s := &websocket.Server{MaxMessage: maxBody, Kept: websocket.NewMemory(maxStored), Strict: true, Life: h.SocketLife}
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
