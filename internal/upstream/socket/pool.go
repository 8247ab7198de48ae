// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
)

const (
	// maxConnections bounds the connections of a site.
	maxConnections = 128
	// maxIdle is how long an idle connection is kept.
	maxIdle = 5 * time.Minute
	// maxLife is the maximum age of a connection for a new request: providers close connections
	// after 60 minutes.
	maxLife = 55 * time.Minute
	// refusal is how long an upstream without WebSockets is not tried again.
	refusal = 10 * time.Minute
)

// maxRefused bounds the remembered refusals.
const maxRefused = 4096

// Pool has the open connections of one site.
type Pool struct {
	now   func() time.Time
	limit int
	idle  time.Duration

	mu      sync.Mutex
	closed  bool
	open    map[*conn]struct{}
	opening int
	last    map[string]*conn          // idle connections, by the answer that each keeps
	refused map[retain.Side]time.Time // end of the pause after a refused handshake
}

// NewPool returns an empty pool.
func NewPool(now func() time.Time) *Pool {
	return &Pool{
		now: now, limit: maxConnections, idle: maxIdle,
		open: map[*conn]struct{}{}, last: map[string]*conn{}, refused: map[retain.Side]time.Time{},
	}
}

func (p *Pool) lost(handle string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.last[handle]
	return c == nil || p.worn(c)
}

func (p *Pool) worn(c *conn) bool { return p.now().Sub(c.born) >= maxLife }

// take acquires the connection that keeps an answer of this caller.
func (p *Pool) take(handle string, who caller) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.last[handle]
	if c == nil || c.caller != who || p.worn(c) {
		return nil
	}
	p.use(c)
	return c
}

func (p *Pool) spare(who caller) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if c.caller == who && !c.busy && !p.worn(c) {
			p.use(c)
			return c
		}
	}
	return nil
}

func (p *Pool) use(c *conn) {
	// The next request replaces the kept answer.
	delete(p.last, c.last)
	c.busy, c.last = true, ""
	c.rest.Stop()
}

// reserve makes room for another connection. It returns false if all connections are busy.
func (p *Pool) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if len(p.open)+p.opening >= p.limit {
		var oldest *conn
		for c := range p.open {
			if !c.busy && (oldest == nil || c.used.Before(oldest.used)) {
				oldest = c
			}
		}
		if oldest == nil {
			return false
		}
		// The one idle for longest is the least likely to be continued.
		p.drop(oldest)
	}
	p.opening++
	return true
}

func (p *Pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opening--
	if c == nil {
		return
	}
	c.born, c.busy = p.now(), true
	c.rest = time.AfterFunc(p.idle, func() { httpx.Background("closing a WebSocket", func() { p.retire(c) }) })
	c.rest.Stop()
	p.open[c] = struct{}{}
	connections.Inc()
	dialed.Inc()
}

func (p *Pool) release(c *conn, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.open[c]; !ok {
		return
	}
	c.busy, c.used = false, p.now()
	if p.closed {
		p.drop(c)
		return
	}
	if c.last = last; last != "" {
		p.last[last] = c
	}
	c.rest.Reset(p.idle)
}

func (p *Pool) retire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.busy {
		p.drop(c)
	}
}

// Forget closes the connection that keeps a tenant's answer, after the client has deleted the
// answer.
func (p *Pool) Forget(s retain.Side, handle string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.last[handle]; c != nil && c.Side == s && !c.busy {
		p.drop(c)
	}
}

func (p *Pool) lose(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
}

// drop is lose with the lock taken.
func (p *Pool) drop(c *conn) {
	if _, ok := p.open[c]; !ok {
		return
	}
	delete(p.open, c)
	if p.last[c.last] == c {
		delete(p.last, c.last)
	}
	c.rest.Stop()
	connections.Dec()
	clean := !c.busy
	go httpx.Background("closing a WebSocket", func() { c.close(clean) })
}

func (p *Pool) refuses(s retain.Side) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.refused[s]
	if ok && !until.After(p.now()) {
		delete(p.refused, s)
		ok = false
	}
	return ok
}

func (p *Pool) refuse(s retain.Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for other, until := range p.refused {
		if !until.After(now) {
			delete(p.refused, other)
		}
	}
	if len(p.refused) >= maxRefused { // forget any of them
		for other := range p.refused {
			delete(p.refused, other)
			break
		}
	}
	p.refused[s] = now.Add(refusal)
}

// Close closes the idle connections. Busy ones close after their answers. Later requests are sent
// as POST.
func (p *Pool) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		if !c.busy {
			p.drop(c)
		}
	}
}
