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

// Package budget bounds the memory that the bodies of requests in flight may take.
package budget

import (
	"container/list"
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

const (
	// Default is what bodies in flight may take by default, in bytes: the collector
	// lets a heap grow to twice of what lives in it.
	Default = 512 << 20
	// Smallest is the least bound, in bytes.
	Smallest = 1 << 20
	// Patience is how long a request waits for room.
	Patience = 5 * time.Second
	// stall is how long a body may make no progress before the room that its
	// length has promised it goes to those who wait.
	stall = time.Second
	// One part in smallPart is kept for shares of up to smallShare bytes.
	smallPart  = 8
	smallShare = 4 << 20
	// Shares from largeShare on leave garbage that is not used again. Once there
	// is litter of it, it is given back to the system after a lull.
	largeShare = 8 << 20
	litter     = 64 << 20
	lull       = 5 * time.Second
)

// Bodies is the budget of the whole process: its memory knows no configurations.
var Bodies = New(Default)

// Budget bounds the memory of all bodies in flight, in all forms in which they
// lie there at once. Room is given in the order in which it was asked for, but
// that a part is kept for small bodies, which large ones shall not hold up.
type Budget struct {
	mu      sync.Mutex
	main    pot
	spare   pot       // for small shares when main is taken
	waiting list.List // of *waiter
	reading map[*Share]struct{}

	litter  int64
	pending bool // litter is about to be given back
}

// pot is a sum with a bound.
type pot struct{ held, size int64 }

func (p *pot) fits(n int64) bool { return p.held+n <= p.size }

// Share is what one request holds of a budget. It belongs to one goroutine.
type Share struct {
	of          *Budget
	main, spare int64

	// While its body is on its way:
	moved   time.Time // it made progress
	arrived int64     // what it takes in fact
	waits   bool
}

type waiter struct {
	share *Share
	n     int64
	ready chan struct{}
}

// New returns a budget of so many bytes.
func New(size int64) *Budget {
	b := &Budget{reading: make(map[*Share]struct{})}
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

// Grow makes the share one of n bytes, if it is smaller. It waits for its turn,
// but not for long: [layer.ErrNoRoom].
func (s *Share) Grow(ctx context.Context, n int64) error {
	b := s.of
	b.mu.Lock()
	if n -= s.main + s.spare; n <= 0 || b.waiting.Len() == 0 && b.fromMain(s, n) || b.fromSpare(s, n) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{s, n, make(chan struct{})}
	e := b.waiting.PushBack(w)
	s.waits = true
	b.sweep()
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
			return layer.ErrNoRoom
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
		s.main += more
		b.main.held += more
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

// Read tells that the body is on its way until [Share.Arrived] is called.
func (s *Share) Read() {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	s.moved = time.Now()
	b.reading[s] = struct{}{}
}

// Arrived tells that the body is there, or will not come.
func (s *Share) Arrived() {
	b := s.of
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.reading, s)
}

// Progress tells what the body takes so far in fact.
func (s *Share) Progress(arrived int64) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.moved, s.arrived = time.Now(), arrived
}

// The methods below are called with the lock held.

// fromMain takes n bytes for a share if they are there, or if nobody else holds
// any: what is larger than all room goes alone.
func (b *Budget) fromMain(s *Share, n int64) bool {
	if !b.main.fits(n) && b.main.held != s.main {
		return false
	}
	b.main.held += n
	s.main += n
	return true
}

func (b *Budget) fromSpare(s *Share, n int64) bool {
	if s.main+s.spare+n > smallShare || !b.spare.fits(n) {
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
	s.main -= main
	b.main.held -= main
	s.spare -= n - main
	b.spare.held -= n - main
	b.serve()
}

// serve gives room to those who wait: in their order, and small ones what is
// kept for them.
func (b *Budget) serve() {
	inOrder := true
	for e := b.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		inOrder = inOrder && b.fromMain(w.share, w.n)
		if inOrder || b.fromSpare(w.share, w.n) {
			close(w.ready)
			b.waiting.Remove(e)
		} else if b.spare.held >= b.spare.size {
			return
		}
		e = next
	}
}

// sweep takes room from bodies that are announced and do not come.
func (b *Budget) sweep() {
	since := time.Now().Add(-stall)
	for s := range b.reading {
		if !s.waits && s.moved.Before(since) {
			b.shrink(s, s.arrived)
		}
	}
}

// Fail tells a client in its own API's words that there is no room for its request, and
// when to come again. w has not been written to.
func Fail(w http.ResponseWriter, format wire.Format) error {
	return layer.Fail(w, format, &translate.Failure{
		Status: http.StatusServiceUnavailable, RetryAfter: int(Patience / time.Second), Message: "too many large requests at once, try again later",
	})
}
