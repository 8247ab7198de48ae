// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"maps"
	"time"
)

// Past is one recorded request of a conversation.
type Past struct {
	// Habit is the group of clients that the request belongs to.
	Habit Habit
	// Session is the session's id.
	Session string
	// Conversation is the number of the conversation in its session.
	Conversation int
	// At is the time of arrival.
	At time.Time
	// Tool reports whether the response asked for a tool call.
	Tool bool
}

// maxConversations limits the conversations of a history.
const maxConversations = 100_000

// History learns from recorded requests, which must be added in order of time.
type History struct {
	learned Learned
	open    map[ID]*trail
}

type trail struct {
	Past
	prompts, pauses int
}

func (t *trail) moment() Moment {
	return Moment{Tool: t.Tool, Prompts: t.prompts, Pauses: t.pauses}
}

// Add takes a request into account. It returns false once there is no room for another conversation.
func (h *History) Add(p Past) bool {
	if h.open == nil {
		h.open = map[ID]*trail{}
	}
	id := ID{Session: p.Session, Conversation: p.Conversation}
	t := h.open[id]
	if t == nil {
		if len(h.open) >= maxConversations {
			return false
		}
		h.open[id] = &trail{Past: p, prompts: 1}
		return true
	}
	if age := p.At.Sub(t.At); age > onset {
		// Only pauses after the second human prompt count: sub-agents and side requests never get a
		// second prompt, and no client returns to them.
		if t.prompts > 1 {
			h.learned.Observe(t.Habit, t.moment(), min(age, patience), age <= patience)
		}
		t.pauses++
	}
	// A human prompt follows a response without a tool call.
	if !t.Tool {
		t.prompts++
	}
	t.Past = p
	return true
}

// Teach adds the pauses learned so far to l. It ends the history.
func (h *History) Teach(l *Learned, now time.Time) {
	for _, t := range h.open {
		// These conversations have had no return up to now, or within the hours of patience.
		if age := min(now.Sub(t.At), patience); t.prompts > 1 {
			h.learned.Observe(t.Habit, t.moment(), age, false)
		}
	}
	l.merge(&h.learned)
	h.open = nil
}

// merge adds the counts of o, which is not used afterwards.
func (l *Learned) merge(o *Learned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = maps.Clone(o.counts)
		return
	}
	for k, c := range o.counts {
		sum, ok := l.counts[k]
		if !ok && len(l.counts) >= maxHabits {
			continue
		}
		l.counts[k] = count{sum.seen + c.seen, sum.expected + c.expected}
	}
}
