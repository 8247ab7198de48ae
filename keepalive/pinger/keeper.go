// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pinger sends the pings that keep the caches of idle conversations alive.
package pinger

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Keeper sends the pings of one session store. It outlives configurations, as the store does. A
// ping takes the route of the configuration that runs when the ping is due.
type Keeper struct {
	// Schedule has the idle conversations and the times of their pings.
	Schedule *keepalive.Schedule
	// Tiers compares the lifetimes of the cache.
	Tiers keepalive.Tiers
	// Store tells which conversations another process has continued and keeps warm. Optional.
	Store *sessioncache.Store

	// Watcher receives the pings and their pauses. It must be set before the first request. Optional.
	Watcher Watcher

	sender  *selfrequest.Sender
	clock   clock.Clock
	learned atomic.Bool

	mu    sync.Mutex
	timer clock.Timer // of the next look at the schedule
	sum   Sum
}

// Of returns the keeper of a state.
func Of(s *state.State) *Keeper {
	return state.Part(s, func() *Keeper {
		k := New(&s.Sender, s.Clock)
		k.Store = s.Store
		return k
	})
}

// Interface guards
var (
	_ state.Holder    = (*Keeper)(nil)
	_ state.Forgetter = (*Keeper)(nil)
	_ state.Stopper   = (*Keeper)(nil)
	_ state.Viewer    = (*Keeper)(nil)
	_ state.Learner   = (*Keeper)(nil)
)

// instant reads a time by both clocks. Tests set the two apart.
var instant = keepalive.At

// New returns a keeper that sends its pings through sender.
func New(sender *selfrequest.Sender, c clock.Clock) *Keeper {
	return &Keeper{Schedule: keepalive.New((*Limits)(nil).options()), sender: sender, clock: c}
}

func (k *Keeper) now() keepalive.Instant { return instant(k.clock.Now()) }

func (k *Keeper) at(t time.Time) keepalive.Instant {
	now := k.clock.Now()
	return instant(now).Add(-max(0, now.Sub(t)))
}

// maxWait bounds the time between two looks at the schedule.
const maxWait = 30 * time.Second

func (k *Keeper) awake() {
	k.mu.Lock()
	defer k.mu.Unlock()
	due, ok := k.Schedule.Next()
	// Without a next ping, the end of a ping or the next idle conversation sets the time.
	if !ok || k.sender.Running() == nil {
		return
	}
	// The timers of a machine that slept may fire late.
	wait := min(due-k.now().Mono, maxWait)
	if k.timer == nil {
		k.timer = k.clock.After(wait, "scheduling pings", k.look)
		return
	}
	k.timer.Reset(wait)
}

func (k *Keeper) look() {
	defer k.awake()
	for _, p := range k.Schedule.Due(k.now()) {
		// Pings run concurrently: a slow upstream must not delay the others.
		k.clock.After(0, "pinging", func() {
			defer k.awake()
			k.ping(p)
		})
	}
}

// Use applies the limits of the configuration in force.
func (k *Keeper) Use(l *Limits) {
	k.Schedule.Configure(l.options())
	k.awake()
}

// Stop ends the keeper; its sender must have stopped. It cancels the pings in flight and does not
// wait for them.
func (k *Keeper) Stop() {
	k.Schedule.Stop()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timer != nil {
		k.timer.Stop()
	}
}

// Targets counts the idle conversations that may be pinged.
func (k *Keeper) Targets() int { return k.Schedule.Stats(k.now()).Targets }

func init() { // a variable would put the gauge into the initialization order
	metric.GaugeFunc("ping_targets", "Idle conversations that may be pinged.", func(i *shared.Instance) (sum float64) {
		for _, s := range state.Open(i) {
			sum += float64(Of(s).Targets())
		}
		return sum
	})
}

// ForgetSession implements [state.Forgetter]: it removes the pings of a session and their credentials.
func (k *Keeper) ForgetSession(x *sessioncache.Session) { k.Schedule.Forget(x.ID()) }

// Budget implements [state.Holder], for the last requests of idle conversations, compressed.
func (*Keeper) Budget() memory.Part { return memory.Pings }

// SetLimit implements [state.Holder].
func (k *Keeper) SetLimit(n int64) { k.Schedule.SetMemory(n) }

// View implements [state.Viewer].
func (k *Keeper) View(v *page.View) {
	r := k.Report()
	v.KeepAlive.Targets += r.Schedule.Targets
	v.KeepAlive.Pings += r.Sum.Pings
	v.KeepAlive.Cost += r.Sum.Cost
	v.KeepAlive.Saved += r.Sum.Saved
}

// Bytes implements [state.Holder].
func (k *Keeper) Bytes() int64 { return k.Schedule.Bytes() }
