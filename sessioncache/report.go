// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"cmp"
	"maps"
	"time"
)

// Report returns the operator's view of the session at a moment. A packed session stays packed.
func (s *Session) Report(now time.Time) SessionSummary {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := SessionSummary{
		ID: s.ID(), Upstream: s.upstream, Created: s.created, Bytes: s.size(),
		Conversations: make([]ConversationSummary, 0, len(s.conversations)),
	}
	if s.packed.Load() != nil {
		s.unpack()
		defer s.pack()
	}
	for _, l := range s.conversations {
		r.Conversations = append(r.Conversations, l.report(now))
	}
	return r
}

// Used returns when the last request began, or a later ping. The session stays packed.
func (s *Session) Used() (last time.Time, warm func(now time.Time) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conversations) == 0 {
		return s.created, func(time.Time) bool { return false }
	}
	l := s.conversations[0]
	used, ttl := l.LastUse(), cmp.Or(l.TTL, usualTTL)
	return used, func(now time.Time) bool { return now.Sub(used) <= ttl }
}

// usualTTL replaces the unknown lifetime of a prefix.
const usualTTL = 5 * time.Minute

func (l *Conversation) report(now time.Time) ConversationSummary {
	r := ConversationSummary{
		ID: l.id, Model: l.Model, Requests: l.Requests, Blocks: len(l.States), Created: l.Created, Started: l.Started,
		TTLSeconds: l.TTL.Seconds(), Warm: l.Warm(now, usualTTL), Observed: l.Observed, Frozen: l.Refused != 0, Less: l.Less,
		Decision:       l.Decision,
		OriginalTokens: l.OriginalTokens, SentTokens: l.SentTokens, Last: l.Last, Total: l.Total, Cost: l.Cost,
		Breaks: maps.Clone(l.Breaks), LastBreak: l.Break, Caution: l.Caution,
	}
	if r.Pauses, r.Kept = l.Pauses, l.Kept; !l.Warmed.IsZero() {
		warmed := l.Warmed
		r.Warmed = &warmed
	}
	r.Count(l.States, l.Expanded[:])
	// The signs are those of folds that were not sent.
	if l.Observed {
		r.FoldMisses = 0
	}
	return r
}
