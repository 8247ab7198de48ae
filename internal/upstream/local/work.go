// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// work is a request at the upstream, and the writer of its answer: it keeps the
// answer for whoever asks, within bounds.
type work struct {
	httpx.Answer // its header is filled by the handlers behind

	key    workKey
	asked  Asked
	queue  string
	cancel context.CancelCauseFunc
	// placeholders are those of the request on its way: where it went, for one.
	placeholders context.Context //nolint:containedctx // of the request

	mu   sync.Mutex
	more chan struct{} // closed when there is more
	room sync.Cond     // the client has taken something, or nobody will

	rent    rent
	head    head
	tape    tape
	ending  ending
	flushed bool
	over    bool        // nobody will ask any more
	grace   *time.Timer // runs while no client waits
	left    time.Time   // when the client left
	origin  uint64      // the hash of what the client had asked
}

// rent is what is accounted for at home.
type rent struct {
	home    *Detached
	tenant  sessioncache.Tenant
	request int64 // length of its body
	kept    int64
}

// head is how an answer begins.
type head struct {
	begun  bool // the work has a slot, or needs none
	wait   time.Duration
	common float64 // the share of the prompt that the box has been sent before
	status int
	sent   http.Header // as it stood when the status came
}

// tape is the body of an answer, or what the client has not had of it yet.
type tape struct {
	body   []byte // from start on
	start  int
	taken  int  // what the client has of it
	parted bool // it is no longer kept from its beginning
}

// ending is how the work ended.
type ending struct {
	ended    bool
	err      error
	panicked any
}

func (k *work) run(log *zap.Logger, next caddyhttp.Handler, r *http.Request) {
	var err error
	defer func() {
		p := recover()
		if e, ok := p.(error); p != nil && !(ok && errors.Is(e, http.ErrAbortHandler)) {
			httpx.LogPanic(log, "going on with a request", p) // its stack ends here
		}
		k.cancel(nil)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.ending.err, k.ending.panicked, k.ending.ended = err, p, true
		k.wake()
	}()
	err = next.ServeHTTP(k, r)
}

// wake tells whoever follows that there is more.
func (k *work) wake() {
	close(k.more)
	k.more = make(chan struct{})
}

// WriteHeader implements [http.ResponseWriter]. What is only informational is kept for
// no one who comes back.
func (k *work) WriteHeader(status int) {
	if status >= http.StatusOK {
		k.Answer.WriteHeader(status)
	}
}

// Begin implements [httpx.Interceptor].
func (k *work) Begin(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head.status, k.head.sent = status, k.Own.Clone()
	k.wake()
}

// Holds implements [httpx.Interceptor]: it has nobody to flush to.
func (k *work) Holds() bool { return true }

// Take implements [httpx.Interceptor].
func (k *work) Take(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.tape.parted && !k.keeps(len(p)) {
		k.tape.parted = true
		k.drop()
		if k.grace != nil { // who comes back cannot be given all of it
			k.settle("given_up")
			k.close(errNobodyCame)
		}
	}
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

// keeps reports whether so many bytes more of the answer may be kept. The lock is
// held.
func (k *work) keeps(n int) bool {
	n += len(k.tape.body)
	kept := k.rent.kept
	if k.grace != nil {
		kept -= k.rent.request
	}
	return n <= mostAnswer && (int64(n) <= kept || k.rent.reserve(max(int64(n)-kept, window)))
}

// drop forgets what the client has of an answer that is not kept. The lock is
// held.
func (k *work) drop() {
	if k.tape.parted && !k.over {
		k.tape.drop()
	}
}

// ahead is by how much the answer is ahead of the client.
func (t *tape) ahead() int { return t.start + len(t.body) - t.taken }

// rest is what comes behind so much of the answer.
func (t *tape) rest(at int) []byte {
	rest := t.body[at-t.start:]
	return rest[:len(rest):len(rest)]
}

// drop forgets what the client has.
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

// Waited notes a time in the queue, which is over.
func (k *work) Waited(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head.wait += d
	k.head.begun = true
}

// Common notes the share of the prompt that the box has been sent before, for whoever
// gets the answer.
func (k *work) Common(share float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head.common = share
}

// part is what there is of an answer.
type part struct {
	status   int
	header   http.Header
	bytes    []byte
	flush    bool // the handlers behind want it to be seen
	waited   time.Duration
	common   float64
	ended    bool
	err      error
	panicked any
	more     <-chan struct{}
}

// took notes how much of the answer the client has, which makes room for more.
func (k *work) took(at int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tape.taken = at
	k.drop()
	k.room.Signal()
}

// after returns what comes behind the bytes that the client has.
func (k *work) after(at int, begun bool) part {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := part{status: k.head.status, bytes: k.tape.rest(at), flush: k.flushed, waited: k.head.wait, common: k.head.common, ended: k.ending.ended, err: k.ending.err, panicked: k.ending.panicked, more: k.more}
	if !begun {
		p.header = k.head.sent.Clone()
	}
	return p
}

// trailers copies what came after the header. The work must have ended.
func (k *work) trailers(to http.Header) {
	for name, values := range k.Own {
		if _, before := k.head.sent[name]; !before || !slices.Equal(values, k.head.sent[name]) {
			to[name] = values
		}
	}
}

// end ends the work, and forgets its answer.
func (k *work) end(cause error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.close(cause)
}

// close is end with the lock held.
func (k *work) close(cause error) {
	k.cancel(cause)
	k.over, k.tape = true, tape{parted: k.tape.parted}
	k.rent.home.release(k.rent.tenant, k.rent.kept)
	k.rent.kept = 0
	k.room.Signal()
}

// detach has the work go on without a client, and ends it unless somebody rejoins
// it in time. It ends at once where nobody could, or where the client has had a part of the
// answer.
func (k *work) detach(grace time.Duration, amid bool) {
	if oldest := k.leave(grace, amid); oldest != nil {
		oldest.giveUp()
	}
}

func (k *work) leave(grace time.Duration, amid bool) (oldest *work) {
	k.mu.Lock()
	defer k.mu.Unlock()
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

// giveUp ends work that nobody has rejoined.
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
	k.settle(outcome)
	k.close(errNobodyCame)
}

// settle counts what became of it. The lock is held.
func (k *work) settle(outcome string) {
	k.grace.Stop()
	k.grace = nil
	k.rent.home.remove(k)
	alone.Dec()
	rejoined.WithLabelValues(outcome).Inc()
}

// promising reports whether the work is worth to be waited for: it has not failed.
// The lock is held.
func (k *work) promising() bool {
	return k.ending.panicked == nil && k.ending.err == nil && (k.head.status == 0 || k.head.status/100 == 2)
}

// rejoin takes up work that a client has left. It fails if that is too late: the
// work was given up, or has failed.
func (k *work) rejoin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grace == nil {
		return false
	}
	if !k.promising() {
		k.settle("finished")
		k.close(nil)
		return false
	}
	k.grace.Stop()
	k.grace = nil
	alone.Dec()
	k.rent.home.release(k.rent.tenant, k.rent.request)
	k.rent.kept -= k.rent.request
	k.tape.taken = 0
	return true
}
