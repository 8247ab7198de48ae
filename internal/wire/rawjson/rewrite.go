// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"strconv"

	"github.com/tidwall/gjson"
)

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

// Inner returns the inside of a JSON string.
func Inner(v gjson.Result) string {
	if v.Type != gjson.String || len(v.Raw) < 2 {
		return ""
	}
	return v.Raw[1 : len(v.Raw)-1]
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
