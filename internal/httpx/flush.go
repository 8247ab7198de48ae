// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"net/http"
	"sync"
	"time"
)

// headerPatience is the time that a stream's header waits for the first bytes of the body.
const headerPatience = 5 * time.Millisecond

// Flushes decides which flushes of a response need a write of their own.
type Flushes struct {
	begun bool        // bytes of the body were written
	dirty bool        // some of them since the last flush
	alone *loneHeader // waits for the body, nil if no header does
}

// Due reports whether a response must be flushed now, after its header was written to w. The header
// of a stream without a body yet is added to waiting, and flushed later.
func (f *Flushes) Due(w http.ResponseWriter, stream bool, waiting *Headers) bool {
	switch {
	case f.begun:
		// A flush without new bytes is not worth a write.
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

// Wrote records that bytes of the body are about to be written.
func (f *Flushes) Wrote() {
	f.Settle()
	f.begun, f.dirty = true, true
}

// Settle makes sure that no other goroutine uses, or will use, the client's writer.
func (f *Flushes) Settle() {
	if f.alone != nil {
		f.alone.end()
		f.alone = nil
	}
}

// loneHeader is the header of a stream that waits for the first bytes of the body.
type loneHeader struct {
	mu sync.Mutex
	w  http.ResponseWriter // nil once the wait is over
}

// flush sends the header if it still waits.
func (l *loneHeader) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w != nil {
		_ = http.NewResponseController(l.w).Flush() // the next write fails with the same error
		l.w = nil
	}
}

// end prevents a later flush of the header, and waits for one in progress.
func (l *loneHeader) end() {
	l.mu.Lock()
	l.w = nil
	l.mu.Unlock()
}

// Headers are the waiting headers. They share a timer, since most are sent long before it fires.
// The zero value is ready.
type Headers struct {
	mu      sync.Mutex
	waiting []*loneHeader
}

func (h *Headers) add(l *loneHeader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The first header starts the timer for all.
	if h.waiting = append(h.waiting, l); len(h.waiting) == 1 {
		time.AfterFunc(headerPatience, h.flush)
	}
}

// flush sends all headers that still wait.
func (h *Headers) flush() {
	h.mu.Lock()
	late := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	for _, l := range late {
		Background("flushing a header", l.flush)
	}
}
