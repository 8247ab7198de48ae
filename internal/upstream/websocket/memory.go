// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"context"
	"net/http"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/memory"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Memory bounds the conversations of all connections. The client of an evicted one gets an error upon which it
// sends the whole conversation.
type Memory struct {
	pool *lru.Pool[*conn]
	kept *lru.Cache[*response, *conn, struct{}]
}

// overhead is the memory of an answer besides its items, in bytes.
const overhead = 256

// NewMemory returns a memory with a limit in bytes.
func NewMemory(limit int64) *Memory {
	pool := lru.NewPool[*conn](limit)
	return &Memory{pool, lru.New(lru.Options[*response, *conn, struct{}]{Pool: pool})}
}

// Of returns the memory of a state.
func Of(s *state.State) *Memory {
	return state.Part(s, func() *Memory { return NewMemory(memory.Of(s.Instance).Share(memory.Sockets)) })
}

// Interface guards
var (
	_ state.Holder    = (*Memory)(nil)
	_ state.Forgetter = (*Memory)(nil)
)

// response is an answer that a client may continue.
type response struct {
	id   string
	line retain.Line // the answers before it
	from *response   // the last of them, until this one is kept
	gone bool        // deleted by the client
	said []byte      // items before the next request's input, with commas between them

	session string // see InSession
}

func (m *Memory) keep(r *response, of *conn) {
	m.kept.Lock()
	defer m.kept.Unlock()
	from := r.from
	if r.from = nil; from != nil && from.gone { // this answer contains a deleted one
		return
	}
	m.kept.Put(r, of, struct{}{}, int64(overhead+cap(r.said)+8*len(r.line)))
}

// recall returns the items up to an answer, false if they were evicted.
func (m *Memory) recall(r *response) (said []byte, ok bool) {
	m.kept.Lock()
	defer m.kept.Unlock()
	e := m.kept.Get(r)
	if e == nil {
		return nil, false
	}
	m.kept.Use(e)
	return r.said, true
}

func (m *Memory) forget(r *response) {
	if r == nil {
		return
	}
	m.kept.Lock()
	defer m.kept.Unlock()
	if e := m.kept.Get(r); e != nil {
		m.kept.Drop(e)
	}
}

// Forget drops a deleted answer and the later ones that contain it, in connections with a handshake of the same
// owner, and reports whether there was any. Requests that continue them get a not-found error.
func (m *Memory) Forget(id string, mine func(handshake *http.Request) bool) (found bool) {
	m.kept.Lock()
	defer m.kept.Unlock()
	for e := range m.kept.Oldest() {
		if r := e.Key; (r.id == id || r.line.Has(id)) && mine(e.Owner.request) {
			found, r.gone = true, true
			m.kept.Drop(e)
		}
	}
	return found
}

// inSession is the key of a request's answer in its context.
type inSession struct{}

// InSession sets the function that returns the session of a request on a WebSocket, see
// [Memory.ForgetSession]. The function is called at the end of the response.
func InSession(request context.Context, session func() string) {
	if a, ok := request.Value(inSession{}).(*answer); ok {
		a.session = session
	}
}

// ForgetSession implements [state.Forgetter].
func (m *Memory) ForgetSession(x *sessioncache.Session) { m.forgetSession(x.ID()) }

func (m *Memory) forgetSession(session string) {
	m.kept.Lock()
	defer m.kept.Unlock()
	for e := range m.kept.Oldest() {
		if e.Key.session == session {
			e.Key.gone = true
			m.kept.Drop(e)
		}
	}
}

// Budget implements [state.Holder].
func (*Memory) Budget() memory.Part { return memory.Sockets }

// SetLimit implements [state.Holder].
func (m *Memory) SetLimit(limit int64) { m.pool.SetLimit(limit) }

// Bytes implements [state.Holder].
func (m *Memory) Bytes() int64 { return m.pool.Bytes() }
