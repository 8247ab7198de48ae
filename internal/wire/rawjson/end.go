// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import "strconv"

// ObjectEnd detects the end of a JSON object, such as call arguments, that arrives in pieces. The
// input is the inside of a JSON string, so the object's own quotes are escaped.
type ObjectEnd struct {
	depth             int
	inString, escaped bool
	closed            bool
}

// Complete reports whether the object is complete.
func (a *ObjectEnd) Complete() bool { return a.closed }

// Read reads the next piece.
func (a *ObjectEnd) Read(s string) {
	for i := 0; i < len(s) && !a.closed; i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			switch c = s[i]; c {
			case 'n', 't', 'r', 'b', 'f':
				// Control characters do not affect the nesting.
				c = ' '
			case 'u':
				c = 'x'
				if i+4 < len(s) {
					if n, err := strconv.ParseUint(s[i+1:i+5], 16, 16); err == nil && n < 0x80 {
						c = byte(n)
					}
					i += 4
				}
			}
		}
		a.take(c)
	}
}

func (a *ObjectEnd) take(c byte) {
	switch {
	case a.escaped:
		a.escaped = false
	case a.inString:
		a.escaped = c == '\\'
		a.inString = c != '"'
	case c == '"':
		a.inString = true
	case c == '{' || c == '[':
		a.depth++
	case c == '}' || c == ']':
		a.depth--
		a.closed = a.depth <= 0
	}
}
