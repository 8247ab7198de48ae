// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Arena is memory for the texts that are decoded for one request, used again by
// the next one. A text of an arena must not outlive the decision about its
// request. A nil arena has no memory: each text gets its own.
type Arena struct {
	all  []byte
	free []byte   // the rest of all, or of the last of more
	more [][]byte // for the texts of a conversation that is new, from the pool of bodies
}

// arenaSize is the memory of an arena, and arenaStep that of a piece more.
const (
	arenaSize = 64 << 10
	arenaStep = 256 << 10
)

var arenas = sync.Pool{New: func() any { return &Arena{all: make([]byte, arenaSize)} }}

// Open returns an arena in which nothing lies yet. [Arena.Close] is to follow.
func Open() *Arena {
	p := arenas.Get().(*Arena)
	p.free = p.all
	return p
}

// Close ends the use of the texts, so that others can write there.
func (p *Arena) Close() {
	for _, b := range p.more {
		reuse.Recycle(b)
	}
	clear(p.more)
	p.more, p.free = p.more[:0], nil
	arenas.Put(p)
}

// take returns n bytes to write to.
func (p *Arena) take(n int) []byte {
	if p == nil {
		return make([]byte, n)
	}
	if n > len(p.free) {
		b := reuse.Buffer(max(n, arenaStep))
		p.more, p.free = append(p.more, b), b[:cap(b)]
	}
	out := p.free[:n:n]
	p.free = p.free[n:]
	return out
}
