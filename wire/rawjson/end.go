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

package rawjson

import "strconv"

// ObjectEnd looks for the end of a JSON object such as the arguments of a
// call, as it comes. It reads the insides of JSON strings: the object's
// own quotes are escaped there.
type ObjectEnd struct {
	depth             int
	inString, escaped bool
	closed            bool
}

// Complete reports whether the object has come to its end.
func (a *ObjectEnd) Complete() bool { return a.closed }

// Read takes more of it.
func (a *ObjectEnd) Read(s string) {
	for i := 0; i < len(s) && !a.closed; i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			switch c = s[i]; c {
			case 'n', 't', 'r', 'b', 'f':
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
