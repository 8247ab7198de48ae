// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package origin is the handler llm_cache_origin: near a model, it accepts requests from edges as differences from
// earlier ones.
package origin

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	defaultMaxBody = 32 << 20
	maxMaxBody     = 1 << 30
	// maxName bounds the names of an edge and a conversation, in bytes.
	maxName = 128
)

// Handler restores the requests that an edge sends as differences. An edge is an `llm_cache`
// with `retain origin`, at the other end of a slow line. The handler stands near the model, in
// front of `llm_cache` and `reverse_proxy`:
//
//	http://:4004 {
//		llm_cache_origin
//		reverse_proxy 127.0.0.1:8080
//	}
//
// Other requests pass untouched and unread.
//
// Answered requests are kept in memory, each for the edge and the credential that sent it. A
// difference to a request that is not kept gets 415 with the header `Llm-Cache-Delta`. The
// edge then sends the whole request; the client does not notice.
type Handler struct {
	// TTL is for how long what is not used is kept, at most 7 days. Default: 3h.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// MaxBody is the size in bytes that a body may be made to. A difference that makes a
	// larger one is answered by 413; a larger body that comes whole passes, and is not
	// kept. At most 1 GiB. Default: 33554432 (32 MiB).
	MaxBody int64 `json:"max_body,omitempty"`

	// Sessions lets clients name a conversation themselves, by a member `sessionId` in
	// the body, and send only what has come since their last request. A request
	// with a system prompt or tools is whole. An unknown session is answered by 404,
	// `session not found`. Default: false.
	Sessions *bool `json:"sessions,omitempty"`

	instance *shared.Instance
	store    *store
	share    *shared.Share[*store]
	log      *zap.Logger
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.llm_cache_origin",
		New: func() caddy.Module { return new(Handler) },
	}
}

type room struct{ *lru.Pool[sessioncache.Tenant] }

func roomOf(i *shared.Instance) room {
	return shared.Part(i, func() room {
		r := room{lru.NewPool[sessioncache.Tenant](memory.Origin.Of(memory.Min))}
		memory.Of(i).Register(memory.Origin, r.Bytes, r.SetLimit)
		return r
	})
}

// Provision fills in defaults and takes a share of a store.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.instance = shared.Of(ctx)
	if err := metric.Register(h.instance, ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if h.MaxBody == 0 {
		h.MaxBody = defaultMaxBody
	}
	h.log = ctx.Logger()
	life := cmp.Or(time.Duration(h.TTL), relay.DefaultTTL)
	var err error
	if h.share, err = shared.PoolOf[*store](h.instance).Share(life.String(),
		func() (*store, error) { return newStore(roomOf(h.instance).Pool, life, time.Now), nil }); err != nil {
		return err
	}
	h.store = h.share.Of
	return nil
}

// Validate returns an error for the first invalid option.
func (h *Handler) Validate() error {
	if err := relay.ValidateTTL(h.TTL); err != nil {
		return err
	}
	if h.MaxBody < 0 || h.MaxBody > maxMaxBody {
		return fmt.Errorf("max_body must be between 1 and %d bytes, got %d", maxMaxBody, h.MaxBody)
	}
	return nil
}

// Cleanup releases the store.
func (h *Handler) Cleanup() error { return h.share.Release() }

// UnmarshalCaddyfile sets the handler up from Caddyfile tokens. Syntax:
//
//	llm_cache_origin [<matcher>] {
//		ttl      <duration>
//		max_body <size>
//		sessions on|off
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the directive
	return option.Alone(d, "llm_cache_origin", option.Options{
		"ttl":      option.Checked(option.Duration(&h.TTL), h.Validate),
		"max_body": option.Checked(option.Size(&h.MaxBody), h.Validate),
		"sessions": option.OnOff(&h.Sessions),
	})
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	// A request may outlive its configuration.
	if h.store.Pin() {
		defer h.store.Unpin()
	}
	name, of := r.Header.Get(delta.EdgeName), r.Header.Get(delta.Conversation)
	if name == "" && h.Sessions != nil && *h.Sessions {
		return h.serveSession(w, r, next)
	}
	if name == "" || len(name)+len(of) > maxName || r.Method != http.MethodPost {
		return next.ServeHTTP(w, r)
	}
	base := r.Header.Get(delta.BaseHandle)
	// The fields are between edge and origin only.
	r.Header.Del(delta.EdgeName)
	r.Header.Del(delta.Conversation)
	r.Header.Del(delta.BaseHandle)
	e := &edgeRequest{
		Handler: h, of: conversation{owner{h.store.key.Of(r), name}, of}, base: base,
		share: budget.Of(h.instance).Open(),
	}
	defer e.share.Close()
	switch httpx.Coding(r.Header) {
	case delta.Coding:
		return e.make(w, r, next)
	case "":
		return e.keep(w, r, next)
	}
	count(passed)
	return next.ServeHTTP(w, r)
}

type edgeRequest struct {
	*Handler
	of    conversation
	base  string // handle of the base
	share *budget.Share
}

// keep reads a whole body and stores it as a base.
func (e *edgeRequest) keep(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.ContentLength <= 0 || r.ContentLength > e.MaxBody {
		count(passed)
		return next.ServeHTTP(w, r)
	}
	rest := r.Body
	data, err := e.read(w, r)
	if errors.Is(err, httpx.ErrNoRoom) {
		count(passed)
		// Without memory for a copy, the request passes: the bytes read so far, then the rest.
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(data), r.Body), rest}
		return next.ServeHTTP(w, r)
	}
	if err != nil {
		return err
	}
	count(whole)
	return e.pass(w, r, next, data)
}

// make builds the body from a difference.
func (e *edgeRequest) make(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	var base []byte
	if e.base != "" {
		if base = e.store.get(e.of.owner, e.base); base == nil {
			return refuse(w, delta.UnknownBase)
		}
	}
	program, err := e.read(w, r)
	switch {
	case errors.Is(err, httpx.ErrNoRoom):
		return refuse(w, delta.NoRoom)
	case errors.Is(err, httpx.ErrTooLarge):
		return tooLarge(w, err)
	case err != nil:
		return err
	}
	// Reserve before building, because a short program can claim a large body.
	size, err := delta.Size(program)
	if err == nil && size <= e.MaxBody {
		if e.share.Grow(r.Context(), int64(cap(program))+2*size) != nil { // the body, and its literals
			return refuse(w, delta.NoRoom)
		}
	}
	body, err := delta.Make(base, program, e.MaxBody)
	switch {
	case errors.Is(err, delta.ErrTooLarge):
		return tooLarge(w, caddyhttp.Error(http.StatusRequestEntityTooLarge, err))
	case errors.Is(err, delta.ErrHash):
		// The edge repeats the request, so only the log tells of the mismatch.
		e.log.Error("a difference makes another body than it said", zap.Int64("bytes", size))
		return refuse(w, delta.BadHash)
	case err != nil:
		return refuse(w, delta.BadDelta)
	}
	count(delta.Made)
	w.Header()[delta.Delta] = []string{delta.Made}
	delete(r.Header, "Content-Encoding")
	return e.pass(w, r, next, body)
}

func (e *edgeRequest) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	e.share.Read(r.ContentLength, nil)
	defer e.share.Arrived()
	return httpx.Read(w, r, e.MaxBody, func(came, has, room int) error {
		e.share.Progress(int64(came), int64(has))
		return e.share.Grow(r.Context(), 2*int64(room))
	})
}

// pass forwards the body, and stores it once the model has answered.
func (e *edgeRequest) pass(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, body []byte) error {
	e.dress(r, body)
	a := &answer{edgeRequest: e, body: body}
	a.Answer = httpx.NewAnswer(w, a)
	return next.ServeHTTP(a, r)
}

func (*edgeRequest) dress(r *http.Request, body []byte) {
	httpx.SetLength(r, len(body))
	httpx.SetBody(r, body)
}

// refuse answers with the reason, upon which the edge sends the whole body.
func refuse(w http.ResponseWriter, why string) error {
	count(why)
	h := w.Header()
	h[delta.Delta] = []string{why}
	h["Accept-Encoding"] = []string{"identity"} // RFC 9110, 15.5.16
	h["Content-Length"] = []string{"0"}
	w.WriteHeader(http.StatusUnsupportedMediaType)
	return nil
}

// tooLarge refuses a difference for a body above the limit. The whole body passes.
func tooLarge(w http.ResponseWriter, err error) error {
	count(delta.TooLarge)
	w.Header()[delta.Delta] = []string{delta.TooLarge}
	return err
}

type answer struct {
	httpx.Answer
	*edgeRequest
	body []byte
}

// Begin implements [httpx.Receiver].
func (a *answer) Begin(status int) {
	// The model rejects strangers, so they take no memory.
	if status/100 == 2 {
		a.Header()[delta.Handle] = []string{a.store.put(a.of, a.body)}
	}
	a.Send()
}

// Take implements [httpx.Receiver].
func (a *answer) Take(p []byte) (int, error) { return a.ResponseWriter.Write(p) }

// Buffering implements [httpx.Receiver].
func (a *answer) Buffering() bool { return false }

// The results that are no word of the protocol.
const (
	// Results besides the protocol's own words.
	whole       = "whole"   // came whole, to be kept
	passed      = "passed"  // came whole, and is not kept
	session     = "session" // relative to its session
	sessionLost = "session-not-found"
)

var received = metric.CounterOf("origin_requests_total",
	"Requests of edges by what became of them: made, whole, passed, session, or why nothing could be made of a "+
		"difference.", "result",
	delta.Made, whole, passed, session, sessionLost, delta.UnknownBase, delta.BadDelta, delta.BadHash, delta.NoRoom,
	delta.TooLarge)

func count(result string) { received.WithLabelValues(result).Inc() }

// owner is a tenant's edge. Bodies are visible to their owner only.
type owner struct {
	tenant sessioncache.Tenant
	edge   string
}
