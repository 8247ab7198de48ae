// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// minRun is the number of requests from which on a conversation counts for the usual length.
const minRun = 8

// Usual returns the average number of requests in the session's other conversations of a kind, such
// as those ended by a compaction. It returns 0 if there are none. The session must be locked.
func (s *Session) Usual(kind uint32, but *Lineage) float64 {
	n, sum := 0, 0
	for _, l := range s.lineages {
		if l != but && l.Kind == kind && l.Requests >= minRun {
			n++
			sum += l.Requests
		}
	}
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// ExpectedRemaining estimates how many more requests a conversation will run, from conversations of
// the same kind and tenant; nil stands for a new conversation. It returns false if there were too
// few of them. The session must be locked.
func (s *Session) ExpectedRemaining(kind uint32, l *Lineage) (float64, bool) {
	n := 0
	if l != nil {
		n = l.Requests
	}
	return s.runs.Further(LikeRuns{Tenant: s.tenant, Kind: kind}, n)
}

// CountRequest counts one more request of a conversation. The session must be locked.
func (s *Session) CountRequest(l *Lineage) {
	l.Requests++
	s.runs.Note(LikeRuns{Tenant: s.tenant, Kind: l.Kind}, l.Requests)
}
