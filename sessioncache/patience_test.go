// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// sluggish is a backend that others use as well, and that takes its time.
type sluggish struct {
	storetest.SharedShelf
	takes time.Duration
	asked atomic.Int64
}

func (s *sluggish) pause(ctx context.Context) error {
	s.asked.Add(1)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.takes):
		return nil
	}
}

func (s *sluggish) Seek(
	ctx context.Context, answer, d sessioncache.Digest, have sessioncache.Version,
) (sessioncache.Digest, []byte, sessioncache.Version, error) {
	if err := s.pause(ctx); err != nil {
		return d, nil, 0, err
	}
	return s.SharedShelf.Seek(ctx, answer, d, have)
}

func (s *sluggish) Fetch(
	ctx context.Context, d sessioncache.Digest, have sessioncache.Version,
) ([]byte, sessioncache.Version, error) {
	if err := s.pause(ctx); err != nil {
		return nil, 0, err
	}
	return s.SharedShelf.Fetch(ctx, d, have)
}

func (s *sluggish) Swap(ctx context.Context, swaps []*sessioncache.Swap) {
	if err := s.pause(ctx); err != nil {
		for _, w := range swaps {
			w.Err = err
		}
		return
	}
	s.SharedShelf.Swap(ctx, swaps)
}

// All waits of a request together stay within the budget, however many operations it needs, and
// publishing does not wait. Operations go on after the end of the wait. After an operation longer
// than the budget, requests do not wait for a second.
func TestOneBudgetForARequest(t *testing.T) {
	const budget = 5 * time.Millisecond
	for _, c := range []struct {
		name         string
		takes, waits time.Duration
		asked        int64 // operations of one request
		failed       bool
	}{
		{"fast", time.Millisecond, 2 * time.Millisecond, 3, false},
		{"slow", 2 * time.Millisecond, 4 * time.Millisecond, 3, false},
		{"slower", 4 * time.Millisecond, budget, 3, false},
		{"paused", time.Hour, budget, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := new(sluggish)
				var failures atomic.Int64
				store, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
					Open:     func() (sessioncache.Backend, error) { return back, nil },
					Interval: time.Hour, Budget: budget, Failed: func(string, error) { failures.Add(1) },
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				if err := store.Persister().Begin(); err != nil {
					t.Fatal(err)
				}
				back.takes = c.takes
				expect := func(what, id string, waits time.Duration, asked int64) {
					back.asked.Store(0)
					if waited := visit(t, store, id); waited != waits || back.asked.Load() != asked {
						t.Errorf("%s: it waits %s for %d operations, not %s for %d", what, waited, back.asked.Load(), waits, asked)
					}
				}
				expect("the first request", "one", c.waits, c.asked)
				if kept, _ := back.Usage(); (failures.Load() > 0) != c.failed || (kept == 1) == c.failed {
					t.Errorf("%d failures, %d sessions are kept", failures.Load(), kept)
				}
				if c.failed {
					expect("the next one", "two", 0, 0)
					time.Sleep(3 * time.Second) // each of two writes is a second late, plus one more
				}
				expect("one more", "three", c.waits, c.asked)
			})
		})
	}
}

// visit runs the store operations of one request. It returns the time waited.
func visit(t *testing.T, store *sessioncache.Store, id string) (waited time.Duration) {
	t.Helper()
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+firstMessage+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock := func(f func()) {
		begun := time.Now()
		f()
		waited += time.Since(begun)
		time.Sleep(100 * time.Millisecond) // the rest of the request
	}
	k := sharedKey
	k.ID, k.Answer = id, wire.AnswerID("the answer before "+id)
	var s *sessioncache.Session
	clock(func() { s = store.Acquire(t.Context(), k) })
	s.Lock()
	m := s.Match(v)
	s.Unlock()
	states := sessioncache.NewBlockStates(len(v.MessageBlocks()))
	clock(func() {
		ctx, cancel := context.WithTimeout(t.Context(), store.Budget()-waited)
		defer cancel()
		store.Claim(ctx, s, m, v, states, func(*sessioncache.Conversation) {})
	})
	s.Lock()
	s.CountRequest(s.Commit(m, v, states))
	s.Unlock()
	store.Hold(s)
	clock(func() { store.Publish(s) })
	store.Release(s)
	return waited
}

// Evicted sessions wait for a backend that is down, but within a bound on memory.
func TestWaitsWithinBounds(t *testing.T) {
	const sessions = 300
	shelf := &storetest.Shelf{Fail: func() error { return errors.New("down") }}
	d, err := sessioncache.New(sessioncache.Options{
		MaxBytes: sessioncache.MinMaxBytes,
		Backend: sessioncache.BackendOptions{
			Open:     func() (sessioncache.Backend, error) { return shelf, nil },
			Interval: time.Hour,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	long := firstMessage + strings.Repeat(`,{"role":"assistant","content":"a"},{"role":"user","content":"b"}`, 50)
	for i := range sessions {
		commitTo(t, d, sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: strconv.Itoa(i)}, long)
	}
	d.Flush()
	held := d.Stats().Sessions
	shelf.Fail = nil
	d.Flush()
	if n := len(shelf.Records()); n < held || n > 2*held+1 || 3*held > sessions {
		t.Errorf("of %d sessions memory holds %d, and %d have waited", sessions, held, n)
	}
}
