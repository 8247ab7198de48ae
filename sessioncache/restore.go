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

package sessioncache

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Restore makes a session of a snapshot, under the digest that its key has, see
// [Key.Digest]. What damage there is shows in an error, of which [ErrSnapshot] or
// [ErrNewer] is a part.
func Restore(d Digest, snapshot []byte) (*Session, error) {
	if len(snapshot) == 0 {
		return nil, ErrSnapshot
	}
	if snapshot[0] > snapshotForm {
		return nil, ErrNewer
	}
	r := snapshotReader{in: snapshot[1:]}
	s := &Session{digest: string(d[:]), id: publicID(string(d[:])), outlives: true}
	copy(s.tenant[:], r.take(len(s.tenant)))
	s.upstream = r.text()
	s.created = r.time(time.Time{})
	s.next = r.small(1 << 40)
	s.Lifetime = Lifetime(r.small(uint64(LifetimeLong)))
	s.Unseen = time.Duration(r.int())
	r.calibration(&s.Calibration)
	for range r.count(8) {
		s.Counterfactual.entries = append(s.Counterfactual.entries, CounterfactualEntry{
			Prefix: r.fixed(), Blocks: r.small(1 << 30), Tokens: r.int(), At: r.time(s.created), TTL: time.Duration(r.int()),
		})
	}
	n := r.count(1)
	if len(s.Counterfactual.entries) > maxEntries || n > maxLineages {
		r.fail()
	}
	for range n {
		s.lineages = append(s.lineages, r.lineage(s.lineages))
		if r.bad {
			break
		}
	}
	if r.bad || len(r.in) > 0 || snapshot[0] == 0 {
		return nil, ErrSnapshot
	}
	return s, nil
}

func (r *snapshotReader) calibration(c *Calibration) {
	if c.learned = r.bool(); !c.learned {
		return
	}
	c.weights = prior
	for i := range r.count(1) {
		if x := r.float(); i < len(c.weights) {
			c.weights[i] = float32(x)
		}
	}
}

func (r *snapshotReader) lineage(before []*Lineage) *Lineage {
	l := &Lineage{id: r.small(1 << 40), restored: true}
	bits := r.uint()
	has := func(bit uint64) bool { return bits&bit != 0 }
	l.Observed, l.Frozen, l.Diverged = has(lineageObserved), has(lineageFrozen), has(lineageDiverged)
	l.Partial, l.Beyond = has(lineagePartial), has(lineageBeyond)
	l.Expand, l.Unsaid = has(lineageExpand), has(lineageUnsaid)
	l.Less = int(r.int())
	l.Reply, l.First = r.hash(), r.hash()
	l.Created = r.time(time.Time{})
	l.Started, l.Warmed = r.time(l.Created), r.time(l.Created)
	l.Pauses = r.small(1 << 40)
	l.Kept = r.float()
	l.TTL = time.Duration(r.int())
	for range r.count(2) {
		l.Ends = append(l.Ends, End{r.small(wire.MaxElements), r.time(l.Created)})
	}
	l.Last, l.Total = r.usage(), r.usage()
	l.Estimate = int(r.int())
	l.OriginalTokens, l.SentTokens = r.int(), r.int()
	l.Cost = Cost{Units: r.float(), ClientUnits: r.float(), USD: r.float(), ClientUSD: r.float()}
	l.Spent = r.float()
	l.Front = r.fixed()
	l.Decision = r.text()
	l.Settled = r.small(wire.MaxElements)
	l.Staked, l.Removed, l.Caution = r.float(), r.float(), r.float()
	l.Break = r.name()
	for range r.count(2) {
		if l.Breaks == nil {
			l.Breaks = make(map[string]int)
		}
		reason := r.name()
		l.Breaks[reason] = r.small(1 << 40)
	}
	for i := range r.count(1) {
		if n := r.small(1 << 16); i < len(l.Expanded) {
			l.Expanded[i] = uint16(n)
		}
	}
	l.Model = r.name()
	l.Kind = uint32(r.small(1<<32 - 1))
	l.Requests = r.small(1 << 40)
	r.chain(l, before)
	r.states(l)
	return l
}

func (r *snapshotReader) chain(l *Lineage, before []*Lineage) {
	if !r.bool() {
		l.known = wire.RestoreKnown(nil, 0, 0, wire.Hash{})
		return
	}
	n, tools, system := r.small(wire.MaxElements), r.small(wire.MaxElements), r.small(wire.MaxElements)
	first := r.hash()
	shared := r.small(uint64(n))
	if tools+system > n || (n-shared)*len(wire.Hash{}) > len(r.in) {
		r.fail()
		return
	}
	blocks := make([]wire.Block, n)
	if shared > 0 {
		which := r.small(uint64(max(len(before)-1, 0)))
		if which >= len(before) {
			r.fail()
			return
		}
		there, _, _ := before[which].known.Blocks()
		if shared > len(there) {
			r.fail()
			return
		}
		copy(blocks, there[:shared])
	}
	for i := shared; i < n; i++ {
		copy(blocks[i].Hash[:], r.take(len(wire.Hash{})))
	}
	for i := shared; i < n && !r.bad; {
		run := r.uint()
		length := run >> 3
		if length == 0 || length > uint64(n-i) {
			r.fail()
			return
		}
		for range length {
			blocks[i].Role = wire.Role(run & 7)
			i++
		}
	}
	l.known = wire.RestoreKnown(blocks, tools, system, first)
}

func (r *snapshotReader) states(l *Lineage) {
	n := r.count(1)
	if r.bad || n > len(l.chain()) {
		r.fail()
		return
	}
	l.States = make([]State, n)
	for i := range l.States {
		s := &l.States[i]
		b := r.take(1)
		if b == nil {
			return
		}
		bits := b[0]
		s.Pinned, s.Relies = bits&statePinned != 0, bits&stateRelies != 0
		if bits&stateUnused != 0 {
			s.Unused = uint16(r.small(1<<16 - 1))
		}
		if bits&stateUsed != 0 {
			s.Used = uint16(r.small(1<<16 - 1))
		}
		if bits&stateContent != 0 {
			s.Content = r.fixed()
		}
		if bits&stateEdit != 0 {
			s.Edit = r.edit()
		}
		if bits&stateInserted == 0 {
			continue
		}
		w := new(Inserted)
		for range r.count(2) {
			op := wire.Op(r.small(uint64(wire.OpAfterMessage)))
			w.Inserts = append(w.Inserts, Insert{Op: op, recipe: append(noRecipe, r.bytes()...)})
		}
		if len(w.Inserts) == 0 {
			r.fail()
			return
		}
		s.Inserted = w
	}
}

func (r *snapshotReader) edit() *Edit {
	n := r.small(uint64(len(r.edits)))
	if n > 0 {
		return r.edits[n-1]
	}
	e := &Edit{Stage: r.name(), Op: wire.Op(r.small(uint64(wire.OpAfterMessage)))}
	if recipe := r.bytes(); len(recipe) > 0 {
		e.recipe = append(noRecipe, recipe...)
	}
	r.edits = append(r.edits, e)
	return e
}

func (r *snapshotReader) usage() wire.Usage {
	return wire.Usage{Uncached: r.int(), Write5m: r.int(), Write1h: r.int(), Read: r.int(), Output: r.int(), Reported: r.bool()}
}
