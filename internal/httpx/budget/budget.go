// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget bounds the memory of the bodies of requests in flight.
package budget

import (
	"container/list"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	// Patience is the time that a request waits for room.
	Patience = 5 * time.Second
	// A body with less than progress bytes in the time stall gives way to requests that need its
	// room.
	stall    = time.Second
	progress = 16 << 10
	// One smallPart-th of the budget is reserved for shares of up to smallShare bytes.
	smallPart  = 8
	smallShare = 4 << 20
	// One owner may have up to ownPart/4 of the room for large bodies, unless there is no other
	// owner.
	ownPart = 3
	// Shares from largeShare on leave garbage that is not reused. Once its sum reaches litter, it
	// is returned to the system after the time lull.
	largeShare = 8 << 20
	litter     = 64 << 20
	lull       = 5 * time.Second
)

// Of returns the budget of an instance: its share of the instance's memory.
func Of(i *shared.Instance) *Budget {
	return shared.Part(i, func() *Budget {
		b := New(0)
		memory.Of(i).Register(memory.Bodies, b.Used, b.Resize)
		return b
	})
}

// Budget bounds the memory of all bodies in flight, in all forms that are in memory at once. Room
// is granted in the order of requests, except that tenants with less room go first. A part is
// reserved for small bodies.
type Budget struct {
	mu      sync.Mutex
	main    pot
	spare   pot       // reserve for small shares
	waiting list.List // of *waiter
	reading map[*Share]struct{}
	owned   map[Owner]int64 // of main

	litter  int64
	pending bool // litter is about to be returned
}

// pot is a part of the budget: the bytes in use, and the bound.
type pot struct{ used, size int64 }

func (p *pot) fits(n int64) bool { return p.used+n <= p.size }

// Owner is the client of a request: its address and its tenant. Each of the two owns the share. A
// zero one owns nothing.
type Owner struct {
	Address netip.Addr
	Tenant  [16]byte
}

// tenant returns the owner without the address, or with the address only if there is no tenant.
func (o Owner) tenant() Owner {
	if o.Tenant == [16]byte{} {
		return o
	}
	return Owner{Tenant: o.Tenant}
}

func (o Owner) each() [2]Owner { return [...]Owner{{Address: o.Address}, {Tenant: o.Tenant}} }

// Share is one request's part of a budget. It belongs to one goroutine.
type Share struct {
	of          *Budget
	main, spare int64
	// Owner is set before the share grows.
	Owner Owner

	// While the body is being read:
	moved   time.Time // last progress
	came    int64     // bytes received by then
	arrived int64     // memory in actual use
	waits   bool
	large   bool // by its Content-Length
	end     func() error
	gone    bool // it gave way
}

type waiter struct {
	share *Share
	n     int64
	ready chan struct{}
}

// New returns a budget of so many bytes.
func New(size int64) *Budget {
	b := &Budget{reading: make(map[*Share]struct{}), owned: make(map[Owner]int64)}
	b.Resize(size)
	return b
}

// Resize sets the bound. Existing shares stay.
func (b *Budget) Resize(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare.size = size / smallPart
	b.main.size = size - b.spare.size
	b.serve()
}

// Used returns the bytes of all shares.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.main.used + b.spare.used
}

// Limit returns the bound.
func (b *Budget) Limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.main.size + b.spare.size
}

// Open returns an empty share.
func (b *Budget) Open() *Share { return &Share{of: b} }

// Grow grows the share to n bytes, if it is smaller. It waits for its turn, and returns
// [httpx.ErrNoRoom] after the patience. [ErrStalled] means that the share gave way.
func (s *Share) Grow(ctx context.Context, n int64) error {
	b := s.of
	b.mu.Lock()
	if s.gone {
		b.mu.Unlock()
		return ErrStalled
	}
	// A new request must not overtake the waiting ones in main.
	if n -= s.main + s.spare; n <= 0 || b.waiting.Len() == 0 && b.fromMain(s, n) || b.fromSpare(s, n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{s, n, make(chan struct{})}
	e := b.enqueue(w)
	s.waits = true
	b.sweep()
	b.serve() // waiters in front may exceed their owners' limits
	select {
	case <-w.ready:
		s.waits = false
		b.mu.Unlock()
		return nil
	default:
	}
	b.mu.Unlock()

	err := w.wait(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	s.waits, s.moved = false, time.Now()
	select {
	case <-w.ready: // perhaps at the last moment
		waited.WithLabelValues("served").Inc()
		return nil
	default:
		b.waiting.Remove(e)
		b.serve()
		return err
	}
}

// enqueue inserts a waiter before the waiters of tenants with more room.
func (b *Budget) enqueue(w *waiter) *list.Element {
	// Many bodies of one tenant must not delay another tenant.
	ownerUsed := b.owned[w.share.Owner.tenant()]
	for e := b.waiting.Front(); e != nil; e = e.Next() {
		if b.owned[e.Value.(*waiter).share.Owner.tenant()] > ownerUsed {
			return b.waiting.InsertBefore(w, e)
		}
	}
	return b.waiting.PushBack(w)
}

func (w *waiter) wait(ctx context.Context) error {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	// Bodies may stall while this request waits.
	look := time.NewTicker(stall)
	defer look.Stop()
	for {
		select {
		case <-w.ready:
			return nil
		case <-look.C:
			b := w.share.of
			b.mu.Lock()
			b.sweep()
			b.mu.Unlock()
		case <-patience.C:
			return httpx.ErrNoRoom
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Set sets the share to n bytes of memory already in use.
func (s *Share) Set(n int64) {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if more := n - s.main - s.spare; more > 0 {
		b.take(s, more)
	}
	b.shrink(s, n)
}

// Close releases the share.
func (s *Share) Close() {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := s.main + s.spare; n >= largeShare {
		b.litter += n
	}
	if b.litter >= litter && !b.pending {
		b.pending = true
		time.AfterFunc(lull, b.tidy)
	}
	b.shrink(s, 0)
}

// tidy returns the memory of finished bodies to the system, minutes before the garbage collector
// would.
func (b *Budget) tidy() {
	b.mu.Lock()
	b.litter, b.pending = 0, false
	b.mu.Unlock()
	debug.FreeOSMemory()
}

// Read marks a body as being read, until [Share.Arrived]. length is its length if above zero. end,
// if not nil, aborts the reading of a stalled body.
func (s *Share) Read(length int64, end func() error) {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	s.moved, s.large, s.end = time.Now(), length > smallShare, end
	b.reading[s] = struct{}{}
}

// Arrived marks the body as complete or failed. It reports whether the share gave way, so that the
// body has no room any more.
func (s *Share) Arrived() (gone bool) {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, s)
	s.large = false
	return s.gone
}

// Progress reports the bytes received, and the memory in actual use.
func (s *Share) Progress(came, arrived int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.arrived = arrived; came-s.came >= progress {
		s.moved, s.came = time.Now(), came
	}
}

// The methods below are called with the lock held.

// fromMain grants n bytes of main if there is room.
func (b *Budget) fromMain(s *Share, n int64) bool {
	// A body larger than the whole budget is granted when no other share is in use.
	if b.main.used != s.main && (!b.main.fits(n) || b.over(s, n) != Owner{}) {
		return false
	}
	b.take(s, n)
	return true
}

// over returns the owner of a share that would exceed its limit with n more bytes, if any.
func (b *Budget) over(s *Share, n int64) Owner {
	for _, o := range s.Owner.each() {
		if o != (Owner{}) && b.owned[o]+n > b.main.size/4*ownPart {
			return o
		}
	}
	return Owner{}
}

// take changes a share's bytes of main.
func (b *Budget) take(s *Share, n int64) {
	s.main += n
	b.main.used += n
	for _, o := range s.Owner.each() {
		if o == (Owner{}) {
			continue
		}
		if b.owned[o] += n; b.owned[o] == 0 {
			delete(b.owned, o)
		}
	}
}

func (b *Budget) fromSpare(s *Share, n int64) bool {
	// The reserve is for small bodies only.
	if s.large || s.main+s.spare+n > smallShare || !b.spare.fits(n) {
		return false
	}
	b.spare.used += n
	s.spare += n
	return true
}

func (b *Budget) shrink(s *Share, to int64) {
	n := s.main + s.spare - to
	if n <= 0 {
		return
	}
	main := min(n, s.main)
	b.take(s, -main)
	s.spare -= n - main
	b.spare.used -= n - main
	b.serve()
}

// serve grants room to the waiters in their order, and the reserve to small ones.
func (b *Budget) serve() {
	inOrder := true
	var blocked []Owner
	for e := b.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		owners := w.share.Owner.each()
		behind := slices.Contains(blocked, owners[0]) || slices.Contains(blocked, owners[1])
		over := b.over(w.share, w.n)
		switch {
		case inOrder && !behind && b.fromMain(w.share, w.n), b.fromSpare(w.share, w.n):
			close(w.ready)
			b.waiting.Remove(e)
		// An owner above its limit blocks only its own later waiters. They would otherwise take
		// freed room piece by piece before the first of them fits.
		case behind:
		case over != Owner{}:
			blocked = append(blocked, over)
		case b.spare.used >= b.spare.size:
			return
		default:
			// Later waiters may only use the reserve.
			inOrder = false
		}
		e = next
	}
}

// sweep takes room from stalled bodies until there are no waiters. First it takes the room that a
// body does not use yet, and then whole shares, the longest stalled first.
func (b *Budget) sweep() {
	since := time.Now().Add(-stall)
	var stalled []*Share
	for s := range b.reading {
		if !s.waits && !s.moved.After(since) {
			b.shrink(s, s.arrived)
			stalled = append(stalled, s)
		}
	}
	slices.SortFunc(stalled, func(x, y *Share) int { return x.moved.Compare(y.moved) })
	for _, s := range stalled {
		if b.waiting.Len() == 0 {
			return
		}
		// The reading cannot be aborted.
		if s.end == nil || s.end() != nil {
			continue
		}
		gaveWay.Inc()
		s.gone = true
		delete(b.reading, s)
		b.shrink(s, 0)
	}
}

// ErrStalled reports a body that came too slowly while other requests needed its room.
var ErrStalled = errors.New("the body stalled while others needed its memory")

// FailStalled responds, in the format of the client's API, that the upload has stalled. w must not
// have been written to.
func FailStalled(w http.ResponseWriter, format wire.Format) error {
	return httpx.Fail(w, format, &translate.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: int(Patience / time.Second),
		Message: "the upload stalled while other requests needed its memory, try again later",
	})
}

// Fail responds, in the format of the client's API, that there is no room for the request, and when
// to retry. w must not have been written to.
func Fail(w http.ResponseWriter, format wire.Format) error {
	return httpx.Fail(w, format, &translate.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: int(Patience / time.Second),
		Message: "too many large requests at once, try again later",
	})
}
