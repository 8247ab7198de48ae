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
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// text returns the decoded text of a message block. Several stages look at new
// blocks, so it is decoded once.
func (f *frame) text(i int) string {
	if f.texts == nil {
		f.texts = make(map[int]string)
	}
	s, ok := f.texts[i]
	if !ok {
		s = textOf(f.view, &f.blocks[i])
		f.texts[i] = s
	}
	return s
}

// isTextPart tells whether a part of a content is text.
func isTextPart(part gjson.Result) bool {
	kind := part.Get("type").Str
	return kind == "text" || kind == "input_text"
}

// textOf decodes the text of a block's body: a string, or the text parts of an
// array of blocks, joined by line ends. Of output in JSON it is the output.
func textOf(v *wire.View, b *wire.Block) string {
	body := v.Bytes(b.Body)
	if len(body) == 0 {
		return ""
	}
	if body[0] == '"' {
		return unwrapJSON(unquote(body))
	}
	content := gjson.ParseBytes(body)
	if !content.IsArray() {
		return content.String()
	}
	var s strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		if isTextPart(part) {
			if s.Len() > 0 {
				s.WriteByte('\n')
			}
			s.WriteString(unwrapJSON(part.Get("text").String()))
		}
		return true
	})
	return s.String()
}

// unquote decodes a JSON string. It copies what stands between escapes at once,
// which matters for the long texts of tool results.
func unquote(raw []byte) string {
	s := raw[1 : len(raw)-1]
	i := bytes.IndexByte(s, '\\')
	if i < 0 {
		return string(s)
	}
	out := make([]byte, 0, len(s))
	for ; i >= 0 && i+1 < len(s); i = bytes.IndexByte(s, '\\') {
		out = append(out, s[:i]...)
		switch c := s[i+1]; c {
		case 'n':
			out = append(out, '\n')
		case 't':
			out = append(out, '\t')
		case 'r':
			out = append(out, '\r')
		case '"', '\\', '/':
			out = append(out, c)
		default: // rare, and not worth being fast
			rest := gjson.Parse(`"` + string(s[i:]) + `"`).Str
			return string(append(out, rest...))
		}
		s = s[i+2:]
	}
	out = append(out, s...)
	return unsafe.String(unsafe.SliceData(out), len(out)) // nothing else holds the bytes
}

// quote encodes a text as a JSON string.
func quote(s string) []byte {
	return gjson.AppendJSONString(make([]byte, 0, len(s)+16), strings.ToValidUTF8(s, "\uFFFD"))
}

func countLines(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

// headLines returns up to n non-blank first lines, each cut to width characters.
func headLines(s string, n, width int) []string {
	out := make([]string, 0, n)
	for line := range strings.Lines(s) {
		if len(out) == n {
			break
		}
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, clip(line, width))
		}
	}
	return out
}

// clip cuts a text to a number of characters, with an ellipsis in the place of
// the rest.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == width {
			return s[:i] + "…"
		}
	}
	return s
}
