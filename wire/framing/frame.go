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

package framing

import "bytes"

// Frame is one event of a stream with the bytes that it came in.
type Frame struct {
	// Raw are the bytes of the event, its blank line included.
	Raw []byte
	// Name is the value of the event field, empty if there was none.
	Name []byte
	// Data is the value of the data field; several lines are joined by \n.
	// Frames of comments alone have none.
	Data []byte
}

// largestKept bounds the memory that is kept behind a long event to be used again.
const largestKept = 1 << 20

// Framer cuts a stream that is pushed to it piece by piece into frames, so that
// events can be passed on, left out or written anew one by one. A frame ends with
// the first byte that ends its blank line: where that is a \r, a \n that belongs to
// it makes a frame of its own, so that no event has to wait for a byte that may
// never come. No byte is looked at twice. The zero value is ready to use.
type Framer struct {
	tail []byte // the frame being read
	seen int    // how much of tail was looked at
	line int    // where its last line begins
	cr   bool   // the byte before was a \r
}

// Feed takes the next bytes of the stream and calls emit for each frame that
// ends in them. What emit gets is good until it returns.
func (f *Framer) Feed(b []byte, emit func(Frame)) {
	kept := len(f.tail)
	if kept > 0 {
		f.tail = append(f.tail, b...)
		b = f.tail
	}
	start, at, line := 0, f.seen, f.line
	for at < len(b) {
		if f.cr {
			f.cr = false
			if b[at] == '\n' {
				at++
				line = at
				if start == at-1 {
					emit(Frame{Raw: b[start:at]})
					start = at
				}
				continue
			}
		}
		n := bytes.IndexAny(b[at:], "\r\n")
		if n < 0 {
			at = len(b)
			break
		}
		end := at + n
		f.cr = b[end] == '\r'
		at = end + 1
		if end == line {
			emit(readFrame(b[start:at]))
			start = at
		}
		line = at
	}
	f.seen, f.line = at-start, line-start
	if start > 0 && cap(f.tail) > largestKept {
		f.tail = nil
	}
	if start > 0 || kept == 0 {
		f.tail = append(f.tail[:0], b[start:]...)
	}
}

// End tells that the stream has come to its end and calls emit with what came
// behind the last whole frame, if anything did.
func (f *Framer) End(emit func(Frame)) {
	rest := f.tail
	*f = Framer{}
	if len(rest) > 0 {
		emit(readFrame(rest))
	}
}

// Rest returns what came behind the last whole frame.
func (f *Framer) Rest() []byte { return f.tail }

// readFrame reads the fields of a frame.
func readFrame(raw []byte) Frame {
	f := Frame{Raw: raw}
	rest := bytes.TrimPrefix(raw, byteOrderMark)
	lines := 0
	for len(rest) > 0 {
		line := rest
		if i := bytes.IndexAny(rest, "\r\n"); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if len(line) > 0 && line[0] == '{' { // see [Parser]
			field, value = []byte("data"), line
		}
		switch string(field) {
		case "event":
			f.Name = value
		case "data":
			if lines++; lines == 1 {
				f.Data = value
				continue
			}
			f.Data = append(append(f.Data[:len(f.Data):len(f.Data)], '\n'), value...)
		}
	}
	return f
}
