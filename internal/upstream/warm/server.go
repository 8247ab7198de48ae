// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/local"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/queue"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Server is what is known of the upstream behind one queue: how its prompts begin,
// and which of that it is to read while nobody waits. It outlives configurations.
type Server struct {
	shared.Pins
	of    *Servers
	queue *queue.Queue

	mu       sync.Mutex
	site     *Site // that was in force last
	hours    *hours
	bases    map[string]*base
	prefixes map[prefixKey]*base
	due      []*job
	lost     time.Time // when it was last seen to be gone, zero if it is there
	idle     *time.Timer
	halt     context.CancelFunc // nil while nothing is sent
	opened   bool               // what lies on disk has been read
}

// Site is what a local server needs to know of the site in front of it.
type Site struct {
	*Options
	// Queue is the name by which sites share the local server.
	Queue string
	// Upstream is what stands behind.
	Upstream *upstream.Profile
	// Log gets what goes wrong.
	Log *zap.Logger
	// Now is the time.
	Now func() time.Time
}

// Servers are those of a state, by the names of their queues.
type Servers struct {
	state  *state.State
	byName shared.Pool[*Server]
	number atomic.Int64
	limit  atomic.Int64
}

// Interface guards
var (
	_ state.Holder  = (*Servers)(nil)
	_ state.Stopper = (*Servers)(nil)
)

// Of returns the local servers of a state.
func Of(s *state.State) *Servers {
	return state.Part(s, func() *Servers { return &Servers{state: s} })
}

// Budget implements [state.Holder], for the bases of all local servers, compressed.
func (*Servers) Budget() memory.Part { return memory.Prefixes }

// SetLimit implements [state.Holder].
func (b *Servers) SetLimit(limit int64) { b.limit.Store(limit) }

// Bytes implements [state.Holder].
func (b *Servers) Bytes() (sum int64) {
	for _, x := range b.byName.All() {
		x.mu.Lock()
		for _, base := range x.bases {
			sum += base.to.Size()
		}
		x.mu.Unlock()
	}
	return sum
}

// Open takes a share of the local server behind a queue.
func (b *Servers) Open(name string, q *queue.Queue) (*shared.Share[*Server], error) {
	return b.byName.Share(name, func() (*Server, error) {
		b.number.Add(1)
		return &Server{of: b, queue: q, bases: map[string]*base{}, prefixes: map[prefixKey]*base{}}, nil
	})
}

// Close implements [shared.Value].
func (x *Server) Close() error {
	x.stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due = nil
	clear(x.bases)
	clear(x.prefixes)
	x.of.number.Add(-1)
	return nil
}

// Stop implements [state.Stopper].
func (b *Servers) Stop() {
	for _, x := range b.byName.All() {
		x.stop()
	}
}

const (
	// maxKnownPrefixes bounds the prefixes that are told apart.
	maxKnownPrefixes = 4096
	// spareBases is how many times more bases are remembered than are sent.
	spareBases = 4
	// patientFor is how long a local server that is gone is tried. After that, the next
	// request that it answers shows that it is back.
	patientFor = 10 * time.Minute
	// maxTries bounds how often somebody may come while one base is sent.
	maxTries = 5
)

// Begin makes a site the one in force, and has the local server read what may have
// been lost.
func (x *Server) Begin(s *Site) {
	now := s.Now()
	hours, err := parseHours(s.Loaded)
	if err != nil { // refused by Validate before
		s.Log.Error("reading the hours of warm", zap.Error(err))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.site, x.hours = s, hours
	if s.Store != "" && !x.opened {
		x.opened = true
		x.open(s.Store, now)
	}
	for _, b := range x.mostUsed(now) {
		if now.Sub(b.used) > stillWarm {
			x.add(b)
		}
	}
	x.rest()
	x.start()
}

// mostUsed lists the bases used most. The lock is held.
func (x *Server) mostUsed(now time.Time) []*base {
	all := make([]*base, 0, len(x.bases))
	for _, b := range x.bases {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *base) int {
		return cmp.Or(cmp.Compare(b.worth(now), a.worth(now)), cmp.Compare(a.id, b.id))
	})
	if x.site == nil {
		return nil
	}
	return all[:min(len(all), x.site.bases())]
}

func (x *Server) knows(key prefixKey) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.prefixes[key]
	return ok
}

// keep counts a use of what is known by key, or of b, which it is known by from
// here on.
func (x *Server) keep(key prefixKey, b *base, now time.Time) *base {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b == nil {
		b = x.prefixes[key]
	} else if old := x.bases[b.id]; old != nil {
		old.to = b.to // a credential that was taken a moment ago
		b = old
	}
	if b == nil {
		return nil
	}
	if len(x.prefixes) >= maxKnownPrefixes {
		clear(x.prefixes)
	}
	x.prefixes[key], x.bases[b.id] = b, b
	b.use(now)
	if x.limit(now, b.owner); x.bases[b.id] == b {
		x.save(b, now)
	}
	return b
}

// limit forgets what is worth least while there are too many bases or they take too
// much memory: of whose the last one is, if more than a quarter of the memory is theirs,
// else of all. The lock is held.
func (x *Server) limit(now time.Time, owner sessioncache.Tenant) {
	if x.site == nil {
		return
	}
	limit := x.of.limit.Load() / max(1, x.of.number.Load())
	for {
		var size, owned int64
		var cheapest, ownLeast *base
		for _, b := range x.bases {
			n := b.to.Size()
			size += n
			if cheapest == nil || b.worth(now) < cheapest.worth(now) {
				cheapest = b
			}
			if b.owner != owner {
				continue
			}
			owned += n
			if ownLeast == nil || b.worth(now) < ownLeast.worth(now) {
				ownLeast = b
			}
		}
		switch heavy := size > limit; {
		case heavy && owned > limit/4:
			x.forget(ownLeast)
		case heavy, len(x.bases) > spareBases*x.site.bases():
			x.forget(cheapest)
		default:
			return
		}
	}
}

func (x *Server) forget(b *base) {
	delete(x.bases, b.id)
	x.remove(b)
	for key, o := range x.prefixes {
		if o == b {
			delete(x.prefixes, key)
		}
	}
}

// gone tells that the local server could not be reached, or fell silent in the middle of
// an answer.
func (x *Server) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.site == nil {
		return
	}
	x.lost = x.site.Now()
	x.forgotten(nil)
}

// back tells that the local server has answered a request that began with b, and whether
// it had lost what it should have had in its cache.
func (x *Server) back(b *base, vanished bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.site == nil {
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
		x.due = slices.DeleteFunc(x.due, func(j *job) bool { return j.base == b && j.slot < 0 && j.turn.Index == 0 })
	}
	x.rest()
}

// forgotten has everything sent once more but what was read just now. The lock is
// held.
func (x *Server) forgotten(but *base) {
	x.queue.Forget()
	for _, b := range x.mostUsed(x.site.Now()) {
		if b != but {
			x.add(b)
		}
	}
	x.start()
}

// add puts a base among those to be sent. The lock is held.
func (x *Server) add(b *base) {
	if !slices.ContainsFunc(x.due, func(j *job) bool { return j.base == b }) {
		x.due = append(x.due, &job{base: b, slot: queue.AnySlot, turn: new(local.Replica)})
	}
}

// spread gives each slot that holds no conversation a base: the one of j, then the
// others that are due, in their order, and so on from the beginning. A base that
// gets no slot is not sent: it would only push out one that is used more.
func (x *Server) spread(j *job, bare []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	waits := func(o *job) bool { return o.slot == queue.AnySlot && o.turn.Index == j.turn.Index && !o.keeps }
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
		x.due = append(x.due, &job{base: bases[(i+1)%len(bases)], slot: slot, turn: &local.Replica{Index: j.turn.Index}})
	}
}

// start has what is due sent. The lock is held.
func (x *Server) start() {
	life := x.of.state.Sender.Running()
	if x.halt != nil || len(x.due) == 0 || life == nil {
		return
	}
	ctx, cancel := context.WithCancel(life)
	x.halt = cancel
	go httpx.Background("warming a box", func() { x.run(ctx) })
}

// stop ends what is being sent. It is sent again under the next configuration.
func (x *Server) stop() {
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
func (x *Server) rest() {
	if x.hours == nil {
		return
	}
	every := x.site.every(x.site.Upstream.Name())
	if x.idle == nil {
		x.idle = time.AfterFunc(every, func() { httpx.Background("keeping a model loaded", x.load) })
		return
	}
	x.idle.Reset(every)
}

// load keeps the model loaded if this is the time for it.
func (x *Server) load() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.rest()
	if x.hours == nil || !x.hours.at(x.site.Now().Local()) || len(x.due) > 0 {
		return
	}
	now := x.site.Now()
	if bases := x.mostUsed(now); len(bases) > 0 {
		x.due = append(x.due, &job{base: bases[0], slot: queue.AnySlot, turn: new(local.Replica), keeps: true})
		x.start()
	}
}

// run sends what is due, one after the other, until nothing is.
func (x *Server) run(ctx context.Context) {
	defer x.ran()
	wait := time.Second
	for {
		j := x.take(ctx)
		if j == nil {
			return
		}
		outcome := warmRefused
		httpx.Background("sending a base", func() { outcome = x.send(ctx, j) })
		switch x.became(ctx, j, outcome); outcome {
		case warmRead, warmCached:
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
func (x *Server) take(ctx context.Context) *job {
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
func (x *Server) ran() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.halt()
	x.halt = nil
	x.start()
}

// became decides what follows from what became of a job.
func (x *Server) became(ctx context.Context, j *job, outcome string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case outcome == warmInterrupted && ctx.Err() == nil && j.tries < maxTries:
		j.tries++
		x.due = append(x.due, j)
	case outcome == warmUnreachable:
		if x.lost.IsZero() {
			x.lost = x.site.Now()
		}
		if x.site.Now().Sub(x.lost) < patientFor {
			x.due = append([]*job{j}, x.due...)
		} else {
			x.due = nil
		}
	case outcome == warmRead || outcome == warmCached:
		x.lost = time.Time{}
		for n := j.turn.Index + 1; j.turn.Index == 0 && n < j.turn.Of; n++ { // the others behind the same site
			x.due = append(x.due, &job{base: j.base, slot: j.slot, turn: &local.Replica{Index: n}, keeps: j.keeps})
		}
	}
}
