// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package budget bounds the memory that the bodies of requests in flight may take.
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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

const (
	// Patience is how long a request waits for room.
	Patience = 5 * time.Second
	// A body that brings less than progress bytes in a stall gives way to requests that
	// need its room.
	stall    = time.Second
	progress = 16 << 10
	// One part in smallPart is kept for shares of up to smallShare bytes.
	smallPart  = 8
	smallShare = 4 << 20
	// One owner holds up to ownPart/4 of the room for large bodies, unless nobody else
	// holds any.
	ownPart = 3
	// Shares from largeShare on leave garbage that is not used again. Once there
	// is litter of it, it is given back to the system after a lull.
	largeShare = 8 << 20
	litter     = 64 << 20
	lull       = 5 * time.Second
)

// Bodies is the budget of the whole process: its memory knows no configurations. It has the
// share of a default memory budget until an app tells it another.
var Bodies = New(512 << 20)

// Budget bounds the memory of all bodies in flight, in all forms in which they
// lie there at once. Room is given in the order in which it was asked for, but
// that a tenant with less room goes first, and that a part is reserved for small bodies.
type Budget struct {
	mu      sync.Mutex
	main    pot
	spare   pot       // for small shares when main is taken
	waiting list.List // of *waiter
	reading map[*Share]struct{}
	owned   map[Owner]int64 // of main

	litter  int64
	pending bool // litter is about to be given back
}

// pot is a sum with a bound.
type pot struct{ held, size int64 }

func (p *pot) fits(n int64) bool { return p.held+n <= p.size }

// Owner is the client of a request: its address and its tenant, each of which owns what
// the share holds. A zero one owns nothing.
type Owner struct {
	Address netip.Addr
	Tenant  [16]byte
}

// tenant is the owner without the address, or the address if there is no more.
func (o Owner) tenant() Owner {
	if o.Tenant == [16]byte{} {
		return o
	}
	return Owner{Tenant: o.Tenant}
}

func (o Owner) each() [2]Owner { return [...]Owner{{Address: o.Address}, {Tenant: o.Tenant}} }

// Share is what one request holds of a budget. It belongs to one goroutine.
type Share struct {
	of          *Budget
	main, spare int64
	owner       Owner

	// While its body is on its way:
	moved   time.Time // it made progress
	came    int64     // bytes of it, then
	arrived int64     // what it takes in fact
	waits   bool
	large   bool // its length says so
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

// Resize sets the bound. What is held stays held.
func (b *Budget) Resize(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spare.size = size / smallPart
	b.main.size = size - b.spare.size
	b.serve()
}

// Held returns the bytes that all shares hold.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.main.held + b.spare.held
}

// Limit returns the bound.
func (b *Budget) Limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.main.size + b.spare.size
}

// Open returns a share that holds nothing.
func (b *Budget) Open() *Share { return &Share{of: b} }

// By tells whose share it is, before it grows.
func (s *Share) By(o Owner) { s.owner = o }

// Grow makes the share one of n bytes, if it is smaller. It waits for its turn,
// but not for long: [httpx.ErrNoRoom]. [ErrStalled] says that the share gave way.
func (s *Share) Grow(ctx context.Context, n int64) error {
	b := s.of
	b.mu.Lock()
	if s.gone {
		b.mu.Unlock()
		return ErrStalled
	}
	if n -= s.main + s.spare; n <= 0 || b.waiting.Len() == 0 && b.fromMain(s, n) || b.fromSpare(s, n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{s, n, make(chan struct{})}
	e := b.enqueue(w)
	s.waits = true
	b.sweep()
	b.serve() // those in front may wait for what their own requests hold
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
	case <-w.ready: // be it at the last moment
		waited.WithLabelValues("served").Inc()
		return nil
	default:
		b.waiting.Remove(e)
		b.serve()
		return err
	}
}

// enqueue adds a waiter before the waiters of tenants with more room: many bodies of one
// tenant must not delay another tenant.
func (b *Budget) enqueue(w *waiter) *list.Element {
	held := b.owned[w.share.owner.tenant()]
	for e := b.waiting.Front(); e != nil; e = e.Next() {
		if b.owned[e.Value.(*waiter).share.owner.tenant()] > held {
			return b.waiting.InsertBefore(w, e)
		}
	}
	return b.waiting.PushBack(w)
}

func (w *waiter) wait(ctx context.Context) error {
	patience := time.NewTimer(Patience)
	defer patience.Stop()
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

// Settle makes the share one of n bytes, which are taken already.
func (s *Share) Settle(n int64) {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if more := n - s.main - s.spare; more > 0 {
		b.take(s, more)
	}
	b.shrink(s, n)
}

// Close gives the share back.
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

// tidy gives the memory of bodies that are gone back to the system, which the
// collector would do minutes later.
func (b *Budget) tidy() {
	b.mu.Lock()
	b.litter, b.pending = 0, false
	b.mu.Unlock()
	debug.FreeOSMemory()
}

// Read tells that a body, of that length if it is above zero, is on its way until
// [Share.Arrived] is called. end, if not nil, ends the reading of a body that stalls.
func (s *Share) Read(length int64, end func() error) {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	s.moved, s.large, s.end = time.Now(), length > smallShare, end
	b.reading[s] = struct{}{}
}

// Arrived tells that the body is there, or will not come. It reports whether the share
// gave way meanwhile: nothing is held for the body any more.
func (s *Share) Arrived() (gone bool) {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, s)
	s.large = false
	return s.gone
}

// Progress tells how many bytes of the body have come, and what it takes so far in fact.
func (s *Share) Progress(came, arrived int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.arrived = arrived; came-s.came >= progress {
		s.moved, s.came = time.Now(), came
	}
}

// The methods below are called with the lock held.

// fromMain takes n bytes for a share if they are there, or if nobody else holds
// any: what is larger than all room goes alone.
func (b *Budget) fromMain(s *Share, n int64) bool {
	if b.main.held != s.main && (!b.main.fits(n) || b.over(s, n) != Owner{}) {
		return false
	}
	b.take(s, n)
	return true
}

// over is the owner of a share that may not hold so much more, if there is one.
func (b *Budget) over(s *Share, n int64) Owner {
	for _, o := range s.owner.each() {
		if o != (Owner{}) && b.owned[o]+n > b.main.size/4*ownPart {
			return o
		}
	}
	return Owner{}
}

// take changes what a share holds of main.
func (b *Budget) take(s *Share, n int64) {
	s.main += n
	b.main.held += n
	for _, o := range s.owner.each() {
		if o == (Owner{}) {
			continue
		}
		if b.owned[o] += n; b.owned[o] == 0 {
			delete(b.owned, o)
		}
	}
}

func (b *Budget) fromSpare(s *Share, n int64) bool {
	if s.large || s.main+s.spare+n > smallShare || !b.spare.fits(n) {
		return false
	}
	b.spare.held += n
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
	b.spare.held -= n - main
	b.serve()
}

// serve gives room to the waiters in their order, and the reserve to small ones. An owner
// above its share blocks only its own later waiters, which would otherwise take freed room
// piece by piece before the first of them fits.
func (b *Budget) serve() {
	inOrder := true
	var held []Owner
	for e := b.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		owners := w.share.owner.each()
		behind := slices.Contains(held, owners[0]) || slices.Contains(held, owners[1])
		over := b.over(w.share, w.n)
		switch {
		case inOrder && !behind && b.fromMain(w.share, w.n), b.fromSpare(w.share, w.n):
			close(w.ready)
			b.waiting.Remove(e)
		case behind:
		case over != Owner{}:
			held = append(held, over)
		case b.spare.held >= b.spare.size:
			return
		default:
			inOrder = false
		}
		e = next
	}
}

// sweep takes room from bodies that do not come: first what they were promised, then
// what they hold, of those that have stalled for longest first, until nobody waits.
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
		if s.end == nil || s.end() != nil {
			continue
		}
		gaveWay.Inc()
		s.gone = true
		delete(b.reading, s)
		b.shrink(s, 0)
	}
}

// ErrStalled says that a body came too slowly while others needed its room.
var ErrStalled = errors.New("the body stalled while others needed its memory")

// FailStalled tells a client in its own API's words that its upload has stalled. w has not
// been written to.
func FailStalled(w http.ResponseWriter, format wire.Format) error {
	return httpx.Fail(w, format, &translate.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: int(Patience / time.Second), Message: "the upload stalled while other requests needed its memory, try again later",
	})
}

// Fail tells a client in its own API's words that there is no room for its request, and
// when to come again. w has not been written to.
func Fail(w http.ResponseWriter, format wire.Format) error {
	return httpx.Fail(w, format, &translate.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: int(Patience / time.Second), Message: "too many large requests at once, try again later",
	})
}
