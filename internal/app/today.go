// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

// today counts the turns of the process, recorded or not.
var today = page.NewTally(time.Now)

// seeded reports whether the turns on record before the process began are counted.
var seeded atomic.Bool

// Count counts a finished turn or internal request, by the host that it was sent to.
func Count(r *audit.Record, host string) {
	if r.Outcome == audit.Refused { // requests_total counts it
		today.Add(r)
		return
	}
	client := r.ClientUSD
	if !r.IsTurn() {
		client = 0 // no client has sent this request
	}
	countCost(r.USD, client, r.WouldSaveUSD)
	countAssumed(r)
	byPerson.count(r.User, r)
	byModel.count(r.ModelName(), r)
	bySite.count(siteOf(host), r)
	today.Add(r)
}

// seed counts the turns on record before the process began, in the background and once. It needs a
// store that can be read again.
func (a *App) seed() {
	source, err := a.ledger.Of.store.source()
	if err != nil || source == nil || !seeded.CompareAndSwap(false, true) {
		return
	}
	go httpx.Background("reading today's turns", func() {
		ctx, cancel := context.WithTimeout(context.Background(), learnTime)
		defer cancel()
		if err := today.Seed(ctx, source); err != nil && !errors.Is(err, context.Canceled) {
			a.logger.Warn("reading today's turns from the audit store", zap.Error(err))
		}
	})
}
