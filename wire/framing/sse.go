// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package framing reads server-sent events from a stream that comes in pieces.
package framing

import (
	"bytes"
	"errors"
)

// DefaultLimit is the bound on one event where a [Parser] names none: 32 MiB.
const DefaultLimit = 32 << 20

// ErrTooLarge is the error of a parser that met an event beyond its limit.
var ErrTooLarge = errors.New("sse: event exceeds the limit")

var byteOrderMark = []byte("\xEF\xBB\xBF")

// Event is one event of a stream.
type Event struct {
	// Name is the value of the event field, empty if there was none.
	Name []byte
	// Data is the value of the data field; several lines are joined by \n.
	Data []byte
}

// Parser finds the events in a stream that is pushed to it piece by piece,
// wherever the pieces were cut. Lines may end in \n, \r\n or \r. Comments, the
// fields id and retry, unknown fields and events without data are skipped, as
// the standard for event streams says. A line that begins with { is taken for
// data: Gemini sends errors without a field. An event that the stream breaks off in
// is never emitted. The zero value is ready to use; a Parser belongs to one
// goroutine.
type Parser struct {
	// Limit bounds an event, in bytes of its name, its data and the line being
	// read. Default: 32 MiB.
	Limit int
	// Comment, if set, is called for each line that is a comment, which
	// upstreams send as a sign of life.
	Comment func()

	tail []byte // the last line, as long as its end has not come

	// name and data belong to the event being read. Until they are kept they
	// lie in the bytes fed or in tail, and are good until Feed returns.
	name, data           []byte
	nameStore, dataStore []byte
	nameKept, dataKept   bool

	hasData bool // a data field came, be it empty
	started bool // the first line is behind
	skipLF  bool // the last line ended in \r: a \n that follows belongs to it
	err     error
}

// Err returns [ErrTooLarge] once an event exceeded the limit, else nil. A
// parser in error ignores what it is fed.
func (p *Parser) Err() error { return p.err }

// Feed takes the next bytes of the stream and calls emit for each event that
// ends in them. Name and Data are good until emit returns: they lie in b where
// the event does, else in memory that the parser uses again.
func (p *Parser) Feed(b []byte, emit func(Event)) {
	if p.err != nil {
		return
	}
	pos, lf, cr := 0, -1, -1
	for pos < len(b) {
		if p.skipLF {
			p.skipLF = false
			if b[pos] == '\n' {
				pos++
				continue
			}
		}
		// Each end is searched for once, or a stream that ends its lines in
		// only one of the two would be scanned once a line for the other.
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
		line := b[pos:end]
		pos = end + 1
		p.skipLF = end == cr
		if len(p.tail) > 0 {
			p.tail = append(p.tail, line...)
			line = p.tail
			p.tail = p.tail[:0]
		}
		if p.take(line, emit); p.err != nil {
			return
		}
	}
	p.keep()
	p.tail = append(p.tail, b[pos:]...)
	p.bound(p.tail)
}

// End tells that the stream has come to its end, and calls emit for an event that
// it broke off in: some servers leave out the blank line behind their last one. The
// standard has such an event dropped; whoever calls End must be able to tell half
// of one from a whole.
func (p *Parser) End(emit func(Event)) {
	if p.err != nil {
		return
	}
	if len(p.tail) > 0 {
		line := p.tail
		p.tail = nil
		if p.take(line, emit); p.err != nil {
			return
		}
	}
	p.dispatch(emit)
}

// take reads one whole line.
func (p *Parser) take(line []byte, emit func(Event)) {
	if p.bound(line); p.err != nil {
		return
	}
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		p.dispatch(emit)
		return
	}
	if line[0] == ':' && p.Comment != nil {
		p.Comment()
		return
	}
	if line[0] == '{' {
		p.addData(line)
		return
	}
	field, value := line, []byte(nil)
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		field, value = line[:i], line[i+1:]
		if len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
	}
	switch string(field) {
	case "event":
		p.name, p.nameKept = value, false
	case "data":
		p.addData(value)
	}
}

func (p *Parser) addData(value []byte) {
	if !p.hasData {
		p.data, p.hasData = value, true
		return
	}
	p.keepData()
	p.dataStore = append(p.dataStore, '\n')
	p.dataStore = append(p.dataStore, value...)
	p.data = p.dataStore
}

// dispatch ends the event.
func (p *Parser) dispatch(emit func(Event)) {
	e, ok := Event{p.name, p.data}, p.hasData
	p.name, p.data = nil, nil
	p.nameKept, p.dataKept, p.hasData = false, false, false
	if ok {
		emit(e)
	}
}

// bound puts the parser in error if the event would exceed the limit with
// line. What holds for a part of a line holds for the whole, so that it does
// not matter where the stream was cut.
func (p *Parser) bound(line []byte) {
	limit := p.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	if len(line)+len(p.name)+len(p.data) <= limit {
		return
	}
	*p = Parser{Limit: p.Limit, Comment: p.Comment, err: ErrTooLarge}
}

// keep moves an unfinished event out of the bytes fed and out of tail.
func (p *Parser) keep() {
	if len(p.name) > 0 && !p.nameKept {
		p.nameStore = append(p.nameStore[:0], p.name...)
		p.name, p.nameKept = p.nameStore, true
	}
	if p.hasData {
		p.keepData()
	}
}

func (p *Parser) keepData() {
	if p.dataKept {
		return
	}
	p.dataStore = append(p.dataStore[:0], p.data...)
	p.data, p.dataKept = p.dataStore, true
}

// next returns the index of the first c in b[from:], len(b) if there is none.
func next(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}
