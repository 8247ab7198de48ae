// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"net/http"
	"sync"
	"time"
)

// headerPatience is how long the header of a stream waits at most for the first bytes of
// the body.
const headerPatience = 5 * time.Millisecond

// Flushes tells which flushes of an answer to a client are worth a write of their own.
// reverse_proxy flushes the header of a stream as soon as it is there, in a goroutine of
// its own; the body mostly comes with it, and one write does for both.
type Flushes struct {
	begun bool        // bytes of the body were written
	dirty bool        // some of them since the last flush
	alone *loneHeader // waits for the body, nil if no header does
}

// Due reports whether an answer whose header was written to w is to be flushed now. One
// without a body yet, if it is a stream, is left to the others that wait, which flush it in
// time.
func (f *Flushes) Due(w http.ResponseWriter, stream bool, waiting *Headers) bool {
	switch {
	case f.begun:
		due := f.dirty
		f.dirty = false
		return due
	case !stream:
		return true
	case f.alone == nil:
		f.alone = &loneHeader{w: w}
		waiting.add(f.alone)
	}
	return false
}

// Wrote notes that bytes of the body are about to be written.
func (f *Flushes) Wrote() {
	f.Settle()
	f.begun, f.dirty = true, true
}

// Settle makes sure that nobody else is at the client's writer, nor will be.
func (f *Flushes) Settle() {
	if f.alone != nil {
		f.alone.end()
		f.alone = nil
	}
}

// loneHeader is the header of a stream that waits for the first bytes of the body.
type loneHeader struct {
	mu sync.Mutex
	w  http.ResponseWriter // nil once it waits no more
}

// flush sends the header, unless it waits no more.
func (l *loneHeader) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		_ = http.NewResponseController(l.w).Flush() // the next write meets the same error
		l.w = nil
	}
}

// end has nobody flush the header any more. Whoever is about to is waited for.
func (l *loneHeader) end() {
	l.mu.Lock()
	l.w = nil
	l.mu.Unlock()
}

// Headers are those that wait. They share a timer: most are on their way long before it
// fires, and many begin to wait while it runs. The zero value is ready.
type Headers struct {
	mu      sync.Mutex
	waiting []*loneHeader
}

func (h *Headers) add(l *loneHeader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting = append(h.waiting, l); len(h.waiting) == 1 {
		time.AfterFunc(headerPatience, h.flush)
	}
}

// flush sends all that still wait.
func (h *Headers) flush() {
	h.mu.Lock()
	late := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	for _, l := range late {
		Background("flushing a header", l.flush)
	}
}
