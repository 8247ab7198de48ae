// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package keepalive

import (
	"maps"
	"time"
)

// Past is one request of a conversation, as it stands on record.
type Past struct {
	// Habit is whose request it was.
	Habit Habit
	// Session and Lineage name the conversation.
	Session string
	// Lineage: see Session.
	Lineage int
	// At is when it arrived.
	At time.Time
	// Tool reports whether its answer asked for a tool.
	Tool bool
}

// maxConversations bounds the conversations of a history.
const maxConversations = 100_000

// History learns from requests on record, which it is given in the order of
// their time. Of a person's first prompt it learns nothing: sub-agents and
// side requests, which nobody comes back to, have no second.
type History struct {
	learned Learned
	open    map[ID]*trail
}

// trail is the last request of a conversation.
type trail struct {
	Past
	prompts, pauses int
}

func (t *trail) moment() Moment {
	return Moment{Tool: t.Tool, Prompts: t.prompts, Pauses: t.pauses}
}

// Add takes a request into account. It reports false once there is no room for
// another conversation.
func (h *History) Add(p Past) bool {
	if h.open == nil {
		h.open = map[ID]*trail{}
	}
	id := ID{Session: p.Session, Lineage: p.Lineage}
	t := h.open[id]
	if t == nil {
		if len(h.open) >= maxConversations {
			return false
		}
		h.open[id] = &trail{Past: p, prompts: 1}
		return true
	}
	if age := p.At.Sub(t.At); age > onset {
		if t.prompts > 1 {
			h.learned.Observe(t.Habit, t.moment(), min(age, patience), age <= patience)
		}
		t.pauses++
	}
	if !t.Tool {
		t.prompts++
	}
	t.Past = p
	return true
}

// Teach hands over what was learned by now: conversations that nobody has come
// back to within hours are given up on.
func (h *History) Teach(l *Learned, now time.Time) {
	for _, t := range h.open {
		if age := min(now.Sub(t.At), patience); t.prompts > 1 {
			h.learned.Observe(t.Habit, t.moment(), age, false)
		}
	}
	l.merge(&h.learned)
	h.open = nil
}

// merge adds what another has learned, which is used by nobody else.
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
