// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// Plain returns the text that the inside of a JSON string stands for: the same bytes where
// nothing is escaped.
func Plain(inside string) string {
	if strings.IndexByte(inside, '\\') < 0 {
		return inside
	}
	text := Text(unsafe.Slice(unsafe.StringData(inside), len(inside)))
	return View(text.appendDecoded(make([]byte, 0, len(inside)), "\uFFFD"))
}

// InnerJSON returns the inside of a string that holds JSON, as the arguments of calls do. Some
// servers send the object itself.
func InnerJSON(v gjson.Result) string {
	if v.IsObject() {
		return View(Escaped(v.Raw))
	}
	return Inner(v)
}

// AppendLine appends JSON without its line ends, which can only stand between
// tokens.
func AppendLine(dst []byte, json string) []byte {
	for i := range len(json) {
		if c := json[i]; c != '\n' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return dst
}

// View returns b as a string without copying it. The string, and all that gjson cuts out
// of it, must not outlive b or be used after b changes.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
