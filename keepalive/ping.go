// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import "container/heap"

// Ping is one ping that is to be sent now. Its target's payload stays until it
// has ended.
type Ping struct {
	*Target

	schedule *Schedule
	entry    *entry // nil once the client is back
	begun    Instant
	canceled chan struct{}
}

// Outcome is what became of a ping.
type Outcome string

// The outcomes.
const (
	// Read: the cache was read, and lives on.
	Read Outcome = "read"
	// WroteCache: something had to be written, so the cache was gone.
	WroteCache Outcome = "wrote"
	// Denied: 401, 402, 403 or 429.
	Denied Outcome = "refused"
	// Broken: any other error, or no answer.
	Broken Outcome = "failed"
	// Canceled: the client came back, or the process ends.
	Canceled Outcome = "canceled"
)

// Canceled is closed when the ping is to be given up, because the client is back
// or the schedule has stopped.
func (p *Ping) Canceled() <-chan struct{} { return p.canceled }

// Number is which ping of its pause it is, from 1 on.
func (p *Ping) Number() int {
	p.schedule.mu.Lock()
	defer p.schedule.mu.Unlock()
	if p.entry == nil {
		return 0
	}
	return p.entry.sent + 1
}

// End notes what became of the ping and what it cost. After anything but a read
// the conversation is not pinged any more in this pause.
func (p *Ping) End(o Outcome, cost float64) {
	s := p.schedule
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.fit() // it may have been in flight only that this stayed
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
		e.last = p.begun // alive again, but for what is not known
		s.leave(e, Wrote)
	case Denied:
		s.leave(e, Refused)
	default:
		s.leave(e, Failed)
	}
}
