// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import "bytes"

// Lines are JSON values with one line each: application/x-ndjson.
type Lines struct{}

// Begins implements [Framing].
func (Lines) Begins(first byte) bool { return first == '{' }

// Framer implements [Framing].
func (Lines) Framer() Framer { return &LineFramer{} }

// Append implements [Framing]. The data must be one line; names are left out.
func (Lines) Append(dst []byte, _ string, data []byte) []byte {
	return append(append(dst, data...), '\n')
}

// LineFramer finds lines. White space around one is no part of what it says. The zero
// value is ready to use.
type LineFramer struct {
	// Limit bounds a line, in bytes. Default: 32 MiB.
	Limit int

	buffer
}

// Feed implements [Framer].
func (f *LineFramer) Feed(b []byte, emit func(Event)) {
	limit := bound(f.Limit)
	for f.err == nil {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			f.keep(b, limit)
			return
		}
		event := f.whole(b[:i+1])
		b = b[i+1:]
		if len(event) > limit {
			f.tail = append([]byte(nil), event...)
			f.fail(ErrTooLarge, b)
			return
		}
		emit(line(event))
		f.forget()
	}
}

// End implements [Framer].
func (f *LineFramer) End(emit func(Event)) {
	event := f.tail
	if f.err != nil || len(event) == 0 {
		return
	}
	f.tail = nil
	emit(line(event))
}

func line(event []byte) Event {
	e := Event{Raw: event}
	if data := bytes.TrimSpace(event); len(data) > 0 {
		e.Data = data
	}
	return e
}
