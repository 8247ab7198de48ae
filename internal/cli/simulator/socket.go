// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/websocket"
)

// serveSocket speaks the Responses API over a WebSocket.
func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	// Responses are stored with the connection, one a lane. Strict: a failed one deletes its predecessor.
	s := &websocket.Server{MaxMessage: maxBody, Kept: websocket.NewMemory(maxStored), Strict: true, Life: h.SocketLife}
	s.Accept(w, r, func(w http.ResponseWriter, r *http.Request) (err error) {
		defer func() {
			if p := recover(); p == http.ErrAbortHandler { //nolint:errorlint // the very value
				// A truncated response closes the connection.
				err = websocket.ErrCut
			} else if p != nil {
				panic(p)
			}
		}()
		h.ServeHTTP(w, r)
		return nil
	})
}
