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

package translate

import (
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Inside returns what stands between the quotes of a JSON string, escapes and
// all, and "" for any other value.
func Inside(r gjson.Result) string {
	if r.Type != gjson.String || len(r.Raw) < 2 {
		return ""
	}
	return r.Raw[1 : len(r.Raw)-1]
}

// ArgumentsText returns the arguments of a call as the inside of a string. Some
// servers send the object that they should be the text of.
func ArgumentsText(r gjson.Result) string {
	if r.IsObject() {
		return string(Escaped(r.Raw))
	}
	return Inside(r)
}

// Plain returns the text that the inside of a JSON string stands for.
func Plain(inside string) string {
	return gjson.Parse(`"` + inside + `"`).Str
}

// AppendArguments appends the arguments of a call as a JSON object on one line.
// Models do write arguments that are none; those become the one member
// "arguments" of an object, which the tool will complain about.
func AppendArguments(dst []byte, inside string) []byte {
	text := Plain(inside)
	if text == "" {
		return append(dst, "{}"...)
	}
	if !wire.ValidObject(text) {
		dst = append(dst, `{"arguments":"`...)
		dst = append(dst, inside...)
		return append(dst, `"}`...)
	}
	return AppendLine(dst, text)
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

// View returns b as a string without copying it.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
