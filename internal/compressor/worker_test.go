// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

// slow counts its runs, some of which have a fault.
type slow struct {
	rule
	mu    sync.Mutex
	runs  int
	fault func(run int) error
}

func (s *slow) Compress(ctx context.Context, text string, rate float64) (lingua.Result, error) {
	s.mu.Lock()
	s.runs++
	n := s.runs
	s.mu.Unlock()
	if s.fault != nil {
		if err := s.fault(n); err != nil {
			return lingua.Result{}, err
		}
	}
	return s.rule.Compress(ctx, text, rate)
}

func jobFor(n byte, done func(pipeline.Shortened)) Job {
	return Job{ID: ID{Block: wire.Hash{n}}, Text: strings.Repeat(paragraph, 3), Rate: 0.5, MinChars: 200, Done: done}
}

// TestWorker: texts are shortened in the background. After errors and panics texts stay unmodified,
// and the worker rests and then continues.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slow{fault: func(run int) error {
			switch run {
			case 2:
				return errors.New("out of order")
			case 3:
				panic("gone")
			}
			return nil
		}}
		w := newWorker(clock.Machine)
		w.serving, w.queue.limit = []Compressor{c}, defaultQueue
		var got []byte
		for n := range byte(4) {
			if !w.Offer(jobFor(n, func(s pipeline.Shortened) {
				if s.Text == "" {
					t.Error("nothing was left out")
				}
				got = append(got, n)
			})) {
				t.Error("no room")
			}
		}
		start := time.Now()
		synctest.Wait()
		if string(got) != "\x00" || w.Health().Error != "out of order" {
			t.Errorf("before the rest: %v are done, health is %+v", got, w.Health())
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if string(got) != "\x00\x03" || w.Health() != (Health{Device: "rule"}) {
			t.Errorf("after %s: %v are done, health is %+v", time.Since(start), got, w.Health())
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if w.Offer(jobFor(9, nil)) {
			t.Error("a worker that is gone takes texts")
		}
	})
}

// TestIdleTexts says that texts with nothing to leave out do not keep the worker going
// while requests come.
func TestIdleTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(clock.Machine)
		w.serving, w.queue.limit = []Compressor{new(slow)}, defaultQueue
		time.Sleep(time.Second)
		const texts = 10
		var done atomic.Int64
		for n := range byte(texts) {
			j := jobFor(n, func(pipeline.Shortened) { done.Add(1) })
			j.Text = "{}"
			w.Touch()
			w.Offer(j)
		}
		for want := 1; want <= texts; want++ {
			synctest.Wait()
			if done := done.Load(); done != int64(want) {
				t.Fatalf("%d of %d texts are done after %d pauses", done, texts, want-1)
			}
			time.Sleep(quiet / 2)
			w.Touch()
			time.Sleep(quiet / 2)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestShare says that the worker computes for its share of the time, and waits while
// requests come, but not for ever.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(clock.Machine)
		w.share = 0.25
		for name, c := range map[string]struct {
			busy bool
			want time.Duration
		}{
			"idle": {false, 300 * time.Millisecond},
			"busy": {true, 300*time.Millisecond + patience*100*time.Millisecond},
		} {
			ctx, stop := context.WithCancel(context.Background())
			if c.busy {
				go func() {
					for ctx.Err() == nil {
						w.Touch()
						time.Sleep(quiet / 4)
					}
				}()
			}
			time.Sleep(time.Second)
			p := &pace{worker: w, since: time.Now()}
			time.Sleep(100 * time.Millisecond) // the work
			start := time.Now()
			if err := p.pause(ctx); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d < c.want || d > c.want+quiet {
				t.Errorf("%s: waited %s, want %s", name, d, c.want)
			}
			stop()
			synctest.Wait()
			time.Sleep(time.Second)
		}
	})
}

func init() { caddy.RegisterModule(Embedded{}) }

// TestReload: a worker and its waiting texts survive a reload.
func TestReload(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	raw := json.RawMessage(`{"module":"embedded","model":"` + model + `"}`)
	a, b := &Options{CompressorRaw: raw}, &Options{CompressorRaw: raw, Share: 0.5}
	for _, o := range []*Options{a, b} {
		if err := o.Provision(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w := b.worker
	if a.worker != w || a.name() != b.name() {
		t.Error("two workers")
	}
	if err := a.Cleanup(); err != nil {
		t.Fatal(err)
	}
	done := make(chan pipeline.Shortened, 1)
	if w.share != 0.5 || len(w.serving) != 1 || !w.Offer(jobFor(1, func(s pipeline.Shortened) { done <- s })) {
		t.Errorf("share %v, %d compressors", w.share, len(w.serving))
	}
	if s := <-done; s.Text == "" {
		t.Error("nothing was left out")
	}
	if err := b.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if w.ctx.Err() == nil {
		t.Error("the worker goes on")
	}
}
