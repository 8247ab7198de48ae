// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"net/http"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// DefaultGrace is longer than any client waits before it tries again.
	DefaultGrace = time.Minute
	// mostAnswer bounds what is kept of one answer, in bytes: over 30,000 tokens as
	// the most verbose format streams them.
	mostAnswer = 8 << 20
	// window is how much of an answer that is not kept may wait for its client.
	window = 64 << 10
)

// A client that gives up while a box reads its prompt tries again a moment
// later, and the box would begin anew. So the work goes on for a while without
// a client, and the same request, should it come again, finds it.
//
// Work goes on if it has begun and its answer is kept from the beginning. It ends as soon as
// another request waits for a slot, or its conversation continues with another request. A
// client that leaves amid the answer was stopped by its user and seldom retries.
// What still waits for a slot costs nothing to ask for again, and ends with its
// client, as does an answer beyond the bounds: no other client could be given it,
// and the box would write it for nobody. From there on a client that reads slowly
// holds the upstream back, as it does without us.

var (
	// errNobodyCame ends work that nobody waits for any more.
	errNobodyCame = errors.New("the client left and did not come back")
	// errClientLeft ends work that could not be taken up again.
	errClientLeft = errors.New("the client left")
)

// rejoined counts what became of work whose client left, alone what goes on now.
var (
	rejoined = metric.CounterOf("detached_total", "Requests that went on without their client, by what became of them: joined by a retry, finished, or given up.", "outcome",
		"rejoined", "finished", "given_up")
	alone = metric.Gauge("detached", "Requests kept for a client that left.")
)

// workKey names a request: its tenant, where it goes, and its body. The hash is keyed, so
// that nobody can make two requests look the same.
type workKey struct {
	tenant sessioncache.Tenant
	hash   xxh3.Uint128
}

var workSeed = maphash.String(maphash.MakeSeed(), "work")

// rejoining sends requests on such that they outlive their client.
type rejoining struct {
	Rejoin
	next   caddyhttp.Handler
	tenant sessioncache.Tenant
	asked  Asked
}

// Asked is the client's request, which may take several at the upstream.
type Asked struct {
	// Session is the session whose conversation it goes on with, "" for none.
	Session string
	// Body is as the client sent it.
	Body []byte
}

// Rejoin is what the layer needs to know of its site.
type Rejoin struct {
	// Grace is how long a request goes on without its client, 0 for not at all.
	Grace time.Duration
	// Detached are the requests that do.
	Detached *Detached
	// Queue is the name of the queue in which a request may have to wait for a slot before it
	// begins, "" for none.
	Queue string
	// Log gets what goes wrong.
	Log *zap.Logger
}

// Layer returns next with the layer before it, for a request of a tenant. It ends work for what
// was asked before in its session.
func (j Rejoin) Layer(next caddyhttp.Handler, tenant sessioncache.Tenant, asked Asked) caddyhttp.Handler {
	if j.Grace == 0 {
		return next
	}
	return &rejoining{j, next, tenant, asked}
}

// Yield ends work that its client has left, for a request that waits for a slot.
func (j *Rejoin) Yield() { j.Detached.yield(j.Queue) }

// ServeHTTP implements caddyhttp.Handler.
func (l *rejoining) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := httpx.Whole(r)
	if !ok {
		return l.next.ServeHTTP(w, r)
	}
	key := workOf(r, l.tenant, p.Data)
	if k := l.Detached.take(key); k != nil && k.rejoin() {
		rejoined.WithLabelValues("rejoined").Inc()
		return l.follow(w, r, k)
	}
	l.Detached.supersede(l.tenant, l.asked)
	k := &work{
		key: key, asked: l.asked, queue: l.Queue, more: make(chan struct{}), head: head{begun: l.Queue == ""},
		rent: rent{home: l.Detached, tenant: l.tenant, request: int64(len(p.Data))},
	}
	k.Answer = httpx.NewAnswer(nil, k)
	k.Own = make(http.Header)
	k.room.L = &k.mu
	detached, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	k.cancel = cancel
	req := httpx.Isolate(r.Clone(detached), k)
	p.Attach(req)
	k.placeholders = req.Context()
	go k.run(l.Log, l.next, req)
	return l.follow(w, r, k)
}

func workOf(r *http.Request, tenant sessioncache.Tenant, body []byte) workKey {
	h := xxh3.NewSeed(workSeed)
	for _, field := range []string{r.Method, r.Host, r.URL.RequestURI()} {
		_, _ = h.WriteString(field + "\x00")
	}
	_, _ = h.Write(body)
	return workKey{tenant, h.Sum128()}
}

// follow passes on what the work has brought and brings, until its end or until
// the client leaves.
func (l *rejoining) follow(w http.ResponseWriter, r *http.Request, k *work) error {
	at, begun := 0, false
	defer func() { upstream.Tell(r.Context(), k.placeholders) }()
	for {
		part := k.after(at, begun)
		if part.status != 0 && !begun {
			begun = true
			upstream.Tell(r.Context(), k.placeholders)
			if part.waited > 0 {
				httpx.Waited(w, part.waited)
			}
			httpx.Common(w, part.common)
			maps.Copy(w.Header(), part.header)
			w.WriteHeader(part.status)
		}
		if len(part.bytes) > 0 {
			n, err := w.Write(part.bytes)
			at += n
			k.took(at)
			if err == nil && part.flush {
				err = http.NewResponseController(w).Flush()
			}
			if err != nil {
				k.detach(l.Grace, at > 0)
				return err
			}
		}
		switch {
		case part.ended && part.panicked != nil:
			k.end(nil)
			panic(part.panicked) // as it would have here
		case part.ended:
			k.end(nil)
			if begun {
				k.trailers(w.Header())
			}
			return part.err
		}
		select {
		case <-part.more:
		case <-r.Context().Done():
			k.detach(l.Grace, at > 0)
			return caddyhttp.Error(StatusClientClosed, context.Cause(r.Context()))
		}
	}
}
