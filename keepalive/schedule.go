// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"cmp"
	"container/heap"
	"maps"
	"sync"
	"time"
)

// ID names an idle conversation: a session's id and the number of a lineage in it.
type ID struct {
	// Session is the session's id.
	Session string
	// Lineage is the number of the conversation in its session.
	Lineage int
}

// Target is an idle conversation, as it is put into the schedule.
type Target struct {
	// Habit and Moment say how long the pause may last.
	Habit  Habit
	Moment Moment
	// Begun is when the request began after which it fell idle.
	Begun Instant
	// Lifetime is how long the cache lives from the start of a request or ping.
	Lifetime time.Duration
	// Every is the time from one of these to the next ping.
	Every time.Duration
	// Most is the number of pings that one pause may have.
	Most int
	// Prompt is the length of what a ping reads from the cache, and Tail what it
	// carries behind that, in tokens.
	Prompt, Tail int64
	// Cold is what is gained if the cache is not kept alive: history that could
	// then be edited for nothing. It lessens what a return saves.
	Cold float64
	// Write and Read are the prices of cached tokens, as multiples of uncached input.
	Write, Read float64
	// Dollars is the price of an uncached input token, 0 if not known.
	Dollars float64
	// Stake is what all pings that have not paid back yet may cost: see
	// [Stretch].
	Stake float64
	// Payload is what the sender needs, nil for a pause that is only watched. It
	// is wiped as soon as no ping can follow.
	Payload Payload

	held int64 // what the payload stands for in the schedule's account
}

// Payload is what a target holds in memory: a body, and a credential.
type Payload interface {
	// Size is the memory that it takes, in bytes.
	Size() int64
	// Wipe overwrites what is secret and lets go of the rest.
	Wipe()
}

// ping is what one ping of the target costs.
func (t *Target) ping() float64 { return float64(t.Prompt)*t.Read + float64(t.Tail) }

// gain is what a return saves that finds the cache alive.
func (t *Target) gain() float64 { return float64(t.Prompt)*(t.Write-t.Read) - t.Cold }

// Stretch is what was done in one pause.
type Stretch struct {
	// Pings is the number of pings sent, Cost what they cost by the usage that
	// was reported.
	Pings int
	// Cost: see Pings.
	Cost float64
	// Age is how long the pause lasted, from the start of the request before it.
	Age time.Duration
	// Lifetime is how long the cache would have lived without pings.
	Lifetime time.Duration
	// Kept reports whether the pings have kept the cache alive to the end of a pause
	// that was longer than that.
	Kept bool
}

// entry is a target's place in the schedule.
type entry struct {
	*Target
	id     ID
	due    time.Duration // by the monotonic clock
	last   Instant       // the start of the last request or ping
	sent   int
	cost   float64
	flying *Ping
	alive  bool // the cache was alive when last heard of
	index  int  // in the heap, -1 while flying
}

// Schedule holds idle conversations by the time at which something is to be
// decided about them. It may be used from several goroutines.
type Schedule struct {
	mu      sync.Mutex
	options Options
	queue   queue
	idle    map[ID]*entry
	active  map[ID]int // requests in flight
	flying  int
	bytes   int64
	budget  Budget
	stopped bool
	stats   Stats

	// Learned is what was learned from the pauses watched.
	Learned Learned
}

// Options bound what a schedule does.
type Options struct {
	// Flying is the number of pings in flight at a time. Default: 4.
	Flying int
	// Memory bounds the payloads held, in bytes. Beyond it the one that is
	// expected to earn the least for its size goes. Default: 64 MiB.
	Memory int64
	// Hourly and TenantHourly bound what pings cost within an hour, in US
	// dollars, in all and for each tenant. 0 means no bound.
	Hourly, TenantHourly float64
	// Jitter returns a random part of a wait by which a ping goes out earlier,
	// so that conversations that fell idle together do not ping together.
	// Default: none.
	Jitter func(wait time.Duration) time.Duration
}

func (o *Options) defaults() {
	if o.Flying <= 0 {
		o.Flying = 4
	}
	if o.Memory <= 0 {
		o.Memory = 64 << 20
	}
	if o.Jitter == nil {
		o.Jitter = func(time.Duration) time.Duration { return 0 }
	}
}

// Stats count what a schedule holds and has done.
type Stats struct {
	// Targets is the number of idle conversations that may still be pinged,
	// Watched that of those whose return is only awaited, Bytes what the
	// payloads take.
	Targets int `json:"targets"`
	// Watched: see Targets.
	Watched int `json:"watched"`
	// Bytes: see Targets.
	Bytes int64 `json:"bytes"`
	// Flying is the number of pings in flight.
	Flying int `json:"in_flight"`
	// Stopped counts conversations that are not pinged any more, by reason.
	Stopped map[Reason]int `json:"stopped"`
	// HourDollars is what pings have cost within the running hour.
	HourDollars float64 `json:"hour_dollars"`
}

// Reason is why a conversation is not pinged any more.
type Reason string

// The reasons.
const (
	// Returned: the client came back.
	Returned Reason = "returned"
	// Worthless: the next ping is not worth its price.
	Worthless Reason = "worthless"
	// Late: the cache has expired, because the process did not run or the
	// calendar was set.
	Late Reason = "late"
	// Staked: the conversation's pings have cost as much as they may.
	Staked Reason = "stake"
	// Broke: the money for this hour is spent.
	Broke Reason = "budget"
	// Displaced: its memory was needed for others.
	Displaced Reason = "memory"
	// Wrote: a ping had to write, so the cache was gone.
	Wrote Reason = "wrote"
	// Refused: the upstream answered 401, 402, 403 or 429.
	Refused Reason = "refused"
	// Failed: a ping failed for any other reason.
	Failed Reason = "failed"
	// Ended: the schedule was stopped.
	Ended Reason = "ended"
)

// New returns an empty schedule.
func New(o Options) *Schedule {
	o.defaults()
	return &Schedule{options: o, idle: map[ID]*entry{}, active: map[ID]int{}, stats: Stats{Stopped: map[Reason]int{}}}
}

// Configure changes the bounds of a running schedule. Without a bound of the memory, that
// stays as it is.
func (s *Schedule) Configure(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Memory = cmp.Or(o.Memory, s.options.Memory)
	o.defaults()
	s.options = o
	s.fit()
}

// SetMemory changes the bound of the payloads held, in bytes.
func (s *Schedule) SetMemory(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Memory = n
	s.fit()
}

// Bytes is the memory that the payloads take.
func (s *Schedule) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Enter notes that a request of a conversation begins. Until as many have left
// it is not pinged, and a ping in flight is canceled. What was done in the pause
// that ends is returned, nil if none was watched.
func (s *Schedule) Enter(id ID, now Instant) *Stretch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[id]++
	e := s.idle[id]
	if e == nil {
		return nil
	}
	age, certain := now.since(e.Begun)
	since, _ := now.since(e.last)
	if certain {
		s.Learned.Observe(e.Habit, e.Moment, age, true)
	}
	s.remove(e, Returned)
	return &Stretch{
		Pings: e.sent, Cost: e.cost, Age: age, Lifetime: e.Lifetime,
		Kept: e.alive && e.sent > 0 && age > e.Lifetime && since <= e.Lifetime,
	}
}

// Leave notes that a request is over, whose conversation was entered or begins
// with it. If no other one of it is in flight, the conversation falls idle as
// the target says; with none it is not pinged.
func (s *Schedule) Leave(id ID, entered bool, t *Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entered {
		if s.active[id]--; s.active[id] <= 0 {
			delete(s.active, id)
		}
	}
	if t == nil {
		return
	}
	if s.stopped || s.active[id] > 0 {
		t.wipe()
		return
	}
	if old := s.idle[id]; old != nil {
		s.remove(old, Returned)
	}
	e := &entry{Target: t, id: id, last: t.Begun, alive: true}
	s.idle[id] = e
	if t.Payload != nil {
		t.held = t.Payload.Size()
		s.bytes += t.held
		e.due = t.Begun.Mono + t.Every - s.options.Jitter(t.Every)
	} else {
		e.due = t.Begun.Mono + patience
	}
	heap.Push(&s.queue, e)
	s.fit()
}

// fit lets payloads go until the rest fits. Those in flight stay.
func (s *Schedule) fit() {
	for s.bytes > s.options.Memory && s.displace() {
	}
}

func (t *Target) wipe() {
	if t.Payload != nil {
		t.Payload.Wipe()
		t.Payload = nil
	}
}

// Drop forgets a conversation that has ended or gone another way.
func (s *Schedule) Drop(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.idle[id]; e != nil {
		s.remove(e, Ended)
	}
}

// Forget forgets all conversations of a session and cancels their pings.
func (s *Schedule) Forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.idle {
		if id.Session == session {
			s.remove(e, Ended)
		}
	}
}

// Stop forgets all conversations and cancels all pings in flight. Nothing is
// scheduled any more.
func (s *Schedule) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, e := range s.idle {
		s.remove(e, Ended)
	}
}

// Next is when something is next to be done, by the monotonic clock.
func (s *Schedule) Next() (at time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || s.flying >= s.options.Flying {
		return 0, false
	}
	return s.queue[0].due, true
}

// Due decides about all conversations whose time has come and returns the pings
// that are to be sent now. Each must be ended by [Ping.End]. There are no more
// than may be in flight: the others stay due.
func (s *Schedule) Due(now Instant) []*Ping {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Ping
	for len(s.queue) > 0 && s.queue[0].due <= now.Mono && s.flying < s.options.Flying {
		if p := s.decide(s.queue[0], now); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// decide pings a conversation or leaves it to itself.
func (s *Schedule) decide(e *entry, now Instant) *Ping {
	if e.Payload == nil { // watched long enough
		s.Learned.Observe(e.Habit, e.Moment, patience, false)
		s.remove(e, Ended)
		return nil
	}
	waited, certain := now.since(e.last)
	switch {
	case !certain || waited >= e.Lifetime-arrival:
		s.leave(e, Late)
		return nil
	case e.cost+e.ping() > e.Stake:
		s.leave(e, Staked)
		return nil
	}
	if n, _ := s.plan(e); n <= e.sent {
		s.leave(e, Worthless)
		return nil
	}
	if !s.budget.take(e.Habit.Tenant, e.ping()*e.Dollars, now, &s.options) {
		s.leave(e, Broke)
		return nil
	}
	heap.Remove(&s.queue, e.index)
	s.flying++
	e.flying = &Ping{Target: e.Target, schedule: s, entry: e, begun: now, canceled: make(chan struct{})}
	return e.flying
}

// arrival is what is left of a lifetime for a ping to arrive in.
const arrival = 2 * time.Second

func (s *Schedule) plan(e *entry) (int, float64) {
	p := float64(max(e.Prompt, 1))
	return Plan(&Case{
		Chance: s.Learned.Chance(e.Habit, e.Moment), Lifetime: e.Lifetime, Every: e.Every,
		Ping: e.ping() / p, Gain: e.gain() / p, Most: e.Most,
	}, e.sent)
}

// leave sends no more pings for a conversation and awaits its return.
func (s *Schedule) leave(e *entry, why Reason) {
	s.stats.Stopped[why]++
	s.release(e.Target)
	e.due = e.Begun.Mono + patience
	if e.index >= 0 {
		heap.Fix(&s.queue, e.index)
	} else {
		heap.Push(&s.queue, e)
	}
}

// release lets go of what a conversation holds. The account changes with it, and
// at no other place: a payload counts for what it did when it came, until it is
// wiped.
func (s *Schedule) release(t *Target) {
	s.bytes -= t.held
	t.held = 0
	t.wipe()
}

// remove takes a conversation out of the schedule.
func (s *Schedule) remove(e *entry, why Reason) {
	if e.Payload != nil {
		s.stats.Stopped[why]++
	}
	delete(s.idle, e.id)
	if e.flying != nil {
		close(e.flying.canceled)
		e.flying.entry, e.flying = nil, nil // its payload is wiped when it ends
		return
	}
	s.release(e.Target)
	heap.Remove(&s.queue, e.index)
}

// displace lets the payload go that is expected to earn the least for its size,
// of some of those that are due last. It returns false if there is none: what is
// in flight is let go of when it ends.
func (s *Schedule) displace() bool {
	const sample = 32
	var worst *entry
	least := 0.0
	for i := len(s.queue) - 1; i >= 0 && i >= len(s.queue)-4*sample; i-- {
		e := s.queue[i]
		if e.Payload == nil {
			continue
		}
		_, value := s.plan(e)
		value *= float64(e.Prompt) / float64(max(1, e.held))
		if worst == nil || value < least {
			worst, least = e, value
		}
	}
	if worst == nil {
		for _, e := range s.queue {
			if e.Payload != nil {
				worst = e
				break
			}
		}
	}
	if worst == nil {
		return false
	}
	s.leave(worst, Displaced)
	return true
}

// Stats returns what the schedule holds and has done.
func (s *Schedule) Stats(now Instant) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Bytes, out.Flying, out.HourDollars = s.bytes, s.flying, s.budget.spent(now)
	out.Stopped = make(map[Reason]int, len(s.stats.Stopped))
	maps.Copy(out.Stopped, s.stats.Stopped)
	for _, e := range s.idle {
		if e.Payload != nil {
			out.Targets++
		} else {
			out.Watched++
		}
	}
	return out
}

// queue is a heap by due time.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	e.index = -1
	return e
}
