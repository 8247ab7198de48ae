// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	"github.com/tidwall/gjson"
)

// The first and last line of a patch for Codex's apply_patch.
const (
	patchBegin = "*** Begin Patch"
	PatchEnd   = "*** End Patch"
)

var patchFiles = []string{"*** Update File: ", "*** Add File: ", "*** Delete File: "}

// IsPatch reports whether a text is a patch.
func IsPatch(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, " \n"), patchBegin) }

// patchIn reports whether the input of a call contains a patch, and returns the first file in it.
// The patch can be the free text, a member, or part of a command line or a program.
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

// patchedBytes returns the number of bytes in the removed lines of a patch.
func patchedBytes(s string) (n int) {
	for line := range strings.Lines(s) {
		if strings.HasPrefix(line, "-") {
			n += len(line)
		}
	}
	return n
}
