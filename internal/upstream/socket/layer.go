// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

type layer struct {
	pool *Pool
	next caddyhttp.Handler
	key  func(r *http.Request) retain.Key
}

// Layer returns next behind a carrier. It must run after the layer that decides between delta and
// whole. key returns a request's conversation.
func (p *Pool) Layer(next caddyhttp.Handler, key func(r *http.Request) retain.Key) caddyhttp.Handler {
	return &layer{p, next, key}
}

// ServeHTTP implements caddyhttp.Handler.
func (c *layer) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	over := r.Header[from]
	delete(r.Header, from)
	p, ok := httpx.Whole(r)
	if len(over) == 0 || !ok {
		return c.next.ServeHTTP(w, r)
	}
	who := caller{c.key(r), by(r)}
	if over[0] != "" {
		return c.goOn(w, r, who, over[0], p.Bytes())
	}
	return c.begin(w, r, who, p.Bytes())
}

func (c *layer) goOn(w http.ResponseWriter, r *http.Request, who caller, handle string, body []byte) error {
	why := retain.Lost
	if conn := c.pool.take(handle, who); conn != nil {
		var err error
		if why, err = conn.ask(w, r, body); why == "" || r.Context().Err() != nil {
			return err
		}
	}
	return say(w, why)
}

func say(w http.ResponseWriter, why retain.Cause) error {
	w.Header()[became] = []string{string(why)}
	w.WriteHeader(http.StatusServiceUnavailable)
	return nil
}

// begin sends a whole conversation.
func (c *layer) begin(w http.ResponseWriter, r *http.Request, who caller, body []byte) error {
	// An idle connection spares a handshake.
	if conn := c.pool.spare(who); conn != nil {
		if why, err := conn.ask(w, r, body); why == "" || r.Context().Err() != nil {
			return err
		}
	}
	// An upstream without WebSockets is not asked each time.
	if c.pool.refuses(who.Side) {
		return say(w, retain.Refused)
	}
	conn, why := c.dial(r, who)
	if why == string(retain.Refused) {
		c.pool.refuse(who.Side)
		return say(w, retain.Refused)
	}
	if conn != nil {
		answered, err := conn.ask(w, r, body)
		if answered == "" || r.Context().Err() != nil {
			return err
		}
		why = cut
	}
	fellBack.WithLabelValues(why).Inc()
	w.Header()[became] = []string{posted}
	return c.next.ServeHTTP(w, r)
}
