// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// provisionSides loads the handler of side requests.
func (h *Handler) provisionSides(ctx caddy.Context) error {
	if h.SideRequestsRaw == nil {
		return nil
	}
	m, err := ctx.LoadModule(h, "SideRequestsRaw")
	if err != nil {
		return err
	}
	h.sides = m.(caddyhttp.MiddlewareHandler)
	return nil
}

// onward returns what a request goes through on its way to the upstream: on the
// box all that looks after its slots and prefixes, and on the way of side requests
// only what makes them readable there.
func (h *Handler) onward(c *call, r *http.Request, next caddyhttp.Handler) caddyhttp.Handler {
	format := c.view.Format
	if c.aside = h.sides != nil && (isSide(r.Header) || !c.ex.OffersTools()) && !c.ex.Summarizes(); c.aside {
		behind := next
		next = unpacking{caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			return h.sides.ServeHTTP(w, r, behind)
		})}
		return h.translating(h.dressed(next, format), format, c.id)
	}
	return h.lingering(h.queueing(h.translating(h.overlaid(h.fronting(h.dressed(next, format), format, c), format, c), format, c.id), format, c.ticket(r), &c.place))
}
