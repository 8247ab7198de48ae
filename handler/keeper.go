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
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// keeper sends the pings of one session store. Like the store it outlives
// configurations: what is idle is known here, and which way a ping takes is
// found out in the configuration that runs when it is due.
type keeper struct {
	schedule *keepalive.Schedule
	tiers    keepalive.Tiers
	now      func() keepalive.Instant
	learned  atomic.Bool // from the record
	manual   bool        // pings are sent when asked for, on a clock of the caller's

	mu      sync.Mutex
	inForce *App // nil if no configuration is
	wake    chan struct{}
	halt    context.CancelFunc // nil while not running
	life    context.Context    //nolint:containedctx // of what is sent without a schedule: as long as there is a configuration
	end     context.CancelFunc
	done    chan struct{}
	watcher PingWatcher
	sum     KeepAliveSum
}

// PingWatcher is told of every ping when it is over, and of every pause with
// pings when it is. It must be quick.
type PingWatcher interface {
	// Pinged is told of a ping.
	Pinged(PingRecord)
	// Resumed is told of a pause.
	Resumed(PauseRecord)
}

// PingRecord is one ping. Costs are in units of one uncached input token.
type PingRecord struct {
	// Session and Lineage name the conversation, Tenant whose it is.
	Session string `json:"session"`
	// Lineage: see Session.
	Lineage int `json:"lineage"`
	// Tenant: see Session.
	Tenant [16]byte `json:"-"`
	// Number counts the pings of one pause from 1 on.
	Number int `json:"number"`
	// At is when it was sent.
	At time.Time `json:"at"`
	// Model is the model asked.
	Model string `json:"model"`
	// Outcome is what became of it.
	Outcome keepalive.Outcome `json:"outcome"`
	// Usage is what the upstream reported, and Cost what that costs.
	Usage wire.Usage `json:"usage"`
	// Cost: see Usage.
	Cost float64 `json:"cost"`
	// Dollars is the same in US dollars, 0 where the price is not known.
	Dollars float64 `json:"dollars"`
}

// PauseRecord is one pause with pings, when the client is back and was answered.
type PauseRecord struct {
	// Session and Lineage name the conversation.
	Session string `json:"session"`
	// Lineage: see Session.
	Lineage int `json:"lineage"`
	// At is when the client came back.
	At time.Time `json:"at"`
	// Age is how long the pause was, from the start of one request to that of
	// the next, in nanoseconds.
	Age time.Duration `json:"age"`
	// Pings is their number, Cost what they cost, and Saved what the next
	// request then did not pay.
	Pings int `json:"pings"`
	// Cost: see Pings.
	Cost float64 `json:"cost"`
	// Saved: see Pings.
	Saved float64 `json:"saved"`
}

// KeepAliveSum is what all pings have come to.
type KeepAliveSum struct {
	// Pings is their number, Cost what they cost and Saved what the requests
	// after them did not pay, in units of one uncached input token.
	Pings int `json:"pings"`
	// Cost: see Pings.
	Cost float64 `json:"cost"`
	// Saved: see Pings.
	Saved float64 `json:"saved"`
}

// clock is what keepers tell time by. Tests replace it.
var clock = keepalive.Now

func newKeeper() *keeper {
	return &keeper{schedule: keepalive.New((*KeepAliveLimits)(nil).options()), now: func() keepalive.Instant { return clock() }, wake: make(chan struct{}, 1)}
}

// at is the instant of a time that lies a little in the past.
func (k *keeper) at(t time.Time) keepalive.Instant {
	now := k.now()
	if k.manual {
		return keepalive.At(t)
	}
	return now.Add(-max(0, time.Since(t)))
}

// awake lets the keeper look at its schedule, and starts it if need be.
func (k *keeper) awake() {
	if k.manual {
		return
	}
	k.mu.Lock()
	if k.halt == nil && k.inForce != nil {
		ctx, cancel := context.WithCancel(context.Background())
		k.halt, k.done = cancel, make(chan struct{})
		go layer.Background("keeping caches alive", func() { k.run(ctx, k.done) })
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// use makes a configuration the one in force.
func (k *keeper) use(a *App) {
	k.schedule.Configure(a.KeepAlive.options())
	k.mu.Lock()
	k.inForce = a
	if k.life == nil {
		k.life, k.end = context.WithCancel(context.Background())
	}
	k.mu.Unlock()
	k.awake()
}

// app is the configuration in force, nil if there is none.
func (k *keeper) app() *App {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inForce
}

// running is the context of requests of ours, which end with the last
// configuration; nil while there is none through whose sites they could go.
func (k *keeper) running() context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.life
}

// attach puts the keeper on a clock of the caller's, who then has its pings sent.
func (k *keeper) attach(now func() time.Time) {
	k.manual = true
	k.now = func() keepalive.Instant { return keepalive.At(now()) }
	k.schedule.Configure(keepalive.Options{})
}

// stop ends the keeper. It does not wait for pings in flight, which are canceled.
func (k *keeper) stop() {
	k.mu.Lock()
	halt, done := k.halt, k.done
	k.halt, k.inForce = nil, nil
	if k.life != nil {
		k.end()
		k.life, k.end = nil, nil
	}
	k.mu.Unlock()
	k.schedule.Stop()
	if halt != nil {
		halt()
		<-done
	}
}

// run sends what is due until ctx ends.
func (k *keeper) run(ctx context.Context, done chan<- struct{}) {
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
		layer.Background("scheduling pings", func() {
			for _, p := range k.schedule.Due(k.now()) {
				go layer.Background("pinging", func() {
					defer k.awake()
					k.ping(p)
				})
			}
			if due, ok := k.schedule.Next(); ok {
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
func (k *keeper) step() {
	for {
		due := k.schedule.Due(k.now())
		if len(due) == 0 {
			return
		}
		for _, p := range due {
			k.ping(p)
		}
	}
}

// account closes a pause: what its pings have cost, and what the request after
// it did not pay for them.
func (k *keeper) account(c *call) {
	rules, u := c.ex.Rules(), c.turn.Usage
	s := c.stretch
	saved := 0.0
	write := rules.Write
	if s.Lifetime == rules.LongTTL {
		write = rules.Write1h
	}
	if s.Kept {
		saved = float64(u.Read) * (write - rules.Read)
	}
	tier := keepalive.Usage{New: u.Write5m, Pings: s.Cost, Write: rules.Write, WriteLong: rules.Write1h, Read: rules.Read}
	if s.Age > s.Lifetime && s.Age <= rules.LongTTL && !s.Kept {
		tier.New, tier.Anew = 0, u.Write5m
	}
	if rules.LongTTL > 0 && s.Lifetime < rules.LongTTL {
		k.tiers.Add(c.tenant, tier)
	}
	if s.Pings == 0 {
		return
	}
	c.ex.Kept(saved - s.Cost)
	metrics.pingSaved.Add(saved)
	k.mu.Lock()
	k.sum.Saved += saved
	watcher := k.watcher
	k.mu.Unlock()
	if watcher != nil {
		lineage, _ := c.ex.Committed()
		watcher.Resumed(PauseRecord{Session: c.id, Lineage: lineage, At: c.ex.Start(), Age: s.Age, Pings: s.Pings, Cost: s.Cost, Saved: saved})
	}
}

// KeepAliveReport is the operator's view of the pings of one session store.
type KeepAliveReport struct {
	// Schedule is what is held and was decided.
	Schedule keepalive.Stats `json:"schedule"`
	// NextSeconds is the time to the next decision, absent if none is due.
	NextSeconds *float64 `json:"next_seconds,omitempty"`
	// Sum is what all pings have come to.
	Sum KeepAliveSum `json:"sum"`
	// Tiers tells whether the long lifetime would have been cheaper.
	Tiers keepalive.TierReport `json:"tiers"`
}

func (k *keeper) report() KeepAliveReport {
	now := k.now()
	r := KeepAliveReport{Schedule: k.schedule.Stats(now), Tiers: k.tiers.Report()}
	if due, ok := k.schedule.Next(); ok {
		s := max(due-now.Mono, 0).Seconds()
		r.NextSeconds = &s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r.Sum = k.sum
	return r
}

// NextPing is when the next decision about a ping is due, for a handler that
// was attached to a clock of its caller's; false if none is.
func (h *Handler) NextPing() (time.Time, bool) {
	due, ok := h.state.keeper.schedule.Next()
	return time.Unix(0, 0).Add(due).UTC(), ok
}

// SendPings sends the pings that are due by the caller's clock, and tells
// watcher what becomes of them and of the pauses they were sent in.
func (h *Handler) SendPings(watcher PingWatcher) {
	k := h.state.keeper
	k.mu.Lock()
	k.watcher = watcher
	k.mu.Unlock()
	k.step()
}
