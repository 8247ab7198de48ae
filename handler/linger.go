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

package handler

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// defaultLinger is longer than any client waits before it tries again.
const defaultLinger = time.Minute

// A client that gives up while a box reads its prompt tries again a moment
// later, and the box would begin anew. So the work goes on for a while without
// a client, and the same request, should it come again, finds it.

// errNobodyCame ends work that nobody waits for any more.
var errNobodyCame = errors.New("the client left and did not come back")

// lingered counts what became of work whose client left, alone what goes on now.
var (
	lingered = counterVec("lingering_total", "Requests that went on without their client, by what became of them: joined by a retry, finished, or given up.", "outcome")
	alone    = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "lingering", Help: "Requests kept for a client that left."})
)

func (h *Handler) linger() time.Duration {
	switch {
	case h.Linger != nil:
		return time.Duration(*h.Linger)
	case h.Upstream.local():
		return defaultLinger
	}
	return 0
}

// workKey names a request: its tenant, where it goes, and its body.
type workKey [sha256.Size]byte

// lingering sends requests on such that they outlive their client.
type lingering struct {
	h    *Handler
	next caddyhttp.Handler
}

func (h *Handler) lingering(next caddyhttp.Handler) caddyhttp.Handler {
	if h.linger() == 0 {
		return next
	}
	return &lingering{h, next}
}

// ServeHTTP implements caddyhttp.Handler.
func (l *lingering) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := r.Body.(*payloadReader)
	if !ok || p.at != 0 {
		return l.next.ServeHTTP(w, r)
	}
	key := l.key(r, p.data)
	if v, ok := l.h.state.orphans.LoadAndDelete(key); ok {
		if k := v.(*work); k.adopt() {
			lingered.WithLabelValues("joined").Inc()
			return l.follow(w, r, k, key)
		}
	}
	k := newWork()
	detached, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	k.cancel = cancel
	req := isolate(r.Clone(detached), k)
	p.attach(req)
	go k.run(l.next, req)
	return l.follow(w, r, k, key)
}

func (l *lingering) key(r *http.Request, body []byte) (key workKey) {
	tenant := l.h.state.tenant(r)
	sum := sha256.New()
	fields := appendField(tenant[:], r.Method)
	fields = appendField(fields, r.Host)
	sum.Write(appendField(fields, r.URL.RequestURI()))
	sum.Write(body)
	sum.Sum(key[:0])
	return key
}

// follow passes on what the work has brought and brings, until its end or until
// the client leaves.
func (l *lingering) follow(w http.ResponseWriter, r *http.Request, k *work, key workKey) error {
	at, begun := 0, false
	for {
		part := k.after(at, begun)
		if part.status != 0 && !begun {
			begun = true
			if t, ok := w.(interface{ waited(time.Duration) }); ok && part.waited > 0 {
				t.waited(part.waited)
			}
			maps.Copy(w.Header(), part.header)
			w.WriteHeader(part.status)
		}
		if len(part.bytes) > 0 {
			n, err := w.Write(part.bytes)
			at += n
			if err == nil && part.flush {
				err = http.NewResponseController(w).Flush()
			}
			if err != nil {
				l.leave(k, key)
				return err
			}
		}
		switch {
		case part.ended && part.panicked != nil:
			panic(part.panicked) // as it would have here
		case part.ended:
			if begun {
				k.trailers(w.Header())
			}
			return part.err
		}
		select {
		case <-part.more:
		case <-r.Context().Done():
			l.leave(k, key)
			return caddyhttp.Error(statusClientClosed, context.Cause(r.Context()))
		}
	}
}

// leave lets the work go on without a client, for a while.
func (l *lingering) leave(k *work, key workKey) {
	l.h.state.orphans.Store(key, k)
	k.orphan(l.h.linger(), func() { l.h.state.orphans.CompareAndDelete(key, k) })
}

// work is a request at the upstream, and the writer of its answer: it keeps the
// answer for whoever asks.
type work struct {
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	more     chan struct{} // closed when there is more
	header   http.Header   // filled by the handlers behind
	sent     http.Header   // as it stood when the status came
	status   int
	body     []byte
	flushed  bool
	wait     time.Duration
	ended    bool
	err      error
	panicked any
	grace    *time.Timer // runs while no client waits
}

func newWork() *work { return &work{more: make(chan struct{}), header: make(http.Header)} }

func (k *work) run(next caddyhttp.Handler, r *http.Request) {
	var err error
	defer func() {
		p := recover()
		k.cancel(nil)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.err, k.panicked, k.ended = err, p, true
		k.wake()
	}()
	err = next.ServeHTTP(k, r)
}

// wake tells whoever follows that there is more.
func (k *work) wake() {
	close(k.more)
	k.more = make(chan struct{})
}

// Header implements http.ResponseWriter.
func (k *work) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *work) WriteHeader(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status != 0 || status < http.StatusOK {
		return
	}
	k.status, k.sent = status, k.header.Clone()
	k.wake()
}

// Write implements io.Writer.
func (k *work) Write(p []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.body = append(k.body, p...)
	k.wake()
	return len(p), nil
}

// ReadFrom writes what is read.
func (k *work) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{k}, r)
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

// waited notes a time in the queue.
func (k *work) waited(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wait += d
}

// part is what there is of an answer.
type part struct {
	status   int
	header   http.Header
	bytes    []byte
	flush    bool // the handlers behind want it to be seen
	waited   time.Duration
	ended    bool
	err      error
	panicked any
	more     <-chan struct{}
}

func (k *work) after(at int, begun bool) part {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := part{status: k.status, bytes: k.body[at:len(k.body):len(k.body)], flush: k.flushed, waited: k.wait, ended: k.ended, err: k.err, panicked: k.panicked, more: k.more}
	if !begun {
		p.header = k.sent.Clone()
	}
	return p
}

// trailers copies what came after the header. The work must have ended.
func (k *work) trailers(to http.Header) {
	for name, values := range k.header {
		if _, before := k.sent[name]; !before || !slices.Equal(values, k.sent[name]) {
			to[name] = values
		}
	}
}

// orphan ends the work unless somebody adopts it in time.
func (k *work) orphan(grace time.Duration, forget func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	alone.Inc()
	k.grace = time.AfterFunc(grace, func() {
		alone.Dec()
		forget()
		outcome := "given_up"
		k.mu.Lock()
		if k.ended {
			outcome = "finished"
		}
		k.mu.Unlock()
		lingered.WithLabelValues(outcome).Inc()
		k.cancel(errNobodyCame)
	})
}

// adopt takes up work that a client has left. It fails if that is too late: the
// work was given up, or has failed.
func (k *work) adopt() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.grace == nil || !k.grace.Stop() {
		return false
	}
	alone.Dec()
	return k.panicked == nil && k.err == nil && (k.status == 0 || k.status/100 == 2)
}
