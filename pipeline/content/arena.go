// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Arena is reusable memory for the decoded texts of one request. A text must not outlive the
// decision about its request. A nil arena allocates each text separately.
type Arena struct {
	all  []byte
	free []byte   // the free rest of all, or of the last element of more
	more [][]byte // additional memory for the texts of a new conversation, from the pool of bodies
}

// arenaSize is the memory of an arena in bytes, and arenaStep the minimum of each extension.
const (
	arenaSize = 64 << 10
	arenaStep = 256 << 10
)

var arenas = sync.Pool{New: func() any { return &Arena{all: make([]byte, arenaSize)} }}

// Open returns an empty arena. [Arena.Close] must follow.
func Open() *Arena {
	p := arenas.Get().(*Arena)
	p.free = p.all
	return p
}

// Close invalidates the texts and releases their memory.
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
