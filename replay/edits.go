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

package replay

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// minQuote is the length in characters from which on a line counts as a quote:
// shorter ones stand in too many places.
const minQuote = 25

// replacements are the names under which tools that edit files take the old
// and the new text.
var replacements = [...][2]string{
	{"old_string", "new_string"},
	{"old_str", "new_str"},
	{"old_text", "new_text"},
	{"old", "new"},
	{"oldString", "newString"},
	{"oldText", "newText"},
	{"search", "replace"},
}

// edits returns, for each edit of a file in an answer, the lines of the old
// text that it quotes, and for each that goes by patterns, these. Edits that quote
// no long line are left out.
func edits(answer *Message) (quotes, patterns [][]string) {
	for i := range answer.Content {
		b := &answer.Content[i]
		if b.Type != "tool_use" {
			continue
		}
		input := gjson.ParseBytes(b.Input)
		if lines := longLines(oldTexts(input)); len(lines) > 0 {
			quotes = append(quotes, lines)
		} else if lines = longLines(shellPatterns(input)); len(lines) > 0 {
			patterns = append(patterns, lines)
		}
	}
	return quotes, patterns
}

// longLines are the lines of some texts that are long enough to tell what was
// quoted.
func longLines(texts []string) (lines []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= minQuote {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// oldTexts finds the texts that a call replaces, at any depth of its input.
func oldTexts(input gjson.Result) []string {
	if !input.IsObject() && !input.IsArray() {
		if s := input.String(); input.Type == gjson.String && strings.HasPrefix(s, "*** Begin Patch") {
			return patched(s)
		}
		return nil
	}
	var out []string
	if input.IsObject() {
		for _, names := range replacements {
			if old := input.Get(names[0]); old.Type == gjson.String && input.Get(names[1]).Exists() {
				out = append(out, old.String())
			}
		}
		if command := input.Get("command"); command.Type == gjson.String {
			out = append(out, until(command.String(), literal)...)
		}
	}
	input.ForEach(func(_, v gjson.Result) bool {
		out = append(out, oldTexts(v)...)
		return true
	})
	return out
}

// patched returns the lines that a patch takes out.
func patched(patch string) []string {
	var out []string
	for line := range strings.Lines(patch) {
		if old, ok := strings.CutPrefix(line, "-"); ok {
			out = append(out, old)
		}
	}
	return out
}

var (
	// sed matches the start of a substitution up to its delimiter.
	sed = regexp.MustCompile(`\bsed\s[^|\n]*?-i[^|\n]*?['"\s;](?:[0-9,]*)s([/|#@,])`)
	// literal matches what stands before a quoted text that a script replaces.
	literal = regexp.MustCompile(`(?:\.replace\(|\bold\w*\s*=)\s*r?("""|'''|"|')`)
)

// shellPatterns finds the patterns that sed replaces in files. They say what may
// stand there, in any number of files, and need not quote what was read.
func shellPatterns(input gjson.Result) []string {
	if !input.IsObject() && !input.IsArray() {
		return nil
	}
	var out []string
	if command := input.Get("command"); input.IsObject() && command.Type == gjson.String {
		out = until(command.Str, sed)
	}
	input.ForEach(func(_, v gjson.Result) bool {
		out = append(out, shellPatterns(v)...)
		return true
	})
	return out
}

// until returns the texts in a command that begin behind a match and end at the
// mark that is its first group.
func until(command string, begin *regexp.Regexp) []string {
	found := begin.FindAllStringSubmatchIndex(command, -1)
	out := make([]string, len(found))
	for i, m := range found {
		out[i] = untilMark(command[m[1]:], command[m[2]:m[3]])
	}
	return out
}

// untilMark returns what stands before an end mark, with escapes resolved.
func untilMark(s, end string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], end):
			return out.String()
		case s[i] != '\\' || i+1 == len(s):
			out.WriteByte(s[i])
		default:
			i++
			if s[i] == 'n' {
				out.WriteByte('\n')
			} else {
				out.WriteByte(s[i])
			}
		}
	}
	return ""
}
