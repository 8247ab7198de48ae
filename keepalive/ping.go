// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "container/heap"

// Ping is one ping to send now. The target's payload stays in memory until the ping has ended.
type Ping struct {
	*Target

	schedule *Schedule
	entry    *entry // nil after the client has returned
	begun    Instant
	canceled chan struct{}
}

// Outcome is the result of a ping.
type Outcome string

// The outcomes.
const (
	// Read: the ping read the cache, which lives on.
	Read Outcome = "read"
	// WroteCache: the ping wrote to the cache, so the entry was gone.
	WroteCache Outcome = "wrote"
	// Denied: status 401, 402, 403 or 429.
	Denied Outcome = "refused"
	// Broken: any other error, or no response.
	Broken Outcome = "failed"
	// Canceled: the client returned, or the process ends.
	Canceled Outcome = "canceled"
)

// Canceled is closed when the sender should abort the ping: the client has returned, or the
// schedule has stopped.
func (p *Ping) Canceled() <-chan struct{} { return p.canceled }

// Number is the number of the ping in its pause, from 1 on, or 0 if the client has returned.
func (p *Ping) Number() int {
	p.schedule.mu.Lock()
	defer p.schedule.mu.Unlock()
	if p.entry == nil {
		return 0
	}
	return p.entry.sent + 1
}

// End reports the ping's outcome and cost. After any outcome but Read, the conversation gets no
// more pings in this pause.
func (p *Ping) End(o Outcome, cost float64) {
	s := p.schedule
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.fit() // the ping's flight may have protected this payload from eviction
	s.flying--
	e := p.entry
	if e == nil {
		s.release(p.Target)
		return
	}
	e.flying, p.entry = nil, nil
	e.sent++
	e.cost += cost
	switch o {
	case Read:
		e.last = p.begun
		e.due = p.begun.Mono + e.Every - s.options.Jitter(e.Every)
		heap.Push(&s.queue, e)
		return
	case WroteCache:
		e.last = p.begun // the ping's entry is alive, its content is not known
		s.leave(e, Wrote)
	case Denied:
		s.leave(e, Refused)
	default:
		s.leave(e, Failed)
	}
}
