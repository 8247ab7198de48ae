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
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// textOf decodes the text of a block's body: a string, or the text parts of an
// array of blocks, joined by line ends.
func textOf(v *wire.View, b *wire.Block) string {
	body := v.Bytes(b.Body)
	if len(body) == 0 {
		return ""
	}
	content := gjson.ParseBytes(body)
	if !content.IsArray() {
		return content.String()
	}
	var s strings.Builder
	content.ForEach(func(_, part gjson.Result) bool {
		if part.Get("type").Str == "text" {
			if s.Len() > 0 {
				s.WriteByte('\n')
			}
			s.WriteString(part.Get("text").String())
		}
		return true
	})
	return s.String()
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
