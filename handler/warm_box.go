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

package handler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// box is what is known of the upstream behind one queue: how its prompts begin,
// and which of that it is to read while nobody waits. It outlives configurations.
type box struct {
	state *state
	queue *queue.Queue

	mu      sync.Mutex
	handler *Handler // of the configuration that was in force last
	hours   *hours
	bases   map[string]*base
	fronts  map[frontKey]*base
	due     []*job
	lost    time.Time // when it was last seen to be gone, zero if it is there
	active  time.Time // when it last answered
	idle    *time.Timer
	halt    context.CancelFunc // nil while nothing is sent
	opened  bool               // what lies on disk has been read
}

const (
	// mostFronts bounds the fronts that are told apart.
	mostFronts = 4096
	// spareBases is how many times more bases are remembered than are sent.
	spareBases = 4
	// mostBasesBytes bounds their bodies, compressed, and what else is kept of them.
	mostBasesBytes = 64 << 20
	// patientFor is how long a box that is gone is tried. After that, the next
	// request that it answers shows that it is back.
	patientFor = 10 * time.Minute
	// mostTries bounds how often somebody may come while one base is sent.
	mostTries = 5
)

// box finds the site's box.
func (h *Handler) box() *box {
	q := h.slots()
	v, ok := h.state.boxes.Load(q)
	if !ok {
		v, _ = h.state.boxes.LoadOrStore(q, &box{state: h.state, queue: q, bases: map[string]*base{}, fronts: map[frontKey]*base{}})
	}
	return v.(*box)
}

// begin makes a handler the one in force, and has the box read what may have
// been lost.
func (x *box) begin(h *Handler) {
	now := h.now()
	hours, err := parseHours(h.Warm.Loaded)
	if err != nil { // refused by Validate before
		h.logger.Error("reading the hours of warm", zap.Error(err))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.handler, x.hours = h, hours
	if h.Warm.Store != "" && !x.opened {
		x.opened = true
		x.open(h.Warm.Store, now)
	}
	for _, b := range x.most(now) {
		if now.Sub(b.used) > stillWarm {
			x.add(b)
		}
	}
	x.rest()
	x.start()
}

// most lists the bases used most. The lock is held.
func (x *box) most(now time.Time) []*base {
	all := make([]*base, 0, len(x.bases))
	for _, b := range x.bases {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *base) int {
		return cmp.Or(cmp.Compare(b.worth(now), a.worth(now)), cmp.Compare(a.id, b.id))
	})
	if x.handler == nil || x.handler.Warm == nil {
		return nil
	}
	return all[:min(len(all), x.handler.Warm.bases())]
}

func (x *box) knows(key frontKey) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.fronts[key]
	return ok
}

// keep counts a use of what is known by key, or of b, which it is known by from
// here on.
func (x *box) keep(key frontKey, b *base, now time.Time) *base {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b == nil {
		b = x.fronts[key]
	} else if old := x.bases[b.id]; old != nil {
		old.way = b.way // a credential that was taken a moment ago
		b = old
	}
	if b == nil {
		return nil
	}
	if len(x.fronts) >= mostFronts {
		clear(x.fronts)
	}
	x.fronts[key], x.bases[b.id] = b, b
	b.use(now)
	if x.limit(now, b.owner); x.bases[b.id] == b {
		x.save(b, now)
	}
	return b
}

// limit forgets what is worth least while there are too many bases or they take too
// much memory: of whose the last one is, if more than a quarter of the memory is theirs,
// else of all. The lock is held.
func (x *box) limit(now time.Time, owner sessioncache.Tenant) {
	if x.handler == nil || x.handler.Warm == nil {
		return
	}
	for {
		var size, own int64
		var least, ownLeast *base
		for _, b := range x.bases {
			n := b.way.Size()
			size += n
			if least == nil || b.worth(now) < least.worth(now) {
				least = b
			}
			if b.owner != owner {
				continue
			}
			own += n
			if ownLeast == nil || b.worth(now) < ownLeast.worth(now) {
				ownLeast = b
			}
		}
		switch heavy := size > mostBasesBytes; {
		case heavy && own > mostBasesBytes/4:
			x.forget(ownLeast)
		case heavy, len(x.bases) > spareBases*x.handler.Warm.bases():
			x.forget(least)
		default:
			return
		}
	}
}

func (x *box) forget(b *base) {
	delete(x.bases, b.id)
	x.remove(b)
	for key, o := range x.fronts {
		if o == b {
			delete(x.fronts, key)
		}
	}
}

// gone tells that the box could not be reached, or fell silent in the middle of
// an answer.
func (x *box) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.handler == nil {
		return
	}
	x.lost = x.handler.now()
	x.forgotten(nil)
}

// back tells that the box has answered a request that began with b, and whether
// it had lost what it should have had in its cache.
func (x *box) back(b *base, vanished bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.handler == nil {
		return
	}
	if !x.lost.IsZero() {
		x.lost = time.Time{}
		if len(x.due) == 0 {
			x.forgotten(b)
		}
	}
	if vanished {
		x.forgotten(b)
	}
	if b != nil { // it has been read just now
		x.due = slices.DeleteFunc(x.due, func(j *job) bool { return j.base == b && j.slot < 0 && j.turn.index == 0 })
	}
	x.active = x.handler.now()
	x.rest()
}

// forgotten has everything sent once more but what was read just now. The lock is
// held.
func (x *box) forgotten(but *base) {
	x.queue.Forget()
	for _, b := range x.most(x.handler.now()) {
		if b != but {
			x.add(b)
		}
	}
	x.start()
}

// add puts a base among those to be sent. The lock is held.
func (x *box) add(b *base) {
	if !slices.ContainsFunc(x.due, func(j *job) bool { return j.base == b }) {
		x.due = append(x.due, &job{base: b, slot: queue.AnySlot, turn: new(boxTurn)})
	}
}

// spread gives each slot that holds no conversation a base: the one of j, then the
// others that are due, in their order, and so on from the beginning. A base that
// gets no slot is not sent: it would only push out one that is used more.
func (x *box) spread(j *job, bare []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	waits := func(o *job) bool { return o.slot == queue.AnySlot && o.turn.index == j.turn.index && !o.keeps }
	bases := []*base{j.base}
	for _, o := range x.due {
		if waits(o) {
			bases = append(bases, o.base)
		}
	}
	bases = bases[:min(len(bases), len(bare))]
	x.due = slices.DeleteFunc(x.due, waits)
	j.slot = bare[0]
	for i, slot := range bare[1:] {
		x.due = append(x.due, &job{base: bases[(i+1)%len(bases)], slot: slot, turn: &boxTurn{index: j.turn.index}})
	}
}

// start has what is due sent. The lock is held.
func (x *box) start() {
	life := x.state.keeper.running()
	if x.halt != nil || len(x.due) == 0 || life == nil {
		return
	}
	ctx, cancel := context.WithCancel(life)
	x.halt = cancel
	go background("warming a box", func() { x.run(ctx) })
}

// stop ends what is being sent. It is sent again under the next configuration.
func (x *box) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.halt != nil {
		x.halt()
	}
	if x.hours = nil; x.idle != nil {
		x.idle.Stop()
	}
}

// rest sets the time at which the model has to be kept loaded. The lock is held.
func (x *box) rest() {
	if x.hours == nil {
		return
	}
	every := x.handler.Warm.every(x.handler.Upstream.name())
	if x.idle == nil {
		x.idle = time.AfterFunc(every, func() { background("keeping a model loaded", x.load) })
		return
	}
	x.idle.Reset(every)
}

// load keeps the model loaded if this is the time for it.
func (x *box) load() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rest()
	if x.hours == nil || !x.hours.at(x.handler.now().Local()) || len(x.due) > 0 {
		return
	}
	now := x.handler.now()
	if most := x.most(now); len(most) > 0 {
		x.due = append(x.due, &job{base: most[0], slot: queue.AnySlot, turn: new(boxTurn), keeps: true})
		x.start()
	}
}

// run sends what is due, one after the other, until nothing is.
func (x *box) run(ctx context.Context) {
	defer x.ran()
	wait := time.Second
	for {
		j := x.take(ctx)
		if j == nil {
			return
		}
		outcome := warmRefused
		background("sending a base", func() { outcome = x.send(ctx, j) })
		switch x.became(ctx, j, outcome); outcome {
		case warmRead, warmHeld:
			wait = time.Second
		case warmUnreachable:
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
			wait = min(2*wait, 30*time.Second)
		}
	}
}

// take takes the next one of what is due, nil if that is all for now.
func (x *box) take(ctx context.Context) *job {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.due) == 0 || ctx.Err() != nil {
		return nil
	}
	j := x.due[0]
	x.due = x.due[1:]
	return j
}

// ran ends a run, and begins the next one if something has become due: under the
// next configuration, as a rule.
func (x *box) ran() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.halt()
	x.halt = nil
	x.start()
}

// became decides what follows from what became of a job.
func (x *box) became(ctx context.Context, j *job, outcome string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case outcome == warmInterrupted && ctx.Err() == nil && j.tries < mostTries:
		j.tries++
		x.due = append(x.due, j)
	case outcome == warmUnreachable:
		if x.lost.IsZero() {
			x.lost = x.handler.now()
		}
		if x.handler.now().Sub(x.lost) < patientFor {
			x.due = append([]*job{j}, x.due...)
		} else {
			x.due = nil
		}
	case outcome == warmRead || outcome == warmHeld:
		x.lost = time.Time{}
		for n := j.turn.index + 1; j.turn.index == 0 && n < j.turn.boxes; n++ { // the others behind the same site
			x.due = append(x.due, &job{base: j.base, slot: j.slot, turn: &boxTurn{index: n}, keeps: j.keeps})
		}
	}
}
