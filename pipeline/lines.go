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

package pipeline

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// appendLines appends the hashes of the quotable lines of a block's text. It
// reads the JSON string as it stands: a line without escapes is not copied.
func (f *frame) appendLines(hashes []uint64, i int) []uint64 {
	body := f.view.Bytes(f.blocks[i].Body)
	if _, decoded := f.texts[i]; !decoded && len(body) > 1 && body[0] == '"' && !maybeWrapped(body) {
		if out, ok := f.appendRawLines(hashes, body[1:len(body)-1]); ok {
			return out
		}
	}
	for line := range strings.Lines(f.text(i)) {
		hashes = appendLine(hashes, line)
	}
	return hashes
}

// appendRawLines does it for the inside of a JSON string. It gives up on
// escapes in UTF-16 that stand for two characters' worth: they are rare.
func (f *frame) appendRawLines(hashes []uint64, s []byte) (_ []uint64, ok bool) {
	f.line = f.line[:0]
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			break
		}
		if s[i+1] == 'n' {
			hashes = f.endLine(hashes, s[:i])
			s = s[i+2:]
			continue
		}
		f.line = append(f.line, s[:i]...)
		escape := 2
		switch c := s[i+1]; c {
		case 't':
			f.line = append(f.line, '\t')
		case '"', '\\', '/':
			f.line = append(f.line, c)
		case 'r':
			f.line = append(f.line, '\r')
		case 'u':
			r, good := codePoint(s[i+2:])
			if !good {
				return nil, false
			}
			f.line = utf8.AppendRune(f.line, r)
			escape = 6
		default:
			return nil, false
		}
		s = s[i+escape:]
	}
	return f.endLine(hashes, s), true
}

// endLine takes in a line that ends in the bytes of s.
func (f *frame) endLine(hashes []uint64, s []byte) []uint64 {
	if len(f.line) > 0 {
		f.line = append(f.line, s...)
		s, f.line = f.line, f.line[:0]
	}
	return appendLine(hashes, unsafe.String(unsafe.SliceData(s), len(s))) // hashed, not kept
}

func appendLine(hashes []uint64, line string) []uint64 {
	if q, ok := quotable(line); ok {
		hashes = append(hashes, hashOf(q))
	}
	return hashes
}

// codePoint reads the four digits of a \u escape. A newline and one half of a
// surrogate pair are left to others.
func codePoint(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[:4]), 16, 16)
	r := rune(n)
	return r, err == nil && r != '\n' && !utf16.IsSurrogate(r)
}
