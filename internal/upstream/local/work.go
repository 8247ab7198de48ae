// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// work is a request at the upstream and the writer of its buffered response.
type work struct {
	httpx.Answer // the next handlers fill its header

	key    workKey
	asked  Asked
	queue  string
	cancel context.CancelCauseFunc
	// placeholders is the context of the forwarded request. Its placeholders name the upstream's
	// address, for instance.
	placeholders context.Context //nolint:containedctx // of the request

	mu   sync.Mutex
	more chan struct{} // closed on progress
	room sync.Cond     // signaled when the client took bytes or the work ended

	rent    rent
	head    head
	tape    tape
	ending  ending
	flushed bool
	over    bool        // no client can follow any more
	grace   *time.Timer // runs while detached
	left    time.Time   // when the client left
	origin  uint64      // hash of the client's request
}

// rent is the memory reserved in the pool of detached work.
type rent struct {
	home    *Detached
	tenant  sessioncache.Tenant
	request int64 // length of its body
	kept    int64
}

// head is the beginning of a response.
type head struct {
	begun  bool // has a slot, or needs none
	wait   time.Duration
	common float64 // share of the prompt that the server has been sent before
	status int
	sent   http.Header // at the time of the status
}

// tape is the buffered part of a response's body.
type tape struct {
	body   []byte // from offset start on
	start  int
	taken  int  // offset up to which the client has it
	parted bool // no longer buffered from the beginning
}

type ending struct {
	ended    bool
	err      error
	panicked any
}

func (k *work) run(log *zap.Logger, next caddyhttp.Handler, r *http.Request) {
	growStack()
	var err error
	defer func() {
		p := recover()
		if e, ok := p.(error); p != nil && !(ok && errors.Is(e, http.ErrAbortHandler)) {
			httpx.LogPanic(log, "going on with a request", p) // the panic's stack ends here
		}
		k.cancel(nil)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ending.err, k.ending.panicked, k.ending.ended = err, p, true
		k.wake()
	}()
	err = next.ServeHTTP(k, r)
}

// growStack gives a new goroutine the stack that the handlers behind need. Otherwise the stack would be copied several
// times, each time with more frames.
//
//go:noinline
func growStack() {
	var frame [16 << 10]byte
	runtime.KeepAlive(&frame)
}

func (k *work) wake() {
	// A closed channel wakes all followers, and select can wait for it beside the client.
	close(k.more)
	k.more = make(chan struct{})
}

// WriteHeader implements [http.ResponseWriter]. It drops informational statuses, because a retry
// could not get them.
func (k *work) WriteHeader(status int) {
	if status >= http.StatusOK {
		k.Answer.WriteHeader(status)
	}
}

// Begin implements [httpx.Receiver].
func (k *work) Begin(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head.status, k.head.sent = status, k.Separate.Clone()
	k.wake()
}

// Buffering implements [httpx.Receiver]: work has no client to flush to.
func (k *work) Buffering() bool { return true }

// Take implements [httpx.Receiver].
func (k *work) Take(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.tape.parted && !k.keeps(len(p)) {
		k.tape.parted = true
		k.drop()
		if k.grace != nil { // a retry cannot get the whole response any more
			k.finish("given_up")
			k.close(errNobodyCame)
		}
	}
	// From here on a slow client slows the upstream down.
	for k.tape.parted && !k.over && k.tape.ahead() > window {
		k.room.Wait()
	}
	if k.over {
		return 0, errClientLeft
	}
	k.tape.body = append(k.tape.body, p...)
	k.wake()
	return len(p), nil
}

// keeps reports whether n more bytes may be buffered, with the lock taken.
func (k *work) keeps(n int) bool {
	n += len(k.tape.body)
	kept := k.rent.kept
	if k.grace != nil {
		kept -= k.rent.request
	}
	// Reserving a window at a time spares the shared lock for small writes.
	return n <= maxAnswer && (int64(n) <= kept || k.rent.reserve(max(int64(n)-kept, window)))
}

// drop releases the client's bytes of a response that is not kept, with the lock taken.
func (k *work) drop() {
	if k.tape.parted && !k.over {
		k.tape.drop()
	}
}

func (t *tape) ahead() int { return t.start + len(t.body) - t.taken }

func (t *tape) rest(at int) []byte {
	rest := t.body[at-t.start:]
	// The capacity ends here, because the upstream appends behind.
	return rest[:len(rest):len(rest)]
}

func (t *tape) drop() {
	if t.body = t.body[t.taken-t.start:]; len(t.body) == 0 {
		t.body = nil
	}
	t.start = t.taken
}

func (r *rent) reserve(n int64) bool {
	if !r.home.reserve(r.tenant, n) {
		return false
	}
	r.kept += n
	return true
}

// FlushError implements the flusher of http.ResponseController.
func (k *work) FlushError() error {
	k.WriteHeader(http.StatusOK)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.flushed = true
	k.wake()
	return nil
}

// Waited adds a wait in the queue. The request has a slot now.
func (k *work) Waited(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head.wait += d
	k.head.begun = true
}

// Common sets the share of the prompt that the server has been sent before.
func (k *work) Common(share float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head.common = share
}

type part struct {
	status   int
	header   http.Header
	bytes    []byte
	flush    bool // the next handlers have flushed
	waited   time.Duration
	common   float64
	ended    bool
	err      error
	panicked any
	more     <-chan struct{}
}

func (k *work) took(at int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tape.taken = at
	k.drop()
	k.room.Signal()
}

func (k *work) after(at int, begun bool) part {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := part{
		status: k.head.status, bytes: k.tape.rest(at), flush: k.flushed, waited: k.head.wait, common: k.head.common,
		ended: k.ending.ended, err: k.ending.err, panicked: k.ending.panicked, more: k.more,
	}
	if !begun {
		p.header = k.head.sent.Clone()
	}
	return p
}

// trailers copies header fields set after the status.
func (k *work) trailers(to http.Header) {
	for name, values := range k.Separate {
		if _, before := k.head.sent[name]; !before || !slices.Equal(values, k.head.sent[name]) {
			to[name] = values
		}
	}
}

func (k *work) end(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.close(cause)
}

// close is end with the lock taken.
func (k *work) close(cause error) {
	k.cancel(cause)
	k.over, k.tape = true, tape{parted: k.tape.parted}
	k.rent.home.release(k.rent.tenant, k.rent.kept)
	k.rent.kept = 0
	k.room.Signal()
}

// detach lets the work continue without a client until a retry or the end of the grace period. Work that no retry
// could use ends at once.
func (k *work) detach(grace time.Duration, amid bool) {
	if surplus := k.leave(grace, amid); surplus != nil {
		// After the unlock, because two works' locks are never taken together.
		surplus.giveUp()
	}
}

func (k *work) leave(grace time.Duration, amid bool) (surplus *work) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A client that leaves amid the response seldom retries. The other conditions rule out that a
	// retry could use the work.
	if amid || !k.head.begun || k.tape.parted || !k.promising() || !k.rent.reserve(k.rent.request) {
		if k.head.begun && k.promising() {
			rejoined.WithLabelValues("given_up").Inc()
		}
		k.close(errClientLeft)
		return nil
	}
	alone.Inc()
	k.left, k.origin, k.asked.Body = time.Now(), xxh3.Hash(k.asked.Body), nil
	k.grace = time.AfterFunc(grace, func() { httpx.Background("giving up a request", k.giveUp) })
	return k.rent.home.add(k)
}

func (k *work) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grace == nil {
		return
	}
	outcome := "given_up"
	if k.ending.ended {
		outcome = "finished"
	}
	k.finish(outcome)
	k.close(errNobodyCame)
}

// finish ends the detached state and counts its outcome, with the lock taken.
func (k *work) finish(outcome string) {
	k.grace.Stop()
	k.grace = nil
	k.rent.home.remove(k)
	alone.Dec()
	rejoined.WithLabelValues(outcome).Inc()
}

// promising reports whether the work has not failed, with the lock taken.
func (k *work) promising() bool {
	return k.ending.panicked == nil && k.ending.err == nil && (k.head.status == 0 || k.head.status/100 == 2)
}

// rejoin resumes detached work for a retry, unless it was given up or has failed.
func (k *work) rejoin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grace == nil {
		return false
	}
	// A retry deserves another attempt, not the same failure.
	if !k.promising() {
		k.finish("finished")
		k.close(nil)
		return false
	}
	k.grace.Stop()
	k.grace = nil
	alone.Dec()
	k.rent.home.release(k.rent.tenant, k.rent.request)
	k.rent.kept -= k.rent.request
	// The retry gets the response from the beginning.
	k.tape.taken = 0
	return true
}
