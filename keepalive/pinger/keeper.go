// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package pinger sends the pings that keep the caches of idle conversations alive.
package pinger

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/selfrequest"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Keeper sends the pings of one session store. Like the store it outlives
// configurations: what is idle is known here, and which way a ping takes is
// found out in the configuration that runs when it is due.
type Keeper struct {
	// Schedule is what is idle, and when to ping it.
	Schedule *keepalive.Schedule
	// Tiers is whether the long lifetime would be cheaper.
	Tiers keepalive.Tiers
	// Shared tells which conversations other processes have gone on with, and keep
	// warm. Nil where there are none.
	Shared sessioncache.Publisher

	carrier *selfrequest.Carrier
	now     func() keepalive.Instant
	manual  bool // pings are sent when asked for, on a clock of the caller's

	mu      sync.Mutex
	wake    chan struct{}
	halt    context.CancelFunc // nil while not running
	done    chan struct{}
	watcher Watcher
	sum     Sum
}

// clock is what keepers tell time by. Tests replace it.
var clock = keepalive.Now

// New returns a keeper, whose pings are carried by c.
func New(c *selfrequest.Carrier) *Keeper {
	return &Keeper{
		Schedule: keepalive.New((*Limits)(nil).options()), carrier: c,
		now: func() keepalive.Instant { return clock() }, wake: make(chan struct{}, 1),
	}
}

// at is the instant of a time that lies a little in the past.
func (k *Keeper) at(t time.Time) keepalive.Instant {
	now := k.now()
	if k.manual {
		return keepalive.At(t)
	}
	return now.Add(-max(0, time.Since(t)))
}

// awake lets the keeper look at its schedule, and starts it if need be.
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
	default:
	}
}

// Use applies the limits of the configuration that has come into force.
func (k *Keeper) Use(l *Limits) {
	k.Schedule.Configure(l.options())
	k.awake()
}

// Attach puts the keeper on a clock of the caller's, who then has its pings sent.
func (k *Keeper) Attach(now func() time.Time) {
	k.manual = true
	k.now = func() keepalive.Instant { return keepalive.At(now()) }
	k.Schedule.Configure(keepalive.Options{})
}

// Stop ends the keeper, whose carrier has been stopped. It does not wait for pings in flight, which are canceled.
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

// run sends what is due until ctx ends.
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

// longestWait is after how long the schedule is looked at although nothing
// seems due: timers of a machine that slept may come late.
const longestWait = 30 * time.Second

// step sends what is due by a clock of the caller's, one after the other.
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

// Manual reports whether the keeper is on a clock of its caller's.
func (k *Keeper) Manual() bool { return k.manual }

// Targets counts the idle conversations that may be pinged.
func (k *Keeper) Targets() int { return k.Schedule.Stats(k.now()).Targets }

// Forget forgets what is pinged for a session, and with whose credential.
func (k *Keeper) Forget(session string) { k.Schedule.Forget(session) }

// SetMemory bounds the last requests of idle conversations, compressed, in bytes.
func (k *Keeper) SetMemory(n int64) { k.Schedule.SetMemory(n) }

// Bytes is the memory that they take.
func (k *Keeper) Bytes() int64 { return k.Schedule.Bytes() }

// Next is when the next decision about a ping is due, for a keeper on a clock of its
// caller's; false if none is.
func (k *Keeper) Next() (time.Time, bool) {
	due, ok := k.Schedule.Next()
	return time.Unix(0, 0).Add(due).UTC(), ok
}

// Send sends the pings that are due by the caller's clock, and tells watcher what
// becomes of them and of the pauses they were sent in.
func (k *Keeper) Send(watcher Watcher) {
	k.mu.Lock()
	k.watcher = watcher
	k.mu.Unlock()
	k.step()
}
