// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strconv"

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
