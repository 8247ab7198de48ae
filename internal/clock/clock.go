// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package clock is the time that sessions and background work go by. A Caddy goes by [Machine]; a
// replay of recorded conversations moves a clock of its own.
package clock

import (
	"context"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
)

// Clock tells the time, and starts background work at a later time.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// After runs f in the background after a delay, at once if the delay is not positive. The log
	// of a panic in f names the work by doing.
	After(delay time.Duration, doing string, f func()) Timer
	// Sleep pauses background work for a time, or until ctx ends.
	Sleep(ctx context.Context, d time.Duration)
}

// Timer is delayed background work. Its methods are those of [time.Timer].
type Timer interface {
	Stop() bool
	Reset(delay time.Duration) bool
}

// Machine is the clock of this machine.
var Machine Clock = machine{}

type machine struct{}

func (machine) Now() time.Time { return time.Now() }

func (machine) After(delay time.Duration, doing string, f func()) Timer {
	return time.AfterFunc(delay, func() { httpx.Background(doing, f) })
}

func (machine) Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
