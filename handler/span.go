// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"context"
)

// trace begins the span of the request, nil where nothing is traced.
func (c *requestState) trace(ctx context.Context) *Span {
	return c.site.records.conventions.Begin(ctx, func() spanRequest {
		return spanRequest{
			View: c.view, Exchange: c.ex, Upstream: c.site.up, Person: c.asker.person, Session: c.session.ID(), Began: c.books.began,
		}
	})
}

// endSpan ends it.
func (c *requestState) endSpan(ctx context.Context) {
	if c.books.span == nil {
		return
	}
	l := &c.books.logged
	c.books.span.End(ctx, &spanAnswer{
		Exchange: c.ex, Sent: c.sent(), Stages: c.transforms(), Overhead: c.overhead, Outcome: l.outcome, Status: c.ending.status, Turn: c.ending.turn,
		Cost: l.cost, ClientCost: l.own, Priced: l.priced,
	})
}
