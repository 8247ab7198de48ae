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
	// mostConnections is how many connections a site may have.
	mostConnections = 128
	// longestIdle is for how long a connection is kept that nobody uses.
	longestIdle = 5 * time.Minute
	// longestLife is for how long a connection is used: providers close it after 60
	// minutes.
	longestLife = 55 * time.Minute
	// refusal is for how long an upstream is not asked again that answers no handshake.
	refusal = 10 * time.Minute
)

// mostRefused bounds those whose handshakes were refused of late.
const mostRefused = 4096

// Pool has the connections of one site. It keeps nothing but what is open.
type Pool struct {
	now  func() time.Time
	most int
	idle time.Duration

	mu      sync.Mutex
	closed  bool
	open    map[*conn]struct{}
	opening int
	last    map[string]*conn          // by the answer that a connection that nobody uses keeps
	refused map[retain.Side]time.Time // until when who is not asked
}

// NewPool returns one without connections.
func NewPool(now func() time.Time) *Pool {
	return &Pool{
		now: now, most: mostConnections, idle: longestIdle,
		open: map[*conn]struct{}{}, last: map[string]*conn{}, refused: map[retain.Side]time.Time{},
	}
}

// lost reports that no connection keeps an answer.
func (p *Pool) lost(handle string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.last[handle]
	return c == nil || p.worn(c)
}

// worn reports that a connection is too old for another request.
func (p *Pool) worn(c *conn) bool { return p.now().Sub(c.born) >= longestLife }

// take takes the connection that keeps an answer, nil if there is none to be used by who
// asks.
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

// spare takes a connection of a conversation that nobody uses, nil if there is none.
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

// use has a connection be busy. What it has kept is gone with the next request.
func (p *Pool) use(c *conn) {
	delete(p.last, c.last)
	c.busy, c.last = true, ""
	c.rest.Stop()
}

// reserve makes room for one connection more: that which has not been used for longest
// gives way. It reports whether there is any.
func (p *Pool) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if len(p.open)+p.opening >= p.most {
		var oldest *conn
		for c := range p.open {
			if !c.busy && (oldest == nil || c.used.Before(oldest.used)) {
				oldest = c
			}
		}
		if oldest == nil {
			return false
		}
		p.drop(oldest)
	}
	p.opening++
	return true
}

// put takes a new connection in, which is busy, or nil for none.
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

// release gives a connection back, with the answer that it keeps, "" for none.
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

// retire closes a connection, unless somebody uses it.
func (p *Pool) retire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.busy {
		p.drop(c)
	}
}

// Forget closes the connection that keeps an answer of a tenant's, which its client has had
// deleted.
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

// lose forgets a connection and closes it.
func (p *Pool) lose(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(c)
}

// drop is lose with the lock held.
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

// refuses reports whether an upstream has answered no handshake of late.
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

// refuse notes that it did not.
func (p *Pool) refuse(s retain.Side) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for other, until := range p.refused {
		if !until.After(now) {
			delete(p.refused, other)
		}
	}
	if len(p.refused) >= mostRefused { // any of them is asked once more
		for other := range p.refused {
			delete(p.refused, other)
			break
		}
	}
	p.refused[s] = now.Add(refusal)
}

// Close closes the connections that nobody uses, and the others behind the answers that
// they are busy with. What comes later goes as POST.
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
