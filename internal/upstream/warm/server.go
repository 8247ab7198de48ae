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

// Server is the local server behind one queue, with the bases of its prompts. It outlives configurations.
type Server struct {
	shared.Pins
	of    *Servers
	queue *queue.Queue

	mu       sync.Mutex
	site     *Site // latest in force
	hours    *hours
	bases    map[string]*base
	prefixes map[prefixKey]*base
	due      []*job
	lost     time.Time // when it was last unreachable, zero if it answers
	idle     *time.Timer
	halt     context.CancelFunc // nil while idle
	opened   bool               // bases on disk were read
}

// Site is the part of the site that warm-ups need.
type Site struct {
	*Options
	// Queue is the name by which sites share the local server.
	Queue string
	// Upstream is the site's upstream.
	Upstream *upstream.Profile
	// Log gets errors.
	Log *zap.Logger
	// Now returns the current time.
	Now func() time.Time
}

// Servers are the local servers of a state, by the names of their queues.
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
	// maxKnownPrefixes bounds the index of prefixes.
	maxKnownPrefixes = 4096
	// spareBases is the number of remembered bases for each one that is sent.
	spareBases = 4
	// patientFor bounds the attempts at an unreachable server. Later, the next answer to a client shows that it is
	// back.
	patientFor = 10 * time.Minute
	// maxTries bounds the interruptions of one warm-up by clients.
	maxTries = 5
)

// Begin puts a site in force and schedules warm-ups for bases that the server may have lost.
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

// mostUsed lists the bases used most, with the lock taken.
func (x *Server) mostUsed(now time.Time) []*base {
	all := make([]*base, 0, len(x.bases))
	for _, b := range x.bases {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *base) int {
		// Ids make the order certain.
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

// keep counts a use of the base known by key. A non-nil b becomes that base.
func (x *Server) keep(key prefixKey, b *base, now time.Time) *base {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b == nil {
		b = x.prefixes[key]
	} else if old := x.bases[b.id]; old != nil {
		old.to = b.to // its credential is the latest
		b = old
	}
	if b == nil {
		return nil
	}
	// A forgotten prefix costs one more copy of a body.
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

// limit drops bases over the limits of number and memory, with the lock taken.
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
		// The latest tenant loses its own base if it has more than a quarter of the memory.
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

// gone records that the server was unreachable, or cut an answer.
func (x *Server) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.site == nil {
		return
	}
	x.lost = x.site.Now()
	x.forgotten(nil)
}

// back records an answer to a request that began with b. vanished reports a cache miss.
func (x *Server) back(b *base, vanished bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.site == nil {
		return
	}
	// The server may have restarted, with an empty cache.
	if !x.lost.IsZero() {
		x.lost = time.Time{}
		if len(x.due) == 0 {
			x.forgotten(b)
		}
	}
	if vanished {
		x.forgotten(b)
	}
	if b != nil { // the server has just read it
		x.due = slices.DeleteFunc(x.due, func(j *job) bool { return j.base == b && j.slot < 0 && j.turn.Index == 0 })
	}
	x.rest()
}

// forgotten schedules all bases but one, with the lock taken.
func (x *Server) forgotten(but *base) {
	x.queue.Forget()
	for _, b := range x.mostUsed(x.site.Now()) {
		if b != but {
			x.add(b)
		}
	}
	x.start()
}

// add schedules a base, with the lock taken.
func (x *Server) add(b *base) {
	if !slices.ContainsFunc(x.due, func(j *job) bool { return j.base == b }) {
		x.due = append(x.due, &job{base: b, slot: queue.AnySlot, turn: new(local.Replica)})
	}
}

// spread gives each slot without a conversation a base: the one of j, then the other due ones, in rotation.
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
	// Bases beyond the slots are not sent: they would only evict more used ones.
	bases = bases[:min(len(bases), len(bare))]
	x.due = slices.DeleteFunc(x.due, waits)
	j.slot = bare[0]
	for i, slot := range bare[1:] {
		x.due = append(x.due, &job{base: bases[(i+1)%len(bases)], slot: slot, turn: &local.Replica{Index: j.turn.Index}})
	}
}

// start sends the due jobs in the background, with the lock taken.
func (x *Server) start() {
	life := x.of.state.Sender.Running()
	if x.halt != nil || len(x.due) == 0 || life == nil {
		return
	}
	ctx, cancel := context.WithCancel(life)
	x.halt = cancel
	go httpx.Background("warming a box", func() { x.run(ctx) })
}

// stop interrupts the job in progress, until the next configuration.
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

// rest schedules the next load request, with the lock taken.
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

// run sends the due jobs, one after the other.
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

func (x *Server) ran() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.halt()
	x.halt = nil
	// Jobs may have become due meanwhile, mostly under the next configuration.
	x.start()
}

// became schedules the jobs that follow from an outcome.
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
		for n := j.turn.Index + 1; j.turn.Index == 0 && n < j.turn.Of; n++ { // the site's other servers
			x.due = append(x.due, &job{base: j.base, slot: j.slot, turn: &local.Replica{Index: n}, keeps: j.keeps})
		}
	}
}
