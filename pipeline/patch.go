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

	"github.com/tidwall/gjson"
)

// The lines that bound a patch in the form that Codex's apply_patch takes, and
// those that begin the part of one file.
const (
	patchBegin = "*** Begin Patch"
	patchEnd   = "*** End Patch"
)

var patchFiles = []string{"*** Update File: ", "*** Add File: ", "*** Delete File: "}

// isPatch tells whether a text is a patch.
func isPatch(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, " \n"), patchBegin) }

// patchIn tells whether the input of a call holds a patch (as its free text, in
// a member, in a command line or in a program), and the first file in it.
func patchIn(input gjson.Result) (bool, string) {
	text := input.Str
	if input.Type != gjson.String {
		if !strings.Contains(input.Raw, patchBegin) {
			return false, ""
		}
		for _, name := range []string{"input", "patch", "command", "cmd"} {
			if text = input.Get(name).Raw; strings.Contains(text, patchBegin) {
				break
			}
		}
	}
	i := strings.Index(text, patchBegin)
	if i < 0 {
		return false, ""
	}
	text = text[i:]
	first := -1
	file := ""
	for _, head := range patchFiles {
		if i := strings.Index(text, head); i >= 0 && (first < 0 || i < first) {
			first = i
			file = text[i+len(head):]
		}
	}
	if end := strings.IndexAny(file, "\n\r\\\"'`"); end >= 0 {
		file = file[:end]
	}
	return true, strings.TrimSpace(file)
}

// foldPatch replaces the lines of a patch by notes, or only those that say what
// it replaced. The names of the files and the places stay.
func foldPatch(s, name string, replaced bool) string {
	end := strings.Index(s, patchEnd)
	if end < 0 {
		end = len(s)
	}
	var out strings.Builder
	run := 0 // where the lines begin that are to go
	flush := func(at int) {
		if lines := s[run:at]; len(lines) > longString {
			sign := ""
			if replaced {
				sign = "-"
			}
			out.WriteString(sign + inputStub(name, lines) + "\n")
		} else {
			out.WriteString(lines)
		}
	}
	at := 0
	for line := range strings.Lines(s[:end]) {
		next := at + len(line)
		stays := strings.HasPrefix(line, "***") || strings.HasPrefix(line, "@@")
		if replaced {
			stays = !strings.HasPrefix(line, "-")
		}
		if stays {
			flush(at)
			out.WriteString(line)
			run = next
		}
		at = next
	}
	flush(end)
	out.WriteString(s[end:])
	return out.String()
}

// patchedBytes counts what a patch says it replaced.
func patchedBytes(s string) (n int) {
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "-") {
			n += len(line)
		}
	}
	return n
}

// foldable tells whether there is something in the input of a call that can be
// folded: all but free text can, and of that patches.
func foldable(input gjson.Result) bool {
	return input.Exists() && (input.Type != gjson.String || isPatch(input.Str))
}
