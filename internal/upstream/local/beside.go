// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// maxBeside is the number of concurrent requests to a local server besides those with a slot.
// Editors count tokens 50 times a second when they start.
const maxBeside = 8

// Beside lets requests without a slot bypass the queue, at most [maxBeside] at a time.
type Beside struct{ running chan struct{} }

// NewBeside returns an empty Beside.
func NewBeside() *Beside { return &Beside{make(chan struct{}, maxBeside)} }

// Layer returns next behind the bound.
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
