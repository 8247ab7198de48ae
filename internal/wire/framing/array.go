// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// Array is the framing of one JSON array of events: Gemini's streams without alt=sse.
type Array struct{}

// Begins implements [Framing].
func (Array) Begins(first byte) bool { return first == '[' }

// Framer implements [Framing].
func (Array) Framer() Framer { return &ArrayFramer{} }

// Append implements [Framing]. The name is ignored.
func (Array) Append(dst []byte, _ string, data []byte) []byte {
	return append(append(dst, ",\n"...), data...)
}

// ArrayFramer splits an array of objects into its elements. The closing bracket is the last event,
// without data. Later bytes are ignored. The zero value is ready to use.
type ArrayFramer struct {
	// Limit is the maximum size of an element and the bytes before it, in bytes. Default: 32 MiB.
	Limit int

	buffer
	nesting rawjson.Nesting
	opened  bool // after the opening bracket
	closed  bool
	inside  bool // inside an element
	from    int  // start of the element in the event
}

// Feed implements [Framer].
func (f *ArrayFramer) Feed(b []byte, emit func(Event)) {
	limit := bound(f.Limit)
	for f.err == nil && !f.closed && len(b) > 0 {
		at := 0
		if !f.inside {
			at = f.skip(b)
		}
		if at == len(b) {
			f.keep(b, limit)
			return
		}
		if !f.inside && b[at] == ']' && f.opened {
			f.closed = true
			emit(Event{Raw: f.whole(b[:at+1])})
			f.tail = nil
			return
		}
		if !f.inside {
			if b[at] != '{' {
				f.fail(ErrMalformed, b)
				return
			}
			f.inside, f.from, f.nesting = true, len(f.tail)+at, rawjson.Nesting{}
		}
		end, ok := f.nesting.Next(b[at:])
		switch {
		case !ok:
			f.fail(ErrMalformed, b)
			return
		case end < 0:
			f.keep(b, limit)
			return
		case len(f.tail)+at+end > limit:
			f.fail(ErrTooLarge, b)
			return
		}
		event := f.whole(b[:at+end])
		b = b[at+end:]
		f.inside = false
		emit(Event{Raw: event, Data: event[f.from:]})
		f.forget()
	}
}

// skip returns the index after the separators before an element.
func (f *ArrayFramer) skip(b []byte) int {
	for i, c := range b {
		switch {
		case c == '[' && !f.opened:
			f.opened = true
		case c != ' ' && c != '\t' && c != '\r' && c != '\n' && c != ',':
			return i
		}
	}
	return len(b)
}

// End implements [Framer]. A partial element is an event without data.
func (f *ArrayFramer) End(emit func(Event)) {
	if f.err != nil || len(f.tail) == 0 {
		return
	}
	event := f.tail
	f.tail = nil
	emit(Event{Raw: event})
}
