// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/zeebo/xxh3"
	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// DefaultGrace exceeds the time after which any client retries.
	DefaultGrace = time.Minute
	// maxAnswer bounds the buffer of one response, in bytes: over 30,000 tokens in the most
	// verbose streaming format.
	maxAnswer = 8 << 20
	// window bounds the bytes that wait for the client, in a response that is not kept.
	window = 64 << 10
)

// A client that gives up while a local server reads its prompt retries a moment later, and the
// server would begin anew. So the work continues for a while without a client, and a retry finds
// it.
//
// Work continues if it has begun and its response is buffered from the beginning. It ends as soon
// as another request waits for a slot, or its conversation continues with another request. A client
// that leaves amid the response was stopped by its user and seldom retries. A request that still
// waits for a slot costs nothing to repeat, and ends with its client. So does a response beyond the
// bounds: no retry could get the whole response. From there on a slow client slows the upstream
// down, as it does without this layer.

var (
	// errNobodyCame cancels detached work without a retry.
	errNobodyCame = errors.New("the client left and did not come back")
	// errClientLeft cancels work that no retry could use.
	errClientLeft = errors.New("the client left")
)

// rejoined counts the outcomes of detached work; alone is the current number.
var (
	rejoined = metric.CounterOf("detached_total",
		"Requests that went on without their client, by what became of them: joined by a retry, finished, or given up.",
		"outcome",
		"rejoined", "finished", "given_up")
	alone = metric.Gauge("detached", "Requests kept for a client that left.")
)

// workKey identifies a request by its tenant, target and body.
type workKey struct {
	tenant sessioncache.Tenant
	hash   xxh3.Uint128
}

var workSeed = maphash.String(maphash.MakeSeed(), "work")

type rejoining struct {
	Rejoin
	next   caddyhttp.Handler
	tenant sessioncache.Tenant
	asked  Asked
}

// Asked is the client's request, which may cause several requests to the upstream.
type Asked struct {
	// Session is the session of the request's conversation, "" for none.
	Session string
	// Body is the client's unedited body.
	Body []byte
}

// Rejoin is the part of the site that the layer needs.
type Rejoin struct {
	// Grace is how long a request continues without its client, 0 to end it at once.
	Grace time.Duration
	// Detached has the requests without a client.
	Detached *Detached
	// Queue is the name of the queue for the request's slot, "" for none.
	Queue string
	// Log gets errors.
	Log *zap.Logger
}

// Layer returns next behind the layer, for a request of a tenant. The request ends detached work
// for other requests of its session.
func (j Rejoin) Layer(next caddyhttp.Handler, tenant sessioncache.Tenant, asked Asked) caddyhttp.Handler {
	if j.Grace == 0 {
		return next
	}
	return &rejoining{j, next, tenant, asked}
}

// Yield ends detached work in favor of a request that waits for a slot. The caller must call done after the wait.
func (j *Rejoin) Yield() (done func()) { return j.Detached.yield(j.Queue) }

// ServeHTTP implements caddyhttp.Handler.
func (l *rejoining) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := httpx.Whole(r)
	if !ok {
		return l.next.ServeHTTP(w, r)
	}
	key, size := workOf(r, l.tenant)
	if k := l.Detached.take(key); k != nil && k.rejoin() {
		rejoined.WithLabelValues("rejoined").Inc()
		return l.follow(w, r, k)
	}
	// The conversation has moved on, so no retry will come for another request of the session.
	l.Detached.supersede(l.tenant, l.asked)
	k := &work{
		key: key, asked: l.asked, queue: l.Queue, more: make(chan struct{}), head: head{begun: l.Queue == ""},
		rent: rent{home: l.Detached, tenant: l.tenant, request: size},
	}
	k.Answer = httpx.NewAnswer(nil, k)
	k.Separate = make(http.Header)
	k.room.L = &k.mu
	// The work outlives the client's request.
	detached, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	k.cancel = cancel
	req := httpx.Isolate(r.WithContext(detached), k)
	p.Attach(req)
	k.placeholders = req.Context()
	go k.run(l.Log, l.next, req)
	return l.follow(w, r, k)
}

// workOf returns the key of a request with a body in memory, and the size of the body.
func workOf(r *http.Request, tenant sessioncache.Tenant) (key workKey, size int64) {
	// The seed is secret, so clients cannot produce collisions.
	h := xxh3.NewSeed(workSeed)
	for _, field := range []string{r.Method, r.Host, r.URL.RequestURI()} {
		_, _ = h.WriteString(field + "\x00")
	}
	body, err := r.GetBody()
	if err == nil {
		size, _ = io.Copy(h, body)
	}
	return workKey{tenant, h.Sum128()}, size
}

// follow copies the work's response to the client.
func (l *rejoining) follow(w http.ResponseWriter, r *http.Request, k *work) error {
	at, begun, unflushed := 0, false, false
	defer func() { httpx.Tell(r.Context(), k.placeholders) }()
	for {
		part := k.after(at, begun)
		if part.status != 0 && !begun {
			begun = true
			httpx.Tell(r.Context(), k.placeholders)
			if part.waited > 0 {
				httpx.Waited(w, part.waited)
			}
			// A retry reports the work's numbers as its own.
			httpx.Common(w, part.common)
			maps.Copy(w.Header(), part.header)
			w.WriteHeader(part.status)
		}
		var err error
		if len(part.bytes) > 0 {
			var n int
			n, err = w.Write(part.bytes)
			at += n
			k.took(at)
			unflushed = true
		}
		if err == nil && unflushed && part.flush { // the flush may come after the bytes were taken
			err = http.NewResponseController(w).Flush()
			unflushed = false
		}
		if err != nil {
			// A failed write means that the client left.
			k.detach(l.Grace, at > 0)
			return err
		}
		switch {
		case part.ended && part.panicked != nil:
			k.end(nil)
			panic(part.panicked) // as without this layer
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
