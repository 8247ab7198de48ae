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

package sse

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

// Framer cuts a stream that is pushed to it piece by piece into frames, so that
// events can be passed on, left out or written anew one by one. The zero value
// is ready to use.
type Framer struct {
	tail []byte
}

// Feed takes the next bytes of the stream and calls emit for each frame that
// ends in them. What emit gets is good until it returns.
func (f *Framer) Feed(b []byte, emit func(Frame)) {
	if len(f.tail) > 0 {
		f.tail = append(f.tail, b...)
		b = f.tail
	}
	for {
		n := frameEnd(b)
		if n == 0 {
			break
		}
		emit(readFrame(b[:n]))
		b = b[n:]
	}
	f.tail = append(f.tail[:0:cap(f.tail)], b...)
}

// Rest returns what came behind the last whole frame.
func (f *Framer) Rest() []byte { return f.tail }

// frameEnd returns the index behind the first blank line, 0 if none has come. A
// line end of \r at the very end may be the first half of \r\n: one must wait.
func frameEnd(b []byte) int {
	for i := 0; i < len(b); {
		end := bytes.IndexAny(b[i:], "\r\n")
		if end < 0 {
			return 0
		}
		line := i + end
		next := line + 1
		if b[line] == '\r' {
			if next == len(b) {
				return 0
			}
			if b[next] == '\n' {
				next++
			}
		}
		if end == 0 {
			return next
		}
		i = next
	}
	return 0
}

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
