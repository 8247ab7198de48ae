// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// merge merges another process's copy of the session. The session must be locked; other must not be
// used afterwards.
func (s *Session) merge(other *Session) {
	s.merges++
	fresh := len(s.conversations) == 0
	s.next = max(s.next, other.next)
	// Values of the session as a whole come from the other copy, which was written first.
	s.Calibration = other.Calibration
	if fresh {
		s.created, s.Unseen, s.Lifetime = other.created, other.Unseen, other.Lifetime
		s.Counterfactual = other.Counterfactual
	} else {
		// Both processes know cache entries.
		s.Counterfactual.Merge(&other.Counterfactual)
	}
	merged := make([]*Conversation, 0, len(s.conversations))
	for _, o := range other.conversations {
		// The session's own claim comes back from the backend.
		if s.claims(o) {
			continue
		}
		s.answeredElsewhere(o)
		l := s.sameAs(o)
		if l == nil {
			if x := s.Conversation(o.id); x != nil { // the number belongs to the other conversation, which was written first
				x.id = s.next
				s.next++
			}
			merged = append(merged, o)
			continue
		}
		l.merge(o)
		merged = append(merged, l)
	}
	for _, l := range s.conversations { // conversations that the other copy does not know
		if !slices.Contains(merged, l) {
			merged = append(merged, l)
		}
	}
	slices.SortStableFunc(merged, func(a, b *Conversation) int { return b.Started.Compare(a.Started) })
	s.conversations = merged[:min(len(merged), maxConversations)]
}

// sameAs returns the conversation that another process continues under the same number, nil if there is
// none. The two begin alike, and neither omits an answer of the other.
func (s *Session) sameAs(o *Conversation) *Conversation {
	l := s.Conversation(o.id)
	if l == nil || l.Partial != o.Partial {
		return nil
	}
	// Partial requests need not have a common block.
	if l.Partial {
		return l
	}
	a, b := l.chain(), o.chain()
	if n := CommonBlocks(a, b); n >= min(1, len(a), len(b)) && (AnswersIn(a[n:]) == 0 || AnswersIn(b[n:]) == 0) {
		return l
	}
	return nil
}

// merge merges another process's copy of the conversation. The longer copy wins.
func (l *Conversation) merge(o *Conversation) {
	a, b := l.chain(), o.chain()
	n := CommonBlocks(a, b)
	// The other copy is longer or newer, or all requests went to the other process.
	if !l.here || len(b) > len(a) || len(b) == len(a) && o.Started.After(l.Started) {
		if l.here || len(b) >= len(a) || o.Started.After(l.Started) {
			id, refused := l.id, l.Refused|o.Refused
			*l = *o
			l.id, l.Refused = id, refused
		}
		return
	}
	for i := range min(n, len(l.States), len(o.States)) {
		mine, theirs := &l.States[i], &o.States[i]
		if mine.Edit.Same(theirs.Edit) && mine.Inserted.Same(theirs.Inserted) {
			continue
		}
		// Both have forwarded the block in different forms. The other form was written first, and
		// wins.
		if !l.restored { // copy, since requests under way use the slice
			l.States, l.restored = slices.Clone(l.States), true
		}
		l.States[i].Edit, l.States[i].Inserted = theirs.Edit, theirs.Inserted
	}
	// A refusal of either process counts.
	l.Refused, l.Diverged = l.Refused|o.Refused, l.Diverged || o.Diverged
	if o.Warmed.After(l.Warmed) {
		l.Warmed = o.Warmed
	}
}

// disagrees reports whether another process has committed to a different form of the request's
// blocks than states. base are the edits that both processes began from, for inCommon blocks. The
// session must be locked.
func (s *Session) disagrees(v *wire.View, base []BlockState, inCommon int, states []BlockState) bool {
	m := s.Match(v)
	if m.Conversation == nil {
		return false
	}
	theirs := m.Conversation.States
	for i := range min(m.Common, len(theirs), len(states)) {
		if theirs[i].Edit.Same(states[i].Edit) && theirs[i].Inserted.Same(states[i].Inserted) {
			continue
		}
		// A block that the other process has left as in base is no conflict.
		if i >= min(inCommon, len(base)) || !theirs[i].Edit.Same(base[i].Edit) || !theirs[i].Inserted.Same(base[i].Inserted) {
			return true
		}
	}
	return false
}
