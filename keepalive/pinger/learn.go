// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

const (
	// learnFrom is the time span of records that habits are learned from.
	learnFrom = 28 * 24 * time.Hour
	// learnTime bounds the duration of reading.
	learnTime = time.Minute
)

var errEnough = errors.New("enough was read")

// Learn implements [state.Learner]: it reads the pauses of users from the records, once.
func (k *Keeper) Learn(ctx context.Context, from audit.Source) error {
	if !k.learned.CompareAndSwap(false, true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	now := time.Now()
	history, err := pausesOf(ctx, from, now.Add(-learnFrom))
	if errors.Is(err, context.Canceled) { // the configuration has ended; the next one reads
		k.learned.Store(false)
		return nil
	}
	history.Teach(&k.Schedule.Learned, now)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func pausesOf(ctx context.Context, source audit.Source, since time.Time) (*keepalive.History, error) {
	h := new(keepalive.History)
	err := source.Each(ctx, since, func(r *audit.Record) error {
		if r.Kind != audit.KindTurn || r.Turns != 1 || r.Outcome != audit.Completed ||
			!wire.Format(r.UpstreamFormat).Traits().Markers {
			return nil
		}
		if !h.Add(keepalive.Past{
			Habit: keepalive.Habit{
				Tenant: audit.TenantKey(r.Tenant), Client: keepalive.Client(r.Client),
				Hour: uint8(r.At.Local().Hour()),
			},
			Session: r.Session, Conversation: r.Conversation, At: r.At, Tool: r.StopReason == "tool_use",
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
