// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package shared keeps values that outlive the configurations that use them: stores, files, queues.
package shared

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
)

// Pool stores open values by key. Each configuration that uses a value has a share of it, and each
// request that runs on it a pin. A value closes once both are gone; until then the next
// configuration with the same key gets it again. Two values of one key are never open at once. The
// zero Pool is ready to use.
//
// [caddy.UsagePool] counts configurations only, and drops a key before it closes the value: a
// configuration that comes meanwhile would open files that are still in use.
type Pool[T Value] struct {
	mu     sync.Mutex
	values map[string]*entry[T]
}

// Value is a value for a pool. It embeds [Pins], and its Close is called once.
type Value interface {
	io.Closer
	pins() *Pins
}

type entry[T Value] struct {
	value  T
	err    error         // of opening it
	opened chan struct{} // closed once value or err is set
	closed chan struct{} // closed once the value is closed
}

// errOpening reports that the opening of a value panicked.
var errOpening = errors.New("opening panicked")

// NewPool returns a pool of the process: values that are still pinned when the process exits are
// closed then.
func NewPool[T Value]() *Pool[T] {
	p := new(Pool[T])
	caddy.OnExit(func(context.Context) { p.closeAll() })
	return p
}

// closeAll closes all values, with users or without.
func (p *Pool[T]) closeAll() {
	for _, e := range p.entries() {
		if pins := e.value.pins(); pins.end() {
			// Caddy exits: values close with users or without.
			logged(pins.close())
		}
	}
}

// Share takes a share of the value under a key, which open opens if there is none. It waits for an
// earlier value of the key that is closing.
func (p *Pool[T]) Share(key string, open func() (T, error)) (*Share[T], error) {
	for {
		p.mu.Lock()
		e, found := p.values[key]
		if !found {
			e = &entry[T]{opened: make(chan struct{}), closed: make(chan struct{})}
			if p.values == nil {
				p.values = make(map[string]*entry[T])
			}
			p.values[key] = e
		}
		p.mu.Unlock()
		if !found {
			p.open(key, e, open)
		}
		<-e.opened
		if e.err != nil {
			return nil, e.err
		}
		if !found || e.value.pins().take(1) {
			return &Share[T]{Of: e.value, Key: key}, nil
		}
		// The value is closing. Two of one key must not be open at once.
		<-e.closed
	}
}

// open opens the value of an entry, with a first share.
func (p *Pool[T]) open(key string, e *entry[T], open func() (T, error)) {
	remove := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.values, key)
	}
	defer close(e.opened)
	defer func() {
		if e.err != nil {
			remove()
		}
	}()
	e.err = errOpening // stays if open panics
	if e.value, e.err = open(); e.err != nil {
		return
	}
	pins := e.value.pins()
	pins.users, pins.shares = 1, 1
	pins.close = func() error {
		defer close(e.closed)
		defer remove()
		return e.value.Close()
	}
}

func (p *Pool[T]) entries() (all []*entry[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.values {
		select {
		case <-e.opened:
			if e.err == nil {
				all = append(all, e)
			}
		default:
		}
	}
	return all
}

// All returns the values that configurations have shares of.
func (p *Pool[T]) All() (all []T) {
	for _, e := range p.entries() {
		if e.value.pins().shared() {
			all = append(all, e.value)
		}
	}
	return all
}

// Share is a configuration's share of a value.
type Share[T Value] struct {
	// Of is the value, and Key its key.
	Of  T
	Key string

	released atomic.Bool
}

// Release gives the share back, and closes the value unless it has other users. A second call, or
// one on nil, does nothing.
func (s *Share[T]) Release() error {
	if s == nil || s.released.Swap(true) {
		return nil
	}
	if pins := s.Of.pins(); pins.close != nil && pins.give(1) {
		return pins.close()
	}
	return nil
}

// Pins are the users of a value. The zero Pins are those of a value in no pool, which can always be
// pinned and is its owner's to close.
type Pins struct {
	mu     sync.Mutex
	users  int // configurations and requests
	shares int // configurations
	ended  bool
	close  func() error // nil in no pool
}

func (p *Pins) pins() *Pins { return p }

// Pin keeps the value open until Unpin. It returns false if the value is closed.
func (p *Pins) Pin() bool { return p.close == nil || p.take(0) }

// Unpin ends a Pin. The last one closes the value in the background: no request waits for that.
func (p *Pins) Unpin() {
	if p.close != nil && p.give(0) {
		go func() { logged(p.close()) }()
	}
}

// take adds a user, with shares or none. It returns false if the value is closed.
func (p *Pins) take(shares int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.users++
	p.shares += shares
	return true
}

// give removes a user. It reports whether the value is to be closed.
func (p *Pins) give(shares int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.shares -= shares
	if p.users > 0 || p.ended {
		return false
	}
	// The last user closes the value, outside the lock.
	p.ended = true
	return true
}

func (p *Pins) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.ended
	p.ended = true
	return !before
}

func (p *Pins) shared() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shares > 0
}

func logged(err error) {
	if err != nil {
		caddy.Log().Named("llm_cache").Error("closing shared state", zap.Error(err))
	}
}
