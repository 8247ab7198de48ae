// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Fold replaces the long strings in a call's input by stubs, or only the strings with replaced
// text. Names, paths and short members keep the client's bytes.
func Fold(body []byte, name string, replaced bool) []byte {
	if len(body) > 0 && body[0] == '"' { // OpenAI: JSON text in a string, or a patch
		text := gjson.ParseBytes(body).Str
		if IsPatch(text) {
			return Quote(foldPatch(text, name, replaced))
		}
		return Quote(string(foldStrings([]byte(text), name, replaced)))
	}
	return foldStrings(body, name, replaced)
}

// foldStrings replaces long string values of a JSON object, at the top level and in nested arrays
// of objects (several edits in one call).
func foldStrings(object []byte, name string, replaced bool) []byte {
	out := make([]byte, 0, 256)
	at, n := 0, 0
	LongStrings(gjson.ParseBytes(object), 0, func(key string, x gjson.Result) {
		n++
		patch := IsPatch(x.Str)
		if replaced && !IsReplaced(key) && !patch || x.Index < at {
			return
		}
		out = append(out, object[at:x.Index]...)
		if patch {
			out = append(out, Quote(foldPatch(x.Str, name+"."+strconv.Itoa(n), replaced))...)
			at = x.Index + len(x.Raw)
			return
		}
		out = append(out, Quote(StubInput(name+"."+strconv.Itoa(n), x.Str))...)
		at = x.Index + len(x.Raw)
	})
	return append(out, object[at:]...)
}

// LongString is the length in bytes above which a string in a call's input is folded.
const LongString = 160

// LongStrings calls f for the long string values of an object.
func LongStrings(v gjson.Result, depth int, f func(key string, x gjson.Result)) {
	if !v.IsObject() && !v.IsArray() {
		return
	}
	v.ForEach(func(k, x gjson.Result) bool {
		switch {
		case x.Type == gjson.String && len(x.Raw) > LongString && x.Index > 0:
			f(k.Str, x)
		case depth < 3:
			LongStrings(x, depth+1, f)
		}
		return true
	})
}

// IsReplaced reports whether a member of an edit's input contains the replaced text.
func IsReplaced(key string) bool { return strings.HasPrefix(key, "old") }

// ReplacedBytes returns the number of bytes of the text that an edit replaced.
func ReplacedBytes(input gjson.Result) (n int) {
	if input = DecodedInput(input); input.Type == gjson.String {
		if IsPatch(input.Str) {
			n = patchedBytes(input.Str)
		}
		return n
	}
	LongStrings(input, 0, func(key string, x gjson.Result) {
		if IsPatch(x.Str) {
			n += patchedBytes(x.Str)
		} else if IsReplaced(key) {
			n += len(x.Raw)
		}
	})
	return n
}

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
