// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	"github.com/tidwall/gjson"
)

// foldPatch replaces the lines of a patch by notes, or only those that say what
// it replaced. The names of the files and the places stay.
func foldPatch(s, name string, replaced bool) string {
	end := strings.Index(s, PatchEnd)
	if end < 0 {
		end = len(s)
	}
	var out strings.Builder
	run := 0 // where the lines begin that are to go
	flush := func(at int) {
		if lines := s[run:at]; len(lines) > LongString {
			sign := ""
			if replaced {
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

// Foldable reports whether there is something in the input of a call that can be
// folded: all but free text can, and of that patches.
func Foldable(input gjson.Result) bool {
	return input.Exists() && (input.Type != gjson.String || IsPatch(input.Str))
}
