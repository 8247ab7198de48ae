// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package framing splits streams that arrive in pieces into events, and writes events to streams.
// It supports server-sent events, one JSON array, and the event streams of AWS.
package framing

import "errors"

// DefaultLimit is the default limit of a [Framer] on one event: 32 MiB.
const DefaultLimit = 32 << 20

// maxKept is the largest buffer kept for reuse after a long event.
const maxKept = 1 << 20

// The errors of framers. After an error a framer ignores further input.
var (
	// ErrTooLarge reports an event beyond the limit.
	ErrTooLarge = errors.New("framing: event exceeds the limit")
	// ErrMalformed reports bytes that are not an event.
	ErrMalformed = errors.New("framing: not an event")
	// ErrChecksum reports an event with corrupted bytes.
	ErrChecksum = errors.New("framing: wrong checksum")
)

// Event is one event of a stream, with its original bytes.
type Event struct {
	// Raw has the bytes of the event, including separators. The Raw of all events together is the
	// stream.
	Raw []byte
	// Name is the type of the event, empty if the stream has none.
	Name []byte
	// Data is the content of the event. It is nil for a comment, white space, or the end of an
	// array.
	Data []byte
}

// Framing is the way a kind of stream separates its events.
type Framing interface {
	// Begins reports whether a stream may start with a byte.
	Begins(first byte) bool
	// Framer returns a new framer for a stream.
	Framer() Framer
	// Append appends an event to a non-empty stream.
	Append(dst []byte, name string, data []byte) []byte
}

// Framer splits a stream into events. It takes pieces of any size. A Framer is not safe for
// concurrent use.
type Framer interface {
	// Feed takes the next bytes of the stream and calls emit for each event that ends in them. The
	// event is only valid during emit: it points into b or into a reused buffer.
	Feed(b []byte, emit func(Event))
	// End ends the stream and calls emit with the bytes after the last complete event, if any.
	// These bytes may be a partial event; the caller must check.
	End(emit func(Event))
	// Rest returns the bytes after the last complete event.
	Rest() []byte
	// Err returns the reason for ignoring further input, nil for none.
	Err() error
}

// buffer is a partial event.
type buffer struct {
	tail []byte
	err  error
}

// Rest implements [Framer].
func (r *buffer) Rest() []byte { return r.tail }

// Err implements [Framer].
func (r *buffer) Err() error { return r.err }

// whole returns a complete event that ends with b.
func (r *buffer) whole(b []byte) []byte {
	if len(r.tail) == 0 {
		return b
	}
	r.tail = append(r.tail, b...)
	return r.tail
}

func (r *buffer) forget() {
	if cap(r.tail) > maxKept {
		r.tail = nil
	}
	r.tail = r.tail[:0]
}

// keep buffers a partial event.
func (r *buffer) keep(b []byte, limit int) {
	r.tail = append(r.tail, b...)
	if len(r.tail) > limit {
		r.err = ErrTooLarge
	}
}

// fail stops the framer. b has the unbuffered rest of the event.
func (r *buffer) fail(err error, b []byte) {
	r.err, r.tail = err, append(r.tail, b...)
}

func bound(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return limit
}
