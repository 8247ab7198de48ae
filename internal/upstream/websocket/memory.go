// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"net/http"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

// Memory bounds what all connections keep of conversations. Whoever has most of it gives
// way first: the client is told that its answer is not found, and sends all of it.
type Memory struct {
	most int64
	mu   sync.Mutex
	kept *lru.Cache[*response, *conn, struct{}]
}

// overhead is what a kept answer takes besides what was said, in bytes.
const overhead = 256

// NewMemory returns one of so many bytes.
func NewMemory(most int64) *Memory {
	return &Memory{most: most, kept: lru.New[*response, *conn, struct{}]()}
}

// response is an answer that a client may go on from.
type response struct {
	id   string
	line retain.Line // the answers that it went on from
	from *response   // the last of them, until this one is kept
	gone bool        // its client has had it deleted
	said []byte      // the items that go in front of the next request, with commas between them
}

// keep takes an answer in.
func (m *Memory) keep(r *response, of *conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := r.from
	if r.from = nil; from != nil && from.gone { // it stands in this one
		return
	}
	m.kept.Put(r, of, struct{}{}, int64(overhead+cap(r.said)+8*len(r.line)))
	for m.kept.Bytes() > m.most {
		who, _ := m.kept.Heaviest()
		for old := range m.kept.OldestOf(who) {
			m.kept.Drop(old)
			break
		}
	}
}

// recall returns what was said up to an answer, and whether that is still kept.
func (m *Memory) recall(r *response) (said []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.kept.Get(r)
	if e == nil {
		return nil, false
	}
	m.kept.Use(e)
	return r.said, true
}

// forget drops an answer.
func (m *Memory) forget(r *response) {
	if r == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.kept.Get(r); e != nil {
		m.kept.Drop(e)
	}
}

// Forget drops an answer that its client has had deleted, and all that went on from it, in
// the connections whose handshake is mine, and reports whether there was any: whoever goes
// on from it is told that it is not found.
func (m *Memory) Forget(id string, mine func(handshake *http.Request) bool) (found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := range m.kept.Oldest() {
		if r := e.Key; (r.id == id || r.line.Has(id)) && mine(e.Owner.request) {
			found, r.gone = true, true
			m.kept.Drop(e)
		}
	}
	return found
}

// Held returns the bytes that are kept.
func (m *Memory) Held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept.Bytes()
}
