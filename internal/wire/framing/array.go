// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

// Array is one JSON array whose elements are the events: what Gemini sends to those
// who do not ask for server-sent events.
type Array struct{}

// Begins implements [Framing].
func (Array) Begins(first byte) bool { return first == '[' }

// Framer implements [Framing].
func (Array) Framer() Framer { return &ArrayFramer{} }

// Append implements [Framing]. Names are left out.
func (Array) Append(dst []byte, _ string, data []byte) []byte {
	return append(append(dst, ",\n"...), data...)
}

// ArrayFramer finds the elements of an array, which must be objects. Its closing
// bracket is an event that says nothing, and the last: what follows is not read. The
// zero value is ready to use.
type ArrayFramer struct {
	// Limit bounds an element with what stands before it, in bytes. Default: 32 MiB.
	Limit int

	buffer
	nesting nesting
	opened  bool // the array
	closed  bool
	inside  bool // of an element
	from    int  // where in the event the element begins
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
			f.inside, f.from, f.nesting = true, len(f.tail)+at, nesting{}
		}
		end, ok := f.nesting.next(b[at:])
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

// skip returns the index behind what may stand before an element.
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

// End implements [Framer]. An element that is cut is none.
func (f *ArrayFramer) End(emit func(Event)) {
	if f.err != nil || len(f.tail) == 0 {
		return
	}
	event := f.tail
	f.tail = nil
	emit(Event{Raw: event})
}
