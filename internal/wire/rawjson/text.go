// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Plain decodes the inside of a JSON string. Without escapes it returns inside itself.
func Plain(inside string) string {
	if strings.IndexByte(inside, '\\') < 0 {
		return inside
	}
	text := Text(unsafe.Slice(unsafe.StringData(inside), len(inside)))
	return View(text.appendDecoded(make([]byte, 0, len(inside)), "\uFFFD"))
}

// InnerJSON returns the inside of a string with JSON, such as call arguments. Some servers send the
// object itself instead of a string.
func InnerJSON(v gjson.Result) string {
	if v.IsObject() {
		return View(Escaped(v.Raw))
	}
	return Inner(v)
}

// AppendLine appends JSON without line ends. In valid JSON they only occur between tokens.
func AppendLine(dst []byte, json string) []byte {
	for i := range len(json) {
		if c := json[i]; c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
}

// View returns b as a string without copying. The string and its substrings must not be used after
// b changes or is recycled.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
