// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strings"

	"github.com/tidwall/gjson"
)

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
