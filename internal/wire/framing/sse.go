// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import "bytes"

var byteOrderMark = []byte("\xEF\xBB\xBF")

// SSE is the framing of server-sent events: text/event-stream.
type SSE struct{}

// Begins implements [Framing].
func (SSE) Begins(first byte) bool {
	// The first letters of the fields, and the colon of a comment. No JSON value starts with them.
	switch first {
	case 'd', 'e', 'i', 'r', ':':
		return true
	}
	return false
}

// Framer implements [Framing].
func (SSE) Framer() Framer { return &SSEFramer{} }

// Append implements [Framing]. The data must be one line.
func (SSE) Append(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	return append(append(append(dst, "data: "...), data...), "\n\n"...)
}

// SSEFramer splits a stream into server-sent events. Lines may end in \n, \r\n or \r. Comments, the
// fields id and retry and unknown fields are ignored, as in the standard. A line that starts with {
// is data, because Gemini sends errors without a field name. No byte is searched twice. The zero
// value is ready to use.
//
// An event ends with the first byte of the line end of its blank line. If this byte is a \r, a
// following \n is a separate event without data, so that no event has to wait for a byte that may
// never arrive.
type SSEFramer struct {
	// Limit is the maximum size of an event, in bytes. Default: 32 MiB.
	Limit int
	// Comment, if set, is called for each comment line. Upstreams send comments as a sign of life.
	Comment func()

	buffer
	line       int    // start of the last line in the event
	name, data part   // in the event
	lines      int    // number of data lines
	joined     []byte // the data, if it has several lines
	started    bool   // the first line was read
	cr         bool   // the previous byte was a \r
}

// part is a range of an event.
type part struct{ from, to int }

// Feed implements [Framer].
func (f *SSEFramer) Feed(b []byte, emit func(Event)) {
	if f.err != nil {
		return
	}
	limit := bound(f.Limit)
	start, pos, lf, cr := 0, 0, -1, -1 // start is the beginning of the event in b
	for pos < len(b) {
		if f.cr {
			f.cr = false
			if b[pos] == '\n' {
				pos++
				// After a blank line the \n is an event of its own, because the line's event ended
				// with the \r.
				if f.line = len(f.tail) + pos - start; f.line == 1 {
					emit(Event{Raw: b[start:pos]})
					start, f.line = pos, 0
				}
				continue
			}
		}
		// Each line end is searched for once. Otherwise a stream with only one kind would be
		// scanned to its end at every line for the other.
		if lf < pos {
			lf = next(b, pos, '\n')
		}
		if cr < pos {
			cr = next(b, pos, '\r')
		}
		end := min(lf, cr)
		if end == len(b) {
			break
		}
		pos = end + 1
		f.cr = end == cr
		event := b[start:pos]
		if len(f.tail) > 0 {
			event, start = f.whole(event), pos
		}
		if len(event) > limit {
			f.fail(ErrTooLarge, b[start:])
			return
		}
		if f.take(event, len(event)-1) {
			continue
		}
		f.emit(event, emit)
		f.forget()
		start = pos
	}
	f.keep(b[start:], limit)
}

// End implements [Framer].
func (f *SSEFramer) End(emit func(Event)) {
	event := f.tail
	if f.err != nil || len(event) == 0 {
		return
	}
	// The last line has no line end.
	if f.line < len(event) {
		f.take(event, len(event))
	}
	f.emit(event, emit)
	f.tail = nil
}

// emit emits the event and resets the state.
func (f *SSEFramer) emit(event []byte, emit func(Event)) {
	e := Event{Raw: event}
	if f.name.to > 0 {
		e.Name = event[f.name.from:f.name.to]
	}
	switch f.lines {
	case 0:
	case 1:
		e.Data = event[f.data.from:f.data.to]
	default:
		e.Data = f.joined
	}
	f.line, f.lines, f.name = 0, 0, part{}
	emit(e)
	if cap(f.joined) > maxKept {
		f.joined = nil
	}
}

// take reads the last line of a partial event, up to end. It returns false for a blank line.
func (f *SSEFramer) take(event []byte, end int) bool {
	at := f.line
	f.line = len(event)
	if !f.started {
		f.started = true
		if bytes.HasPrefix(event[at:end], byteOrderMark) {
			at += len(byteOrderMark)
		}
	}
	line := event[at:end]
	if len(line) == 0 {
		return false
	}
	switch line[0] {
	case ':':
		if f.Comment != nil {
			f.Comment()
		}
		return true
	case '{':
		// Gemini sends errors without a field name.
		f.add(event, part{at, end})
		return true
	}
	field, value := line, part{end, end}
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		field, value.from = line[:i], at+i+1
		if value.from < end && event[value.from] == ' ' {
			value.from++
		}
	}
	switch string(field) {
	case "event":
		f.name = value
	case "data":
		f.add(event, value)
	case "error": // llama.cpp before 2025: an event named error in one line
		f.name = part{at, at + len(field)}
		f.add(event, value)
	}
	return true
}

// add adds a line to the data.
func (f *SSEFramer) add(event []byte, value part) {
	switch f.lines++; f.lines {
	case 1:
		f.data = value
		return
	case 2:
		f.joined = append(f.joined[:0], event[f.data.from:f.data.to]...)
	}
	f.joined = append(append(f.joined, '\n'), event[value.from:value.to]...)
}

// next returns the index of the first c in b[from:], len(b) for none.
func next(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}
