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

package wire

import (
	"bytes"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// refrain is what the events of a stream have in common while the model writes:
// hundreds follow each other that differ in one string only, the text. What the
// others say of such an event is known from the first, so that only its string
// has to be read.
type refrain struct {
	head, tail []byte // the bytes before and behind the text, quotes included
	to         *strings.Builder
}

// compose makes the event that was just read the pattern of the next ones, if all
// it did was to add to a text, and that text stands in it without escapes. Whatever else it
// told, of the answer's id or of the usage so far, it would only tell again.
func (r *refrain) compose(data []byte, a *answer) {
	text := a.written
	r.to, a.written = nil, ""
	if a.writes != 1 || a.opens > 0 {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.StringData(text))) - uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if at == 0 || at >= uintptr(len(data)-len(text)) { // it lies elsewhere
		return
	}
	head, tail := data[:at], data[int(at)+len(text):]
	if head[len(head)-1] != '"' || tail[0] != '"' {
		return
	}
	r.head, r.tail, r.to = append(r.head[:0], head...), append(r.tail[:0], tail...), a.to
}

// text returns the text of an event of the pattern; ok is false for any other event.
// The text is good as long as the data is.
func (r *refrain) text(data []byte) (text string, ok bool) {
	n := len(data) - len(r.tail)
	if r.to == nil || n < len(r.head) || !bytes.HasPrefix(data, r.head) || !bytes.Equal(data[n:], r.tail) {
		return "", false
	}
	text = answerText(data[len(r.head):n])
	escapes := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			escapes = true
			i++
		case c == '\\', c == '"', c < ' ':
			return "", false
		}
	}
	if !escapes {
		return text, true
	}
	quoted := answerText(data[len(r.head)-1 : n+1])
	return gjson.Parse(quoted).Str, gjson.Valid(quoted)
}
