// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Outlook estimates the future of a conversation from its past: further requests, the benefit of
// folds, and the upstream's cache entries.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// furtherRequests estimates the number of further requests.
func furtherRequests(s *sessioncache.Session, v *wire.View, l *sessioncache.Lineage) float64 {
	kind := sessioncache.RequestKind(v)
	// The remaining requests of the tenant's conversations of the same kind, if there are enough.
	if further, ok := s.ExpectedRemaining(kind, l); ok {
		return max(2, further/cautionOf(l))
	}
	// The session's usual length, if that exceeds the prior.
	return max(leastRequests(l), (s.Usual(kind, l)-requests(l))/cautionOf(l))
}

// leastRequests returns the prior for the number of further requests.
func leastRequests(l *sessioncache.Lineage) float64 {
	return max(2, (furtherAtFirst+furtherShare*requests(l))/cautionOf(l))
}

// The prior for a conversation with tools after n requests, below the recorded means for the sake
// of short conversations. Recorded ones had 77 further requests at n = 10, 55 at 50, 44 at 100.
const (
	furtherAtFirst = 25
	furtherShare   = 0.3
)

// requests returns the number of requests so far.
func requests(l *sessioncache.Lineage) float64 {
	if l == nil {
		return 0
	}
	return float64(l.Requests)
}

// plannerPast returns the history of costs of a conversation.
func plannerPast(l *sessioncache.Lineage) planner.Past {
	if l == nil {
		return planner.Past{Caution: 1}
	}
	return planner.Past{Requests: l.Requests, Spent: l.Spent, Staked: l.Staked, Removed: l.Removed, Caution: cautionOf(l)}
}

// cautionOf returns the ratio of actual to planned costs of recent folds in a conversation, at
// least 1.
func cautionOf(l *sessioncache.Lineage) float64 {
	if l == nil {
		return 1
	}
	return max(1, l.Caution)
}

// calibratedNeed raises the need of a block by the number of expansions in its class.
func calibratedNeed(l *sessioncache.Lineage, c sessioncache.Class, need float64) float64 {
	if l == nil {
		return need
	}
	return min(1, need*float64(1+2*int(l.Expanded[c])))
}

// tokensLeftOut returns the number of tool results, from the first on, that the upstream clears by
// itself. Folding them gains nothing.
func tokensLeftOut(l *sessioncache.Lineage) int64 {
	if l == nil {
		return 0
	}
	return l.Cleared.ToolUses
}
