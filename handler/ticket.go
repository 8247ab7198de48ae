// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
)

// ticket is a request's claim to a slot.
func (c *requestState) ticket(r *http.Request) queue.Ticket {
	if c.site.sharing.queue == nil {
		return queue.Ticket{}
	}
	first := c.view.First()
	return queue.Ticket{
		Person:  c.asker.person.Name,
		Lineage: c.session.ID() + first.String(),
		Side:    !c.ex.OffersTools() || isSide(r.Header),
		Size:    len(c.view.Raw),
	}
}

// sideTicket is the claim of a request that is no part of a conversation, as
// far as we know.
func (o *site) sideTicket(r *http.Request) queue.Ticket {
	if o.sharing.queue == nil {
		return queue.Ticket{}
	}
	return queue.Ticket{Person: o.whose(r).Name, Side: true}
}

// isSide tells a side request by the hints that Claude Code gives to gateways.
func isSide(h http.Header) bool {
	return first(h, "X-Claude-Code-Request-Class") == "auxiliary"
}

// isAside reports whether a request goes where side requests go.
func (o *site) isAside(c *requestState, r *http.Request) bool {
	return o.sides != nil && (isSide(r.Header) || !c.ex.OffersTools()) && !c.ex.Summarizes()
}
