// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// minRun is the number of requests from which on a conversation says something
// about how long such conversations get.
const minRun = 8

// Usual returns how many requests the other conversations of that kind in the
// session have run on average, such as those that a compaction has ended. It
// returns 0 if there is none. The session must be locked.
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

// ExpectedRemaining estimates how many more requests a conversation will run, nil for one
// that begins, by what others of that kind of the same tenant did. It tells
// whether there were enough of them. The session must be locked.
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
