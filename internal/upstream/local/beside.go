// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// maxBeside is how many requests go to a box at a time beside those that have a slot. Editors
// count tokens 50 times a second when they start.
const maxBeside = 8

// Beside lets requests that take no slot pass the queue, a few at a time.
type Beside struct{ running chan struct{} }

// NewBeside returns a Beside without requests.
func NewBeside() *Beside { return &Beside{make(chan struct{}, maxBeside)} }

// Layer returns next with the bound before it.
func (b *Beside) Layer(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		select {
		case b.running <- struct{}{}:
		case <-r.Context().Done():
			return caddyhttp.Error(StatusClientClosed, fmt.Errorf("waiting beside the queue: %w", r.Context().Err()))
		}
		defer func() { <-b.running }()
		return next.ServeHTTP(w, r)
	})
}
