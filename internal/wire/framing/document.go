// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"bytes"
	"strings"
)

// nesting tracks the nesting of a JSON text that arrives in pieces.
type nesting struct {
	depth             int
	inString, escaped bool
}

// next reads p and returns the index after the byte that closes the outermost value, -1 if p does
// not contain it. It returns false beyond [MaxDepth].
func (n *nesting) next(p []byte) (int, bool) {
	for i := 0; i < len(p); i++ {
		if n.escaped {
			n.escaped = false
			continue
		}
		if n.inString {
			for i < len(p) && p[i] != '"' && p[i] != '\\' {
				i++
			}
			if i < len(p) {
				n.escaped = p[i] == '\\'
				n.inString = n.escaped
			}
			continue
		}
		switch p[i] {
		case '"':
			n.inString = true
		case '{', '[':
			if n.depth++; n.depth > MaxDepth {
				return -1, false
			}
		case '}', ']':
			if n.depth--; n.depth <= 0 {
				return i + 1, true
			}
		}
	}
	return -1, true
}

// Document collects a JSON object that arrives in pieces and detects its end, reading each byte
// once. The zero value is ready to use.
type Document struct {
	// Limit is the maximum size of the object, in bytes. Default: 32 MiB.
	Limit int

	raw     strings.Builder
	nesting nesting
	closed  bool
}

// Feed takes the next bytes. It returns false if the object is too large or too deep, or if
// anything but white space follows it.
func (d *Document) Feed(p []byte) bool {
	if !d.closed {
		end, ok := d.nesting.next(p)
		if end < 0 {
			end = len(p)
		} else {
			d.closed = true
		}
		if !ok || d.raw.Len()+end > bound(d.Limit) {
			return false
		}
		d.raw.Write(p[:end])
		p = p[end:]
	}
	return len(bytes.TrimLeft(p, " \t\r\n")) == 0
}

// Closed reports whether the object is complete.
func (d *Document) Closed() bool { return d.closed }

// Held returns the size of the buffer, in bytes.
func (d *Document) Held() int { return d.raw.Cap() }

// Take returns the object and clears the document.
func (d *Document) Take() string {
	text := d.raw.String()
	d.raw.Reset()
	return text
}
