// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package runs remembers how many requests conversations have run, so that it can be
// told how long one like them will go on.
package runs

import (
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/packed"
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
	kinds   map[Like]*[len(milestones)]int
	changes uint64
}

// Like are conversations that may be judged by each other.
type Like struct {
	// Tenant is whose they are.
	Tenant [16]byte
	// Kind is of what kind.
	Kind uint32
}

// Note counts a conversation that has run n requests.
func (r *Runs) Note(k Like, n int) {
	for i, m := range milestones {
		if m < n {
			continue
		}
		if m > n {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		reached := r.kinds[k]
		if reached == nil {
			reached = new([len(milestones)]int)
			if r.kinds == nil {
				r.kinds = make(map[Like]*[len(milestones)]int)
			}
			for old := range r.kinds {
				if len(r.kinds) < maxKinds {
					break
				}
				delete(r.kinds, old)
			}
			r.kinds[k] = reached
		}
		reached[i]++
		r.changes++
		return
	}
}

// Snapshot appends what is remembered, and returns how often it has changed.
func (r *Runs) Snapshot(dst []byte) (out []byte, changes uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := packed.Writer{Out: dst}
	w.Uint(uint64(len(r.kinds)))
	for k, reached := range r.kinds {
		w.Out = append(w.Out, k.Tenant[:]...)
		w.Uint(uint64(k.Kind))
		w.Uint(uint64(len(reached)))
		for _, n := range reached {
			w.Uint(uint64(n))
		}
	}
	return w.Out, r.changes
}

// Restore reads what was remembered.
func (r *Runs) Restore(from *packed.Reader) {
	n := from.Count(len(Like{}.Tenant))
	kinds := make(map[Like]*[len(milestones)]int, min(n, maxKinds))
	for range min(n, maxKinds) {
		var k Like
		copy(k.Tenant[:], from.Take(len(k.Tenant)))
		k.Kind = uint32(from.Small(1<<32 - 1))
		reached := new([len(milestones)]int)
		for i := range from.Count(1) {
			if n := from.Small(1 << 40); i < len(reached) {
				reached[i] = n
			}
		}
		kinds[k] = reached
	}
	if !from.Bad {
		r.mu.Lock()
		r.kinds = kinds
		r.mu.Unlock()
	}
}

// Further returns how many more requests such conversations have run on average
// that had run n, and whether there were enough of them to tell.
func (r *Runs) Further(k Like, n int) (float64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	reached := r.kinds[k]
	if reached == nil {
		return 0, false
	}
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
