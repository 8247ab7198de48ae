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

// ID names an idle conversation.
type ID struct {
	// Session is the session's id.
	Session string
	// Conversation is the number of the conversation in its session.
	Conversation int
}

// Target is an idle conversation to put into the schedule.
type Target struct {
	// Habit and Moment determine how long the pause may last.
	Habit  Habit
	Moment Moment
	// Begun is the start of the last request before the pause.
	Begun Instant
	// Lifetime is the time that the cache lives from the start of a request or ping.
	Lifetime time.Duration
	// Every is the time from a request or ping to the next ping.
	Every time.Duration
	// MaxPings is the maximum number of pings in one pause.
	MaxPings int
	// Prompt is the number of tokens that a ping reads from the cache. Tail is the number of tokens
	// behind them.
	Prompt, Tail int64
	// Cold is the value of an expired cache: history that could then be edited for free. It reduces
	// the gain of a return.
	Cold float64
	// Write and Read are the prices of cached tokens, as multiples of uncached input.
	Write, Read float64
	// Dollars is the price of an uncached input token in US dollars, 0 if unknown.
	Dollars float64
	// MaxLoss is the maximum cost of the pings in this pause.
	MaxLoss float64
	// Payload is the sender's data, nil for a pause that is only observed. It is wiped as soon as
	// no ping can follow.
	Payload Payload

	size int64 // the payload's size as counted in Schedule.bytes
}

// Payload is the data of a target in memory: a body and a credential.
type Payload interface {
	// Size is its memory, in bytes.
	Size() int64
	// Wipe overwrites the secrets and releases the rest.
	Wipe()
}

// ping is the cost of one ping of the target.
func (t *Target) ping() float64 { return float64(t.Prompt)*t.Read + float64(t.Tail) }

// gain is the saving of a return that finds the cache alive.
func (t *Target) gain() float64 { return float64(t.Prompt)*(t.Write-t.Read) - t.Cold }

// Stretch describes the pings of one pause.
type Stretch struct {
	// Pings is the number of pings sent.
	Pings int
	// Cost is the cost of the pings by the reported usage.
	Cost float64
	// Age is the length of the pause, from the start of the request before it.
	Age time.Duration
	// Lifetime is the time that the cache would have lived without pings.
	Lifetime time.Duration
	// Kept reports whether the pings kept the cache alive to the end of a pause longer than Lifetime.
	Kept bool
}

type entry struct {
	*Target
	id     ID
	due    time.Duration // by the monotonic clock
	last   Instant       // the start of the last request or ping
	sent   int
	cost   float64
	flying *Ping
	alive  bool // whether the cache was alive after the last request or ping
	index  int  // in the heap, -1 while flying
}

// Schedule has the idle conversations, ordered by the time of their next decision. It is safe for
// concurrent use.
type Schedule struct {
	mu      sync.Mutex
	options Options
	queue   queue
	idle    map[ID]*entry
	active  map[ID]int // number of requests in flight
	flying  int
	bytes   int64
	budget  Budget
	stopped bool
	stats   Stats

	// Learned has the observed pauses.
	Learned Learned
}

// Options limit a schedule.
type Options struct {
	// Flying is the maximum number of pings in flight. Default: 4.
	Flying int
	// Memory limits the payloads in memory, in bytes. Beyond it, the payload with the lowest
	// expected earnings for its size is dropped. Default: 64 MiB.
	Memory int64
	// Hourly and TenantHourly limit the cost of pings within an hour, in US dollars, in all and for
	// each tenant. 0 means no limit.
	Hourly, TenantHourly float64
	// Jitter returns a random part of a wait by which a ping goes out earlier. Conversations that
	// fell idle together then do not ping together. Default: none.
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

// Stats count the content and the history of a schedule.
type Stats struct {
	// Targets is the number of idle conversations that may still be pinged.
	Targets int `json:"targets"`
	// Watched is the number of idle conversations that are only observed.
	Watched int `json:"watched"`
	// Bytes is the size of all payloads.
	Bytes int64 `json:"bytes"`
	// Flying is the number of pings in flight.
	Flying int `json:"in_flight"`
	// Stopped counts conversations that get no more pings, by reason.
	Stopped map[Reason]int `json:"stopped"`
	// HourDollars is the cost of pings within the running hour.
	HourDollars float64 `json:"hour_dollars"`
}

// Reason says why a conversation gets no more pings.
type Reason string

// The reasons.
const (
	// Returned: the client returned.
	Returned Reason = "returned"
	// Worthless: the next ping is not worth its price.
	Worthless Reason = "worthless"
	// Late: the cache has expired, because the process did not run or the calendar was set.
	Late Reason = "late"
	// LossReached: the pings of this pause have reached their maximum cost.
	LossReached Reason = "max_loss"
	// Broke: the budget of this hour is spent.
	Broke Reason = "budget"
	// Displaced: the memory was needed for other conversations.
	Displaced Reason = "memory"
	// Wrote: a ping wrote to the cache, so the entry was gone.
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

// Configure changes the limits of a running schedule. Without a limit of the memory, that stays as it is.
func (s *Schedule) Configure(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Memory = cmp.Or(o.Memory, s.options.Memory)
	o.defaults()
	s.options = o
	s.fit()
}

// SetMemory changes the limit of the payloads in memory, in bytes.
func (s *Schedule) SetMemory(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Memory = n
	s.fit()
}

// Bytes is the memory of the payloads.
func (s *Schedule) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Enter reports that a request of a conversation begins. The conversation gets no pings until as
// many requests have left, and a ping in flight is canceled. Enter returns the pause that ends, nil
// if none was scheduled.
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
	// A pause is unknown if the two clocks disagree.
	if certain {
		s.Learned.Observe(e.Habit, e.Moment, age, true)
	}
	s.remove(e, Returned)
	return &Stretch{
		Pings: e.sent, Cost: e.cost, Age: age, Lifetime: e.Lifetime,
		Kept: e.alive && e.sent > 0 && age > e.Lifetime && since <= e.Lifetime,
	}
}

// Leave reports that a request is over. If entered is true, the request called Enter for this
// conversation. The conversation falls idle with target t once no other request of it is in flight.
// With a nil target it is not scheduled.
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
	// Another request of the conversation is in flight, and leaves with a newer target.
	if s.stopped || s.active[id] > 0 {
		t.wipe()
		return
	}
	// Another request may have left it idle meanwhile.
	if old := s.idle[id]; old != nil {
		s.remove(old, Returned)
	}
	e := &entry{Target: t, id: id, last: t.Begun, alive: true}
	s.idle[id] = e
	if t.Payload != nil {
		t.size = t.Payload.Size()
		s.bytes += t.size
		e.due = t.Begun.Mono + t.Every - s.options.Jitter(t.Every)
	} else {
		// Without a payload, the pause is only observed.
		e.due = t.Begun.Mono + patience
	}
	heap.Push(&s.queue, e)
	s.fit()
}

// fit drops payloads until the rest fits into the memory limit.
func (s *Schedule) fit() {
	// Payloads in flight stay, so the rest may still be too large.
	for s.bytes > s.options.Memory && s.displace() {
	}
}

func (t *Target) wipe() {
	if t.Payload != nil {
		t.Payload.Wipe()
		t.Payload = nil
	}
}

// Drop removes a conversation that has ended or was replaced by a branch.
func (s *Schedule) Drop(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.idle[id]; e != nil {
		s.remove(e, Ended)
	}
}

// Forget removes all conversations of a session and cancels their pings.
func (s *Schedule) Forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, e := range s.idle {
		if id.Session == session {
			s.remove(e, Ended)
		}
	}
}

// Stop removes all conversations, cancels all pings in flight and ends scheduling.
func (s *Schedule) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, e := range s.idle {
		s.remove(e, Ended)
	}
}

// Next is the time of the next decision, by the monotonic clock.
func (s *Schedule) Next() (at time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// At the limit of pings in flight, the next decision waits for the end of a ping.
	if len(s.queue) == 0 || s.flying >= s.options.Flying {
		return 0, false
	}
	return s.queue[0].due, true
}

// Due decides about all conversations due now and returns the pings to send. The caller must end
// each by [Ping.End].
func (s *Schedule) Due(now Instant) []*Ping {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Ping
	// Conversations beyond the limit of pings in flight stay due.
	for len(s.queue) > 0 && s.queue[0].due <= now.Mono && s.flying < s.options.Flying {
		if p := s.decide(s.queue[0], now); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// decide returns a ping for a conversation, or nil if it is not to be pinged.
func (s *Schedule) decide(e *entry, now Instant) *Ping {
	if e.Payload == nil { // observed for long enough
		s.Learned.Observe(e.Habit, e.Moment, patience, false)
		s.remove(e, Ended)
		return nil
	}
	waited, certain := now.since(e.last)
	switch {
	// The cache has expired, or may have while the clocks disagreed: a ping would write it again.
	case !certain || waited >= e.Lifetime-arrival:
		s.leave(e, Late)
		return nil
	case e.cost+e.ping() > e.MaxLoss:
		s.leave(e, LossReached)
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

// arrival is the part of a lifetime reserved for the ping's way to the upstream.
const arrival = 2 * time.Second

func (s *Schedule) plan(e *entry) (int, float64) {
	// The plan counts in shares of one prompt.
	p := float64(max(e.Prompt, 1))
	return Plan(&Case{
		Chance: s.Learned.Chance(e.Habit, e.Moment), Lifetime: e.Lifetime, Every: e.Every,
		Ping: e.ping() / p, Gain: e.gain() / p, MaxPings: e.MaxPings,
	}, e.sent)
}

// leave ends the pings of a conversation and waits for its return.
func (s *Schedule) leave(e *entry, why Reason) {
	s.stats.Stopped[why]++
	s.release(e.Target)
	// The return still teaches the length of the pause.
	e.due = e.Begun.Mono + patience
	if e.index >= 0 {
		heap.Fix(&s.queue, e.index)
	} else {
		heap.Push(&s.queue, e)
	}
}

func (s *Schedule) release(t *Target) {
	// Only this line lowers the total: a payload counts with its initial size until it is wiped.
	s.bytes -= t.size
	t.size = 0
	t.wipe()
}

func (s *Schedule) remove(e *entry, why Reason) {
	if e.Payload != nil {
		s.stats.Stopped[why]++
	}
	delete(s.idle, e.id)
	if e.flying != nil {
		close(e.flying.canceled)
		e.flying.entry, e.flying = nil, nil // End wipes the payload
		return
	}
	s.release(e.Target)
	heap.Remove(&s.queue, e.index)
}

// displace drops the payload with the lowest expected earnings for its size, if any can be dropped.
func (s *Schedule) displace() bool {
	const sample = 32
	var worst *entry
	worstValue := 0.0
	// A sample of the conversations due last is enough, and bounds the cost of a plan for each.
	for i := len(s.queue) - 1; i >= 0 && i >= len(s.queue)-4*sample; i-- {
		e := s.queue[i]
		if e.Payload == nil {
			continue
		}
		_, value := s.plan(e)
		value *= float64(e.Prompt) / float64(max(1, e.size))
		if worst == nil || value < worstValue {
			worst, worstValue = e, value
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
	// Only payloads in flight are left. They are wiped when they end.
	if worst == nil {
		return false
	}
	s.leave(worst, Displaced)
	return true
}

// Stats returns a copy of the counters.
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

// queue is a heap, ordered by due time.
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
