// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

const (
	// learnFrom is the time span of records that habits are learned from.
	learnFrom = 28 * 24 * time.Hour
	// learnTime bounds the duration of reading.
	learnTime = time.Minute
)

// errEnough ends reading early.
var errEnough = errors.New("enough was read")

// learn teaches the keeper the pauses of users from the records, in the background and once. It
// needs a store that can be read again.
func (a *App) learn(ctx context.Context) {
	s := a.lease.State
	source, err := a.ledger.Sink.store.source()
	if err != nil || source == nil || !s.learned.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	go httpx.Background("learning from the audit store", func() {
		defer cancel()
		now := time.Now()
		history, err := pausesOf(ctx, source, now.Add(-learnFrom))
		if errors.Is(err, context.Canceled) { // the configuration has ended; the next one reads
			s.learned.Store(false)
			return
		}
		history.Teach(&s.Keeper.Schedule.Learned, now)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			a.logger.Warn("learning from the audit store how long people pause", zap.Error(err))
		}
	})
}

// pausesOf reads the pauses since a time.
func pausesOf(ctx context.Context, source audit.Source, since time.Time) (*keepalive.History, error) {
	h := new(keepalive.History)
	err := source.Each(ctx, since, func(r *audit.Record) error {
		if r.Kind != audit.KindTurn || r.Turns != 1 || r.Outcome != audit.Completed || !wire.Format(r.UpstreamFormat).Traits().Markers {
			return nil
		}
		if !h.Add(keepalive.Past{
			Habit:   keepalive.Habit{Tenant: audit.TenantKey(r.Tenant), Client: keepalive.Client(r.Client), Hour: uint8(r.At.Local().Hour())},
			Session: r.Session, Lineage: r.Lineage, At: r.At, Tool: r.StopReason == "tool_use",
		}) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return h, err
}
