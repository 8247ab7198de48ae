// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// file is a value that may be open once at a time.
type file struct {
	Pins
	open *atomic.Int32 // how many are open
	err  error         // of closing
	done atomic.Bool
}

func (f *file) Close() error {
	time.Sleep(time.Duration(rand.IntN(100)) * time.Microsecond)
	f.done.Store(true)
	f.open.Add(-1)
	return f.err
}

// opener opens files, and fails the test if a second one is open at once.
func opener(t *testing.T) (open func() (*file, error), n, opened *atomic.Int32) {
	n, opened = new(atomic.Int32), new(atomic.Int32)
	return func() (*file, error) {
		opened.Add(1)
		if now := n.Add(1); now != 1 {
			t.Errorf("%d values are open, want 1", now)
		}
		return &file{open: n}, nil
	}, n, opened
}

func TestClosesAfterTheLastUser(t *testing.T) {
	var p Pool[*file]
	open, n, opened := opener(t)
	a, err := p.Share("k", open)
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Share("k", open)
	if err != nil || a.Of != b.Of || opened.Load() != 1 {
		t.Fatalf("opened %d times, %v; want one value", opened.Load(), err)
	}
	f := a.Of
	if !f.Pin() {
		t.Fatal("an open value cannot be pinned")
	}
	for _, s := range []*Share[*file]{a, a, b} { // a is released twice
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if n.Load() != 1 || len(p.All()) != 0 {
		t.Fatalf("open: %d, with shares: %d; want 1 and 0", n.Load(), len(p.All()))
	}
	// A value that only a request uses is taken up again.
	c, err := p.Share("k", open)
	if err != nil || c.Of != f || opened.Load() != 1 {
		t.Fatalf("opened %d times, %v; want the pinned value again", opened.Load(), err)
	}
	f.Unpin()
	f.err = errors.New("disk full")
	if err := c.Release(); !errors.Is(err, f.err) {
		t.Errorf("got error %v, want that of Close", err)
	}
	if n.Load() != 0 || f.Pin() {
		t.Errorf("open: %d; want a closed value, which cannot be pinned", n.Load())
	}
	if (*Share[*file])(nil).Release() != nil {
		t.Error("releasing nothing fails")
	}
}

// A pin that outlives all shares closes the value in the background, and the next configuration
// waits for that.
func TestNextOpensOnceClosed(t *testing.T) {
	var p Pool[*file]
	open, _, opened := opener(t)
	for range 100 {
		s, err := p.Share("k", open)
		if err != nil {
			t.Fatal(err)
		}
		s.Of.Pin()
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		s.Of.Unpin()
	}
	if opened.Load() != 100 {
		t.Errorf("opened %d times, want 100", opened.Load())
	}
}

func TestFailedOpening(t *testing.T) {
	var p Pool[*file]
	failed := errors.New("failed")
	if _, err := p.Share("k", func() (*file, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = p.Share("k", func() (*file, error) { panic("failed") })
	}()
	open, _, _ := opener(t)
	s, err := p.Share("k", open)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Release(); err != nil {
		t.Error(err)
	}
}

// The exit of the process closes pinned values, once.
func TestExit(t *testing.T) {
	var p Pool[*file]
	open, n, _ := opener(t)
	s, err := p.Share("k", open)
	if err != nil || !s.Of.Pin() || s.Release() != nil {
		t.Fatal(err)
	}
	if p.closeAll(); n.Load() != 0 || s.Of.Pin() {
		t.Errorf("open: %d, want 0", n.Load())
	}
	s.Of.Unpin()
	if p.closeAll(); n.Load() != 0 {
		t.Errorf("open: %d, want 0: closed again", n.Load())
	}
}

// A value in no pool is its owner's.
func TestNoPool(t *testing.T) {
	f := &file{open: new(atomic.Int32)}
	if !f.Pin() {
		t.Error("cannot be pinned")
	}
	if f.Unpin(); f.done.Load() {
		t.Error("closed by a request")
	}
}

// Configurations and requests come and go at once; a value in use is never closed, and two of one
// key are never open.
func TestConcurrentUsers(t *testing.T) {
	var p Pool[*file]
	open, n, _ := opener(t)
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 300 {
				s, err := p.Share("k", open)
				if err != nil {
					t.Error(err)
					return
				}
				users.Go(func() { // a request, which may outlive the configuration
					if !s.Of.Pin() {
						return
					}
					if s.Of.done.Load() {
						t.Error("a pinned value is closed")
					}
					s.Of.Unpin()
				})
				if s.Of.done.Load() {
					t.Error("a shared value is closed")
				}
				if err := s.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	for end := time.Now().Add(5 * time.Second); n.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d values stay open, want none", n.Load())
		}
	}
	for len(p.entries()) > 0 { // removed right after
		time.Sleep(time.Millisecond)
	}
}
