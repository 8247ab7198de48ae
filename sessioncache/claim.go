// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// mostPending bounds the claims of a session that are still without an outcome.
const mostPending = maxLineages

// claim returns the lineage that a commit of the request would make. The lineage shares no memory
// with the request. The session must be locked.
func (s *Session) claim(m Match, v *wire.View, states []BlockState, as func(*Lineage)) *Lineage {
	DescribeBlocks(v, states)
	l := &Lineage{id: s.lineageID(v)}
	place := s.takes(&m, v)
	if place != nil {
		*l = *place
	}
	if m.Lineage != nil && m.Lineage != place {
		l.inherit(m.Lineage)
	}
	// Copy the blocks and states, since the request's memory is recycled.
	blocks, tools, system := v.Known().Blocks()
	l.known = wire.RestoreKnown(slices.Clone(blocks), tools, system, v.First())
	l.States, l.restored, l.claimed, l.left, l.Said, l.Unsaid = slices.Clone(states), false, true, false, nil, false
	as(l)
	return l
}

// withClaims returns the session's lineages with pending claims in their place: the earlier claims,
// and one more unless it is nil. The session must be locked.
func (s *Session) withClaims(more *Lineage) []*Lineage {
	out := slices.Clone(s.lineages)
	for _, l := range s.pending {
		out = withClaim(out, l)
	}
	if more != nil {
		out = withClaim(out, more)
	}
	return out[:min(len(out), maxLineages)]
}

func withClaim(lineages []*Lineage, l *Lineage) []*Lineage {
	i := slices.IndexFunc(lineages, func(o *Lineage) bool { return o.id == l.id })
	if i >= 0 {
		lineages = slices.Delete(lineages, i, i+1)
	}
	return slices.Insert(lineages, 0, l)
}

// keepClaim keeps a claim until the conversation goes on: edits that may have been sent must stay.
// The session must be locked.
func (s *Session) keepClaim(l *Lineage) {
	s.next = max(s.next, l.id+1)
	s.fulfil(l)
	s.pending = append(s.pending, l)
	if len(s.pending) > mostPending {
		s.pending = slices.Delete(s.pending, 0, 1)
	}
}

// lineageID returns the number of a lineage that begins with a request.
func (s *Session) lineageID(v *wire.View) int {
	for _, l := range s.pending {
		// The committed lineage keeps the number of its claim.
		if s.Lineage(l.id) == nil && SameBlocks(l.chain(), v.MessageBlocks()) {
			return l.id
		}
	}
	return s.next
}

// begunElsewhere returns the lineage that another process has claimed for the same request and
// without a known answer, nil if there is none.
func (s *Session) begunElsewhere(v *wire.View) *Lineage {
	for _, l := range s.lineages {
		if l.claimed && !v.Conversation.Partial && SameBlocks(l.chain(), v.MessageBlocks()) {
			return l
		}
	}
	return nil
}

// claims reports whether a lineage is one of the session's own claims.
func (s *Session) claims(o *Lineage) bool {
	return o.claimed && slices.ContainsFunc(s.pending, func(l *Lineage) bool { return l.id == o.id && SameBlocks(l.chain(), o.chain()) })
}

// answeredElsewhere drops the claims of a lineage that another process, aware of the claim, has
// answered or continued.
func (s *Session) answeredElsewhere(o *Lineage) {
	s.pending = slices.DeleteFunc(s.pending, func(l *Lineage) bool {
		mine, theirs := l.chain(), o.chain()
		n := CommonBlocks(mine, theirs)
		// The other lineage has committed the claimed request, or has an answer that the claim does
		// not have.
		return l.id == o.id && (n == len(mine) && !o.claimed || AnswersIn(mine[n:]) == 0 && AnswersIn(theirs[n:]) > 0)
	})
}

// Refused drops the claims of a request that the upstream refused in that form. The session must be
// locked.
func (s *Session) Refused(v *wire.View) {
	s.pending = slices.DeleteFunc(s.pending, func(l *Lineage) bool { return SameBlocks(l.chain(), v.MessageBlocks()) })
}

// fulfil drops the claims of a committed lineage. The session must be locked.
func (s *Session) fulfil(l *Lineage) {
	s.pending = slices.DeleteFunc(s.pending, func(o *Lineage) bool { return o.id == l.id })
}
