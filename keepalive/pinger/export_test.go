// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

var ahead, set atomic.Int64

func init() {
	instant = func(t time.Time) keepalive.Instant {
		now := keepalive.At(t).Add(time.Duration(ahead.Load()))
		now.Wall = now.Wall.Add(time.Duration(set.Load()))
		return now
	}
}

// SetCalendar moves the calendar without any time passing.
func SetCalendar(d time.Duration) { set.Add(int64(d)) }

// Advance moves the clock of all keepers ahead.
func Advance(d time.Duration) { ahead.Add(int64(d)) }

// Awake makes the keeper check its schedule.
func (k *Keeper) Awake() { k.awake() }

// Now is the keeper's time.
func (k *Keeper) Now() time.Duration { return k.now().Mono }
