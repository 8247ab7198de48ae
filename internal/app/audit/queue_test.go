// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// shelf is a store in memory that can fail.
type shelf struct {
	mu      sync.Mutex
	down    bool
	panics  bool
	kept    []Record
	batches []int
	pruned  time.Time
	tries   int
	closed  bool
}

func (s *shelf) Write(_ context.Context, batch []*Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	if s.panics {
		panic("a bug")
	}
	if s.down {
		return errors.New("down")
	}
	for _, r := range batch {
		s.kept = append(s.kept, *r)
	}
	s.batches = append(s.batches, len(batch))
	return nil
}

func (s *shelf) Prune(_ context.Context, before time.Time) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.panics {
		panic("a bug")
	}
	s.pruned = before
	return 0, nil
}

func (s *shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *shelf) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *shelf) records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Record(nil), s.kept...)
}

func (s *shelf) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tries
}

func sample(n int) *Record {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Millisecond)
	return &Record{
		ID: NewID(at), At: at, Turns: 1, Kind: KindTurn, Tenant: "aabb", User: "alice", Groups: []string{"night", "web"},
		Project: "shop", Session: fmt.Sprint("s", n),
		Client: "claude-code",
		Model:  "claude-opus-4-6", ClientFormat: "anthropic", UpstreamFormat: "anthropic", Policy: "cost_aware",
		OriginalTokens: 100, SentTokens: 80,
		Billed: Tokens{Uncached: 1, Write5m: 2, Write1h: 3, Read: 4, Output: 5}, ReadEstimated: 3, Estimated: 1,
		WouldSave: 0.25, WouldSaveUSD: 0.375, ClientBilled: Tokens{Uncached: 6, Write5m: 7, Write1h: 8, Read: 9, Output: 5},
		Cost: 10.5, ClientCost: 20.25, USD: 0.5, ClientUSD: 1, Edits: []Edits{
			{Stage: "admission", Count: 2},
			{Stage: "compress", Count: 1, Tokens: 40, Millis: 9},
		}, Epoch: "boundary", Reason: "x",
		Folded: 3, Removed: 20, Rewritten: 7, Break: "ttl", FoldMisses: 1, Queue: time.Millisecond,
		FirstByte: 2 * time.Millisecond, FirstToken: 3 * time.Millisecond,
		LastToken: 4 * time.Millisecond, Total: 5 * time.Millisecond, Status: 200, Outcome: Completed, StopReason: "end_turn",
		Stream: true, Resent: true, BreakCost: 2.5, Rereads: 1, FailedEdits: 2, Holdout: true, Compaction: true, SimulatedCost: 3.5,
	}
}

// until waits for the work of another goroutine.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for range 12000 {
		if f() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func TestBatches(t *testing.T) {
	s, c := new(shelf), new(Counters)
	q := NewQueue(s, Options{Batch: 10, Interval: time.Hour}, c)
	for i := range 25 {
		q.Add(sample(i))
	}
	// The waiting records are fewer than a batch: the writer takes all it finds, in whole batches
	// or not.
	until(t, "all but a rest by size", func() bool { return len(s.records()) > 25-10 })
	q.SetOptions(Options{Batch: 10, Interval: time.Millisecond})
	until(t, "the rest by time", func() bool { return len(s.records()) == 25 })
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range s.records() {
		if r.Session != fmt.Sprint("s", i) {
			t.Fatalf("record %d is %s: out of order", i, r.Session)
		}
	}
	for _, n := range s.batches {
		if n > 10 {
			t.Errorf("a batch of %d", n)
		}
	}
	if c.Written.Load() != 25 || c.Dropped.Load()+c.Coalesced.Load() != 0 || !s.closed {
		t.Errorf("written %d, dropped %d", c.Written.Load(), c.Dropped.Load())
	}
	q.Add(sample(0)) // too late
	if c.Dropped.Load() != 1 {
		t.Error("a late record was not counted")
	}
}

// While a store is down, only the details of records beyond Room are lost.
func TestStoreDown(t *testing.T) {
	s, c := &shelf{down: true}, new(Counters)
	q := NewQueue(s, Options{Batch: 10, Interval: time.Millisecond, Room: 50}, c)
	const n = 500
	for i := range n {
		r := sample(i)
		if i%5 == 0 {
			r.Outcome = Interrupted
		}
		q.Add(r)
	}
	until(t, "several attempts", func() bool { return s.attempts() > 2 })
	if w := q.Stats().Waiting; w > 50+10+2+2 {
		t.Errorf("%d records wait", w)
	}
	if lag := q.Stats().Lag; lag <= 0 {
		t.Error("no lag")
	}
	s.set(false)
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var turns, interrupted int64
	var cost float64
	sums := 0
	for _, r := range s.records() {
		turns += r.Turns
		cost += r.Cost
		if r.Outcome == Interrupted {
			interrupted += r.Turns
		}
		if r.Turns > 1 {
			sums++
			if r.User != "alice" || len(r.Groups) != 2 || r.Model == "" || r.Session != "" || r.Edits != nil || r.Billed.Read != 4*r.Turns {
				t.Errorf("counted together: %+v", r)
			}
		}
	}
	if turns != n || interrupted != n/5 || cost != n*10.5 || sums < 2 {
		t.Errorf("%d turns, %d interrupted, cost %v, %d sums", turns, interrupted, cost, sums)
	}
	if c.Coalesced.Load() == 0 || c.Written.Load() != n || c.WriteErrors.Load() == 0 || c.Dropped.Load() != 0 {
		t.Errorf("coalesced %d, written %d, errors %d, dropped %d", c.Coalesced.Load(), c.Written.Load(),
			c.WriteErrors.Load(), c.Dropped.Load())
	}
}

// The groups of summed turns are bounded, too.
func TestGroupsAreBounded(t *testing.T) {
	g := groups{}
	for i := range 10 * maxGroups {
		r := sample(i)
		r.Model = fmt.Sprint("model-", i)
		g.add(r)
	}
	var turns int64
	for _, r := range g {
		turns += r.Turns
	}
	if len(g) > maxGroups+8 || turns != 10*maxGroups {
		t.Errorf("%d groups of %d turns", len(g), turns)
	}
}

func TestCloseGivesUp(t *testing.T) {
	s, c := &shelf{down: true}, new(Counters)
	q := NewQueue(s, Options{Batch: 3, Interval: time.Millisecond, Room: 4}, c)
	for i := range 20 {
		q.Add(sample(i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := q.Close(ctx); err == nil || !strings.Contains(err.Error(), "20 turns") {
		t.Errorf("closed with %v", err)
	}
	if c.Dropped.Load() != 20 || !s.closed {
		t.Errorf("dropped %d", c.Dropped.Load())
	}
}

func TestStorePanics(t *testing.T) {
	s := &shelf{panics: true}
	q := NewQueue(s, Options{Batch: 1, Interval: time.Millisecond}, nil)
	q.Add(sample(1))
	until(t, "an attempt", func() bool { return s.attempts() > 0 })
	s.mu.Lock()
	s.panics = false
	s.mu.Unlock()
	if err := q.Close(t.Context()); err != nil || len(s.records()) != 1 {
		t.Errorf("%v, %d records", err, len(s.records()))
	}
}

func TestPrunePanics(t *testing.T) {
	s := &shelf{panics: true}
	logged := make(chan error, 1)
	q := NewQueue(s, Options{Retention: time.Hour, Log: func(_ string, err error) { logged <- err }}, nil)
	q.prune(t.Context())
	if err := <-logged; !errors.Is(err, ErrPanic) || strings.Contains(err.Error(), "a bug") {
		t.Errorf("logged %v", err)
	}
	if err := q.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenTurns(t *testing.T) {
	s, c := new(shelf), new(Counters)
	q := NewQueue(s, Options{Interval: time.Millisecond}, c)
	ended, open := q.Begin(sample(1)), q.Begin(sample(2))
	if q.Stats().Open != 2 {
		t.Errorf("%d open", q.Stats().Open)
	}
	q.End(ended, sample(1))
	q.End(ended, sample(1)) // the second call does nothing
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.End(open, sample(2))               // recorded already
	q.End(q.Begin(sample(3)), sample(3)) // begun too late
	got := s.records()
	if len(got) != 2 || got[0].Outcome != Completed || got[1].Outcome != Interrupted || got[1].Session != "s2" ||
		got[1].Total <= 0 {
		t.Errorf("%+v", got)
	}
	if c.Dropped.Load() != 1 {
		t.Errorf("dropped %d", c.Dropped.Load())
	}
}

func TestContentIsBounded(t *testing.T) {
	s, c := &shelf{down: true}, new(Counters)
	q := NewQueue(s, Options{Batch: 1000, Interval: time.Hour, ContentRoom: 1000}, c)
	for i := range 50 {
		r := sample(i)
		r.Content = &Content{Prompt: []byte(`"` + strings.Repeat("x", 98) + `"`)}
		q.Add(r)
	}
	s.set(false)
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, r := range s.records() {
		if r.Content != nil {
			n++
			if i < 40 {
				t.Errorf("record %d kept its content", i)
			}
		}
	}
	if n != 10 || c.Stripped.Load() != 40 {
		t.Errorf("%d contents, %d stripped", n, c.Stripped.Load())
	}
}

func TestTextsAreCleaned(t *testing.T) {
	r := sample(1)
	r.Model, r.User = "a\x00b\xff", strings.Repeat("é", 1000)
	r.clean()
	if r.Model != "ab" || len(r.User) > maxText {
		t.Errorf("%q, %d bytes", r.Model, len(r.User))
	}
}

// Requests add records from many goroutines while the queue is being closed.
func TestConcurrency(t *testing.T) {
	s, c := new(shelf), new(Counters)
	q := NewQueue(s, Options{Batch: 7, Interval: time.Millisecond, Room: 100}, c)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				r := sample(i*500 + j)
				q.End(q.Begin(r), r)
			}
		})
	}
	time.Sleep(2 * time.Millisecond)
	if err := q.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	// A turn that began before Close and ended after it is recorded once.
	if got := c.Written.Load() + c.Dropped.Load(); got != 8*500 {
		t.Errorf("%d turns written, %d dropped", c.Written.Load(), c.Dropped.Load())
	}
}

func TestIDs(t *testing.T) {
	at := time.Now()
	a, b := NewID(at), NewID(at.Add(time.Millisecond))
	var back ID
	text, _ := a.MarshalText()
	if err := back.UnmarshalText(text); err != nil || back != a {
		t.Errorf("%s became %s, %v", a, back, err)
	}
	if a.String() >= b.String() || len(a.String()) != 36 || a.String()[14] != '7' {
		t.Errorf("%s and %s", a, b)
	}
	for _, bad := range []string{"", "x", a.String() + "00", a.String()[:35] + "g"} {
		if back.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is no id", bad)
		}
	}
}

// BenchmarkBeginEnd measures the queue's share of a request.
func BenchmarkBeginEnd(b *testing.B) {
	q := NewQueue(new(void), Options{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		r := sample(1)
		q.End(q.Begin(r), r)
	}
}

type void struct{}

func (void) Write(context.Context, []*Record) error          { return nil }
func (void) Prune(context.Context, time.Time) (int64, error) { return 0, nil }
func (void) Close() error                                    { return nil }
