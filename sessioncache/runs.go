// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"sync"
)

// The lengths of conversations, from which the store estimates the remaining length of others.

// milestones are the numbers of requests at which a conversation is counted.
var milestones = [...]int{1, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}

const (
	// minLike is the number of conversations from which an estimate can be made.
	minLike = 10
	// beyond is the assumed average number of requests after the last milestone.
	beyond = 256
	// maxKinds bounds the remembered kinds of conversations.
	maxKinds = 1024
)

// Runs counts the lengths of conversations in requests, by tenant and kind. Running conversations
// count with their present length.
type Runs struct {
	mu      sync.Mutex
	kinds   map[LikeRuns]*reached
	changes uint64
}

// reached counts the conversations that have reached each milestone.
type reached struct {
	all     counts // of all processes
	local   counts // counted here since the last snapshot
	pending counts // in a snapshot that is not yet saved
}

type counts [len(milestones)]int

func (c *counts) add(o *counts) {
	for i := range c {
		c[i] += o[i]
	}
}

// LikeRuns identifies conversations of similar length.
type LikeRuns struct {
	// Tenant is the conversations' tenant.
	Tenant [16]byte
	// Kind is the kind of conversation, see [RequestKind].
	Kind uint32
}

// Note counts a conversation that has run n requests.
func (r *Runs) Note(k LikeRuns, n int) {
	for i, m := range milestones {
		if m < n {
			continue
		}
		if m > n {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.kinds[k] == nil {
			if r.kinds == nil {
				r.kinds = make(map[LikeRuns]*reached)
			}
			// The order of a map is random, so a random kind makes room.
			for old := range r.kinds {
				if len(r.kinds) < maxKinds {
					break
				}
				delete(r.kinds, old)
			}
			r.kinds[k] = new(reached)
		}
		r.kinds[k].all[i]++
		r.kinds[k].local[i]++
		r.changes++
		return
	}
}

// Snapshot appends the counts, and returns the number of changes so far. Call [Runs.Kept] once the
// snapshot is saved.
func (r *Runs) Snapshot(dst []byte) (out []byte, changes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := PackedWriter{Out: dst}
	w.Uint(uint64(len(r.kinds)))
	for k, at := range r.kinds {
		w.Out = append(w.Out, k.Tenant[:]...)
		w.Uint(uint64(k.Kind))
		w.Uint(uint64(len(at.all)))
		for _, n := range at.all {
			w.Uint(uint64(n))
		}
		// The save may fail: until Kept, a restore must add these counts again.
		at.pending.add(&at.local)
		at.local = counts{}
	}
	return w.Out, r.changes
}

// Kept records that the last snapshot is saved.
func (r *Runs) Kept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.kinds {
		at.pending = counts{}
	}
}

// Restore replaces the counts by saved ones, of this process or of others. Counts that are not yet
// saved are added.
func (r *Runs) Restore(from *PackedReader) {
	n := from.Count(len(LikeRuns{}.Tenant))
	kinds := make(map[LikeRuns]*reached, min(n, maxKinds))
	for range min(n, maxKinds) {
		var k LikeRuns
		copy(k.Tenant[:], from.Take(len(k.Tenant)))
		k.Kind = uint32(from.Small(1<<32 - 1))
		at := new(reached)
		for i := range from.Count(1) {
			if n := from.Small(1 << 40); i < len(at.all) {
				at.all[i] = n
			}
		}
		kinds[k] = at
	}
	if from.Bad {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, old := range r.kinds {
		if old.local == (counts{}) && old.pending == (counts{}) {
			continue
		}
		at := kinds[k]
		if at == nil {
			if len(kinds) >= maxKinds {
				continue
			}
			at = new(reached)
			kinds[k] = at
		}
		at.local, at.pending = old.local, old.pending
		at.all.add(&old.local)
		at.all.add(&old.pending)
	}
	r.kinds = kinds
}

// Further returns the average number of further requests of such conversations after n requests. It
// returns false if there were too few of them.
func (r *Runs) Further(k LikeRuns, n int) (float64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.kinds[k]
	if of == nil {
		return 0, false
	}
	reached := &of.all
	at := 0
	for at+1 < len(milestones) && milestones[at+1] <= n {
		at++
	}
	if reached[at] < minLike {
		return 0, false
	}
	// The area under the survival curve, with straight lines between milestones.
	all, left, from := float64(reached[at]), 1.0, max(n, 1)
	sum := 0.0
	for i := at + 1; i < len(milestones); i++ {
		share := float64(reached[i]) / all
		sum += (left + share) / 2 * float64(milestones[i]-from)
		left, from = share, milestones[i]
	}
	return sum + left*beyond, true
}

// minRun is the number of requests from which on a conversation counts for the usual length.
const minRun = 8

// Usual returns the average number of requests in the session's other conversations of a kind, such
// as those ended by a compaction. It returns 0 if there are none. The session must be locked.
func (s *Session) Usual(kind uint32, but *Conversation) float64 {
	n, sum := 0, 0
	for _, l := range s.conversations {
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
func (s *Session) ExpectedRemaining(kind uint32, l *Conversation) (float64, bool) {
	n := 0
	if l != nil {
		n = l.Requests
	}
	return s.runs.Further(LikeRuns{Tenant: s.tenant, Kind: kind}, n)
}

// CountRequest counts one more request of a conversation. The session must be locked.
func (s *Session) CountRequest(l *Conversation) {
	l.Requests++
	s.runs.Note(LikeRuns{Tenant: s.tenant, Kind: l.Kind}, l.Requests)
}
