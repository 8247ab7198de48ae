// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
)

// newTicket returns the request's claim to a slot.
func (x *exchange) newTicket(r *http.Request) queue.Ticket {
	if x.site.sharing.queue == nil {
		return queue.Ticket{}
	}
	first := x.view.First()
	return queue.Ticket{
		Person:  x.person.Name,
		Lineage: x.sessionID + first.String(),
		Side:    !x.edit.OffersTools() || isSide(r.Header),
		Size:    len(x.view.Raw),
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
func (x *exchange) isAside(r *http.Request) bool {
	return x.site.sides != nil && (isSide(r.Header) || !x.edit.OffersTools()) && !x.edit.Summarizes()
}
