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

package overlay

import (
	"container/list"
	"time"
)

// shares keeps values by name within a number of bytes. Each has an owner. Whoever
// holds more than a quarter of a full store gives way first, by what they have not
// used for longest; else what nobody has used for longest goes.
type shares[V any] struct {
	most   int
	bytes  int
	all    map[string]*shared[V]
	order  list.List // of *shared[V], most recently used first
	owners map[string]*owner
}

// shared is one value.
type shared[V any] struct {
	name, owner string
	value       V
	size        int
	used        time.Time
	at, own     *list.Element // in the order of all, and of the owner's
}

// owner is who values are kept for.
type owner struct {
	bytes int
	order list.List
}

func newShares[V any](most int) *shares[V] {
	return &shares[V]{most: most, all: map[string]*shared[V]{}, owners: map[string]*owner{}}
}

// share is the most that one value may take, and one owner of a full store.
func (s *shares[V]) share() int { return s.most / 4 }

// get returns the value of a name, nil if there is none.
func (s *shares[V]) get(name string) *shared[V] { return s.all[name] }

// oldest is the value that was not used for longest, nil if there is none.
func (s *shares[V]) oldest() *shared[V] {
	if e := s.order.Back(); e != nil {
		return e.Value.(*shared[V])
	}
	return nil
}

// put keeps a value in the place of the one of that name, unless it is too large.
func (s *shares[V]) put(name, of string, value V, size int, now time.Time) {
	if before := s.all[name]; before != nil {
		s.drop(before)
	}
	if size > s.share() {
		return
	}
	o := s.owners[of]
	if o == nil {
		o = new(owner)
		s.owners[of] = o
	}
	e := &shared[V]{name: name, owner: of, value: value, size: size, used: now}
	e.at, e.own = s.order.PushFront(e), o.order.PushFront(e)
	s.all[name] = e
	s.bytes += size
	o.bytes += size
	for s.bytes > s.most {
		last := s.order.Back()
		if o.bytes > s.share() {
			last = o.order.Back()
		}
		s.drop(last.Value.(*shared[V]))
	}
}

// touch tells that a value was used.
func (s *shares[V]) touch(e *shared[V], now time.Time) {
	e.used = now
	s.order.MoveToFront(e.at)
	s.owners[e.owner].order.MoveToFront(e.own)
}

// drop forgets a value.
func (s *shares[V]) drop(e *shared[V]) {
	o := s.owners[e.owner]
	s.order.Remove(e.at)
	o.order.Remove(e.own)
	delete(s.all, e.name)
	s.bytes -= e.size
	if o.bytes -= e.size; o.order.Len() == 0 {
		delete(s.owners, e.owner)
	}
}
