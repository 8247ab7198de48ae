// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package framing cuts streams that come in pieces into events, and puts events into
// streams: server-sent events, newline-delimited JSON, one JSON array, and the event
// streams of AWS.
package framing

import "errors"

// DefaultLimit is the bound on one event where a [Framer] names none: 32 MiB.
const DefaultLimit = 32 << 20

// MaxDepth bounds the nesting of JSON whose end is looked for.
const MaxDepth = 512

// largestKept bounds the memory that is kept behind a long event to be used again.
const largestKept = 1 << 20

// What a stream can do wrong. A framer in error ignores what it is fed.
var (
	// ErrTooLarge is the error of a framer that met an event beyond its limit.
	ErrTooLarge = errors.New("framing: event exceeds the limit")
	// ErrMalformed is the error of a framer that met what is no event.
	ErrMalformed = errors.New("framing: not an event")
	// ErrChecksum is the error of a framer that met an event whose bytes are not
	// those that were sent.
	ErrChecksum = errors.New("framing: wrong checksum")
)

// Event is one event of a stream, with the bytes that it came in.
type Event struct {
	// Raw are the bytes of the event with all that sets it apart from its neighbours:
	// those of all events together are the stream.
	Raw []byte
	// Name says what kind of event it is, empty where the stream does not.
	Name []byte
	// Data is what the event says, nil if it says nothing: a comment, white space,
	// the end of an array.
	Data []byte
}

// Framing is how streams of a kind put one event behind the other.
type Framing interface {
	// Begins reports whether a stream may begin with a byte.
	Begins(first byte) bool
	// Framer returns what cuts a stream into events.
	Framer() Framer
	// Append appends an event to a stream that has one already.
	Append(dst []byte, name string, data []byte) []byte
}

// Framer cuts a stream that is pushed to it piece by piece into events, wherever the
// pieces were cut. It belongs to one goroutine.
type Framer interface {
	// Feed takes the next bytes of the stream and calls emit for each event that ends
	// in them. What emit gets is good until it returns: it lies in b where the event
	// does, else in memory that the framer uses again.
	Feed(b []byte, emit func(Event))
	// End tells that the stream has come to its end, and calls emit with what came
	// behind the last whole event, if anything did. Whoever calls it must be able to
	// tell half of an event from a whole.
	End(emit func(Event))
	// Rest returns what came behind the last whole event.
	Rest() []byte
	// Err returns why the framer reads no further, nil if it does.
	Err() error
}

// buffer holds the beginning of an event that the bytes fed do not end.
type buffer struct {
	tail []byte
	err  error
}

// Rest implements [Framer].
func (r *buffer) Rest() []byte { return r.tail }

// Err implements [Framer].
func (r *buffer) Err() error { return r.err }

// whole returns an event that ends with b.
func (r *buffer) whole(b []byte) []byte {
	if len(r.tail) == 0 {
		return b
	}
	r.tail = append(r.tail, b...)
	return r.tail
}

// forget makes ready for the next event.
func (r *buffer) forget() {
	if cap(r.tail) > largestKept {
		r.tail = nil
	}
	r.tail = r.tail[:0]
}

// keep keeps the beginning of an event.
func (r *buffer) keep(b []byte, limit int) {
	r.tail = append(r.tail, b...)
	if len(r.tail) > limit {
		r.err = ErrTooLarge
	}
}

// fail puts the framer in error, at an event of which b is all that is not kept.
func (r *buffer) fail(err error, b []byte) {
	r.err, r.tail = err, append(r.tail, b...)
}

// bound returns a limit, or the default for none.
func bound(limit int) int {
	if limit <= 0 {
		return DefaultLimit
	}
	return limit
}
