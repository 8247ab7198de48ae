// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	"github.com/tidwall/gjson"
)

// foldPatch replaces the lines of a patch by stubs, or only the lines with replaced text. File
// names and positions stay.
func foldPatch(s, name string, replaced bool) string {
	end := strings.Index(s, PatchEnd)
	if end < 0 {
		end = len(s)
	}
	var out strings.Builder
	run := 0 // start of the lines to fold
	flush := func(at int) {
		if lines := s[run:at]; len(lines) > LongString {
			sign := ""
			if replaced {
				// The stub must stay a removed line of the patch.
				sign = "-"
			}
			out.WriteString(sign + StubInput(name, lines) + "\n")
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

// Foldable reports whether the input of a call can be folded: any object, and of free text only a
// patch.
func Foldable(input gjson.Result) bool {
	return input.Exists() && (input.Type != gjson.String || IsPatch(input.Str))
}
