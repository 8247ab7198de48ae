// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"fmt"
	"strconv"
)

// Object returns an object with alternating names and values. A string becomes a JSON string, a
// byte slice is JSON, and nil omits the member.
func Object(members ...any) []byte {
	out := []byte{'{'}
	for i := 0; i < len(members); i += 2 {
		from := len(out)
		if from > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), members[i].(string)...), `":`...)
		switch v := members[i+1].(type) {
		case nil:
			out = out[:from]
		case string:
			out = append(out, Quote(v)...)
		case []byte:
			if out = append(out, v...); v == nil {
				out = out[:from]
			}
		case bool:
			out = strconv.AppendBool(out, v)
		case int:
			out = strconv.AppendInt(out, int64(v), 10)
		case int64:
			out = strconv.AppendInt(out, v, 10)
		default:
			panic(fmt.Sprintf("rawjson: a member of type %T", v))
		}
	}
	return append(out, '}')
}

// Array returns an array of comma-separated elements.
func Array(elements []byte) []byte { return wrap('[', elements, ']') }

// Quoted returns the JSON string with this inside.
func Quoted[T []byte | string](inside T) []byte { return wrap('"', inside, '"') }

func wrap[T []byte | string](begin byte, inside T, end byte) []byte {
	out := make([]byte, 0, len(inside)+2)
	return append(append(append(out, begin), inside...), end)
}
