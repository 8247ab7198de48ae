// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/clock"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline"
)

var (
	texts = metric.CounterOf("compress_texts_total",
		"Texts that words could be left out of, by what became of them: shortened, left as they are, dropped for want of "+
			"room in the queue, failed.", "outcome",
		outcomeShortened, outcomeLeft, outcomeDropped, outcomeFailed)
	seconds = metric.Counter("compress_seconds_total",
		"Time that it took to find out which words to leave out, behind answers.")
)

// The outcomes of a job.
const (
	outcomeShortened = "shortened"
	outcomeLeft      = "left"    // unmodified: no prose, or too little gain
	outcomeDropped   = "dropped" // the queue was full
	outcomeFailed    = "failed"
)

// Worker shortens texts in the background, one at a time. It takes at most its share of a core, and
// less while requests come. Each compressor has one worker across reloads.
type Worker struct {
	shared.Pins
	mu       sync.Mutex
	queue    *queue
	serving  []Compressor // of all loaded configurations
	share    float64      // of a core
	runs     bool         // a goroutine is at work
	failures int          // in a row
	health   Health
	log      *zap.Logger

	ctx   context.Context
	end   context.CancelFunc
	clock clock.Clock
	start time.Time
	last  atomic.Int64 // when a request came or ended, in ns since start
}

func init() {
	metric.GaugeFunc("compress_waiting_bytes", "Texts that wait for their words to be left out.",
		func(i *shared.Instance) (sum float64) {
			for _, w := range workersOf(i).All() {
				w.mu.Lock()
				sum += float64(w.queue.bytes)
				w.mu.Unlock()
			}
			return sum
		})
}

func workersOf(i *shared.Instance) *shared.Pool[*Worker] { return shared.PoolOf[*Worker](i) }

// NewWorker returns a worker of the caller's, with a queue that takes all jobs.
func NewWorker(of Compressor, c clock.Clock) *Worker {
	w := newWorker(c)
	w.serving, w.queue.limit = []Compressor{of}, 1<<40
	return w
}

func newWorker(c clock.Clock) *Worker {
	w := &Worker{queue: newQueue(), share: defaultShare, clock: c, start: c.Now(), log: caddy.Log().Named("llm_cache")}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// Close implements [shared.Value]. Waiting jobs are dropped.
func (w *Worker) Close() error {
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue.clear()
	return nil
}

// Offer queues a job. It reports whether there was room.
func (w *Worker) Offer(j Job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return false
	}
	if !w.queue.put(j) {
		texts.WithLabelValues(outcomeDropped).Inc()
		return false
	}
	if !w.runs {
		w.runs = true
		w.clock.After(0, "leaving out words", w.work)
	}
	return true
}

// Touch records that a request comes or ends.
func (w *Worker) Touch() {
	if w != nil {
		w.last.Store(int64(w.clock.Now().Sub(w.start)))
	}
}

// Health returns the health of the compressor when it last ran.
func (w *Worker) Health() Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.health
}

func (w *Worker) work() {
	for {
		more := true
		if !httpx.Background("leaving out words", func() { more = w.one() }) {
			w.fail(errPanic)
		}
		w.mu.Lock()
		if !more || w.ctx.Err() != nil {
			// A job may have been queued since the queue was found empty.
			if w.runs = w.ctx.Err() == nil && len(w.queue.order) > 0; !w.runs {
				w.mu.Unlock()
				return
			}
		}
		rest := w.rest()
		w.mu.Unlock()
		w.clock.Sleep(w.ctx, rest)
	}
}

var errPanic = errors.New("recovered from a panic")

// maxRest bounds the pause after errors.
const maxRest = time.Minute

func (w *Worker) rest() time.Duration {
	if w.failures == 0 {
		return 0
	}
	// The shift is bounded: more would overflow.
	return min(maxRest, time.Second<<min(w.failures-1, 10))
}

// maxRun bounds the work on one text, pauses included.
const maxRun = 10 * time.Minute

// one shortens a text. It returns false if the queue is empty.
func (w *Worker) one() bool {
	w.mu.Lock()
	j, ok := w.queue.next()
	if !ok || len(w.serving) == 0 {
		w.mu.Unlock()
		return false
	}
	// All loaded configurations of this worker have equal compressors.
	c := w.serving[0]
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.queue.done(j.ID)
	}()
	ctx, cancel := context.WithTimeout(w.ctx, maxRun)
	defer cancel()
	p := &pace{worker: w, since: w.clock.Now()}
	text, err := Shorten(lingua.WithPause(ctx, p.pause), c, j.Text, j.Rate, j.MinChars)
	if err != nil {
		w.fail(err)
		return true
	}
	took := p.worked + w.clock.Now().Sub(p.since)
	seconds.Add(took.Seconds())
	j.Done(pipeline.Shortened{Text: text, Took: took})
	outcome := outcomeShortened
	if text == "" {
		outcome = outcomeLeft
	}
	texts.WithLabelValues(outcome).Inc()
	w.well(ctx, c)
	_ = p.pause(ctx) // texts with nothing to drop are frequent, and have not paused yet
	return true
}

func (w *Worker) fail(err error) {
	texts.WithLabelValues(outcomeFailed).Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures++
	w.health.Error = err.Error()
	// Log the first of several failures only.
	if w.failures == 1 && w.ctx.Err() == nil {
		w.log.Warn("the compressor fails; texts stay as they are", zap.Error(err))
	}
}

func (w *Worker) well(ctx context.Context, c Compressor) {
	w.mu.Lock()
	known := w.failures == 0 && w.health.Device != ""
	w.failures = 0
	w.mu.Unlock()
	// Without failures the health stays the same.
	if known {
		return
	}
	h := c.Health(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.health = h
}

const (
	// quiet is the time without requests after which the worker continues.
	quiet = 20 * time.Millisecond
	// patience bounds the wait for quiet, as a multiple of the working time. The wait is at least quiet.
	patience = 50
)

// busy reports whether requests come.
func (w *Worker) busy() bool {
	last := time.Duration(w.last.Load())
	return last != 0 && w.clock.Now().Sub(w.start)-last < quiet
}

type pace struct {
	worker *Worker
	since  time.Time // start of the present stretch of work
	worked time.Duration
}

// pause sleeps as long as the worker's share demands, and then until requests pause.
func (p *pace) pause(ctx context.Context) error {
	w := p.worker
	d := w.clock.Now().Sub(p.since)
	p.worked += d
	w.mu.Lock()
	share := w.share
	w.mu.Unlock()
	// Working for d of each d/share of time keeps to the share.
	w.clock.Sleep(w.ctx, time.Duration(float64(d)*(1/share-1)))
	// Requests have priority, but only for a bounded time.
	for waited := time.Duration(0); waited < max(patience*d, quiet) && w.busy() && ctx.Err() == nil; waited += quiet {
		w.clock.Sleep(w.ctx, quiet)
	}
	p.since = w.clock.Now()
	return ctx.Err()
}
