// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"fmt"
	"strconv"

	"github.com/tidwall/gjson"
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

// Rewrite copies an object with some members replaced. A nil replacement removes the member. New
// members are appended in the given order.
func Rewrite(root gjson.Result, order []string, with map[string][]byte) []byte {
	out := make([]byte, 0, len(root.Raw)+256)
	out = append(out, '{')
	done := make(map[string]bool, len(with))
	put := func(key, value []byte) {
		if value == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	root.ForEach(func(k, v gjson.Result) bool {
		value, ok := with[k.Str]
		if !ok {
			value = []byte(v.Raw)
		}
		done[k.Str] = true
		put([]byte(k.Raw), value)
		return true
	})
	for _, k := range order {
		if !done[k] {
			put(strconv.AppendQuote(nil, k), with[k])
		}
	}
	return append(out, '}')
}

// Quote encodes a text as a JSON string.
func Quote(s string) []byte { return gjson.AppendJSONString(nil, s) }

// AppendCount appends a number member and a comma.
func AppendCount(dst []byte, key string, n int64) []byte {
	dst = append(append(append(dst, '"'), key...), `":`...)
	return append(strconv.AppendInt(dst, n, 10), ',')
}

// AppendElement appends an element to a comma-separated list.
func AppendElement(dst, element []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(dst, element...)
}

// AppendQuoted appends a text as a JSON string.
func AppendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	b = AppendEscaped(b, s)
	return append(b, '"')
}

// AppendKey appends a member's name and colon to an object.
func AppendKey(b Value, key string) Value {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(AppendEscaped(append(b, '"'), key), `":`...)
}
