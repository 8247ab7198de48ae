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
	"context"

	"github.com/caddy-llm-cache/caddy-llm-cache/handler/tracing"
)

// trace begins the span of the request, nil where nothing is traced.
func (c *requestState) trace(ctx context.Context) *tracing.Span {
	return c.site.records.conventions.Begin(ctx, func() tracing.Request {
		return tracing.Request{
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
	c.books.span.End(ctx, &tracing.Answer{
		Exchange: c.ex, Sent: c.sent(), Stages: c.transforms(), Overhead: c.overhead, Outcome: l.outcome, Status: c.ending.status, Turn: c.ending.turn,
		Cost: l.cost, ClientCost: l.own, Priced: l.priced,
	})
}
