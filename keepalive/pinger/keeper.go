// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pinger sends the pings that keep the caches of idle conversations alive.
package pinger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Keeper sends the pings of one session store. It outlives configurations, as the store does. A
// ping takes the route of the configuration that runs when the ping is due.
type Keeper struct {
	// Schedule holds the idle conversations and the times of their pings.
	Schedule *keepalive.Schedule
	// Tiers compares the lifetimes of the cache.
	Tiers keepalive.Tiers
	// Store tells which conversations another process has continued and keeps warm. Optional.
	Store *sessioncache.Store

	carrier *selfrequest.Carrier
	now     func() keepalive.Instant
	manual  bool // pings are sent by Send alone, on the caller's clock
	learned atomic.Bool

	mu      sync.Mutex
	wake    chan struct{}
	halt    context.CancelFunc // nil while not running
	done    chan struct{}
	watcher Watcher
	sum     Sum
}

// Of returns the keeper of a state.
func Of(s *state.State) *Keeper {
	return state.Part(s, func() *Keeper {
		k := New(&s.Carrier)
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

// clock is the time of all keepers. Tests replace it.
var clock = keepalive.Now

// New returns a keeper that sends its pings through c.
func New(c *selfrequest.Carrier) *Keeper {
	return &Keeper{
		Schedule: keepalive.New((*Limits)(nil).options()), carrier: c,
		now: func() keepalive.Instant { return clock() }, wake: make(chan struct{}, 1),
	}
}

// at converts a time shortly before now.
func (k *Keeper) at(t time.Time) keepalive.Instant {
	now := k.now()
	if k.manual {
		return keepalive.At(t)
	}
	return now.Add(-max(0, time.Since(t)))
}

// awake lets the keeper check its schedule, and starts its goroutine if necessary.
func (k *Keeper) awake() {
	if k.manual {
		return
	}
	k.mu.Lock()
	if k.halt == nil && k.carrier.Running() != nil {
		ctx, cancel := context.WithCancel(context.Background())
		k.halt, k.done = cancel, make(chan struct{})
		go httpx.Background("keeping caches alive", func() { k.run(ctx, k.done) })
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	// A pending wake-up is enough.
	default:
	}
}

// Use applies the limits of the configuration in force.
func (k *Keeper) Use(l *Limits) {
	k.Schedule.Configure(l.options())
	k.awake()
}

// Attach puts the keeper on the caller's clock. The caller then sends the pings by Send.
func (k *Keeper) Attach(now func() time.Time) {
	k.manual = true
	k.now = func() keepalive.Instant { return keepalive.At(now()) }
	k.Schedule.Configure(keepalive.Options{})
}

// Stop ends the keeper; its carrier must have stopped. It cancels the pings in flight and does not
// wait for them.
func (k *Keeper) Stop() {
	k.mu.Lock()
	halt, done := k.halt, k.done
	k.halt = nil
	k.mu.Unlock()
	k.Schedule.Stop()
	if halt != nil {
		halt()
		<-done
	}
}

// run sends the pings that are due until ctx ends.
func (k *Keeper) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-timer.C:
		}
		wait := longestWait
		httpx.Background("scheduling pings", func() {
			for _, p := range k.Schedule.Due(k.now()) {
				go httpx.Background("pinging", func() {
					defer k.awake()
					k.ping(p)
				})
			}
			if due, ok := k.Schedule.Next(); ok {
				wait = min(max(due-k.now().Mono, 0), longestWait)
			}
		})
		timer.Reset(wait)
	}
}

// longestWait is the maximum time between two checks of the schedule. The timers of a machine that
// slept may fire late.
const longestWait = 30 * time.Second

// step sends the pings that are due by the caller's clock, one after the other.
func (k *Keeper) step() {
	for {
		due := k.Schedule.Due(k.now())
		if len(due) == 0 {
			return
		}
		for _, p := range due {
			k.ping(p)
		}
	}
}

// Manual reports whether the keeper is on its caller's clock.
func (k *Keeper) Manual() bool { return k.manual }

// Targets counts the idle conversations that may be pinged.
func (k *Keeper) Targets() int { return k.Schedule.Stats(k.now()).Targets }

func init() { // a variable would put the gauge into the initialization order
	metric.GaugeFunc("ping_targets", "Idle conversations that may be pinged.", func() (sum float64) {
		for _, s := range state.Open() {
			sum += float64(Of(s).Targets())
		}
		return sum
	})
}

// ForgetSession implements [state.Forgetter]: it removes the pings of a session and their
// credentials.
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

// Next is the time of the next decision, for a keeper on its caller's clock. It returns false if
// none is due.
func (k *Keeper) Next() (time.Time, bool) {
	due, ok := k.Schedule.Next()
	return time.Unix(0, 0).Add(due).UTC(), ok
}

// Send sends the pings that are due by the caller's clock. It reports the pings and their pauses to
// watcher.
func (k *Keeper) Send(watcher Watcher) {
	k.mu.Lock()
	k.watcher = watcher
	k.mu.Unlock()
	k.step()
}
