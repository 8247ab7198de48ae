// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Runs remembers how many requests conversations have run, so that it can be
// told how long one like them will go on.

import (
	"sync"
)

// milestones are the numbers of requests at which a conversation is counted.
var milestones = [...]int{1, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}

const (
	// minLike is the number of conversations that tell something about one more.
	minLike = 10
	// beyond is how many requests conversations run on average after the last
	// milestone.
	beyond = 256
	// maxKinds bounds the kinds of conversations that are remembered.
	maxKinds = 1024
)

// Runs remembers how many requests conversations have run, by tenant and kind.
// Those that are still running count as far as they have come.
type Runs struct {
	mu      sync.Mutex
	kinds   map[LikeRuns]*reached
	changes uint64
}

// reached are the numbers of conversations that have come to the milestones.
type reached struct {
	all  counts // that are known of
	own  counts // those of them that were noted here since the last snapshot
	told counts // those of them that a snapshot tells of which is not kept yet
}

type counts [len(milestones)]int

func (c *counts) add(o *counts) {
	for i := range c {
		c[i] += o[i]
	}
}

// LikeRuns are conversations that may be judged by each other.
type LikeRuns struct {
	// Tenant is whose they are.
	Tenant [16]byte
	// Kind is of what kind.
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
			for old := range r.kinds {
				if len(r.kinds) < maxKinds {
					break
				}
				delete(r.kinds, old)
			}
			r.kinds[k] = new(reached)
		}
		r.kinds[k].all[i]++
		r.kinds[k].own[i]++
		r.changes++
		return
	}
}

// Snapshot appends what is remembered, and returns how often it has changed. Once the
// snapshot is kept, [Runs.Kept] is to be called.
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
		at.told.add(&at.own)
		at.own = counts{}
	}
	return w.Out, r.changes
}

// Kept says that what the last snapshot tells is where others find it.
func (r *Runs) Kept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, at := range r.kinds {
		at.told = counts{}
	}
}

// Restore reads what was remembered, here or elsewhere. What was noted here and is not
// kept yet counts besides.
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
		if old.own == (counts{}) && old.told == (counts{}) {
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
		at.own, at.told = old.own, old.told
		at.all.add(&old.own)
		at.all.add(&old.told)
	}
	r.kinds = kinds
}

// Further returns how many more requests such conversations have run on average
// that had run n, and whether there were enough of them to tell.
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
	all, left, from := float64(reached[at]), 1.0, max(n, 1)
	sum := 0.0
	for i := at + 1; i < len(milestones); i++ {
		share := float64(reached[i]) / all
		sum += (left + share) / 2 * float64(milestones[i]-from)
		left, from = share, milestones[i]
	}
	return sum + left*beyond, true
}
