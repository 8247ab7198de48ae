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

package reference

import (
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// appendLines appends the hashes of the quotable lines of a text.
func appendLines(hashes []uint64, text string) []uint64 {
	for line := range strings.Lines(text) {
		if q, ok := Quotable(line); ok {
			hashes = append(hashes, content.Hash(q))
		}
	}
	return hashes
}

// minQuote is the length from which a line is taken to be a quotation when it
// stands both in a tool result and in an answer.
const minQuote = 25

// Quotable brings a line into the form in which quotations are compared:
// without indentation and without the line number that file tools put before.
func Quotable(line string) (string, bool) {
	if len(line) < minQuote {
		return "", false
	}
	line = strings.TrimSpace(line)
	i := 0
	for i < len(line) && line[i] >= '0' && line[i] <= '9' {
		i++
	}
	if rest := line[i:]; i > 0 && rest != "" {
		switch rest[0] {
		case '\t', ':', '|':
			line = strings.TrimSpace(rest[1:])
		case "→"[0]:
			if after, ok := strings.CutPrefix(rest, "→"); ok {
				line = strings.TrimSpace(after)
			}
		}
	}
	return line, len(line) >= minQuote
}
