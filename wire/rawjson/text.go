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

package rawjson

import (
	"unsafe"

	"github.com/tidwall/gjson"
)

// Plain returns the text that the inside of a JSON string stands for.
func Plain(inside string) string {
	return gjson.Parse(`"` + inside + `"`).Str
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
