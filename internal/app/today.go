// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// turns counts the turns of an instance, recorded or not.
type turns struct {
	today                     *page.Tally
	byPerson, byModel, bySite *dimension
	seeded                    atomic.Bool // the turns on record before the process began are counted
}

func turnsOf(i *shared.Instance) *turns {
	return shared.Part(i, func() *turns {
		return &turns{
			today: page.NewTally(time.Now), byPerson: newDimension("person", 200), byModel: newDimension("model", 100), bySite: newDimension("site", 100),
		}
	})
}

func init() { // a variable would put these into the initialization order
	metric.Each(func(i *shared.Instance) (all []prometheus.Collector) {
		t := turnsOf(i)
		for _, d := range [...]*dimension{t.byPerson, t.byModel, t.bySite} {
			all = append(all, d.cost, d.tokens, d.turns)
		}
		return all
	})
}

// Count counts a finished turn or internal request, by the host that it was sent to.
func Count(i *shared.Instance, r *audit.Record, host string) {
	t := turnsOf(i)
	if r.Outcome == audit.Refused { // requests_total counts it
		t.today.Add(r)
		return
	}
	client := r.ClientUSD
	if !r.IsTurn() {
		client = 0 // no client has sent this request
	}
	countCost(r.USD, client, r.WouldSaveUSD)
	countAssumed(r)
	t.byPerson.count(r.User, r)
	t.byModel.count(r.ModelName(), r)
	t.bySite.count(siteOf(host), r)
	t.today.Add(r)
}

// seed counts the turns on record before the process began, in the background and once. It needs a
// store that can be read again.
func (a *App) seed() {
	t := turnsOf(a.instance)
	source, err := a.ledger.Of.store.source()
	if err != nil || source == nil || !t.seeded.CompareAndSwap(false, true) {
		return
	}
	go httpx.Background("reading today's turns", func() {
		ctx, cancel := context.WithTimeout(context.Background(), learnTime)
		defer cancel()
		if err := t.today.Seed(ctx, source); err != nil && !errors.Is(err, context.Canceled) {
			a.logger.Warn("reading today's turns from the audit store", zap.Error(err))
		}
	})
}
