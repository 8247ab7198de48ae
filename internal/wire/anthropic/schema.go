// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// closed returns a schema of an answer whose objects have no properties but those that it
// names: the API demands that each of them says so. What a schema does say of others stays, and
// everything else keeps its bytes and order.
func closed(v rawjson.Value) rawjson.Value {
	return appendClosed(make(rawjson.Value, 0, len(v)+len(v)/4), v)
}

func appendClosed(b, v rawjson.Value) rawjson.Value {
	if !v.IsObject() {
		return append(b, v...)
	}
	object, told := false, false
	b = append(b, '{')
	for key, m := range v.Members() {
		b = rawjson.AppendKey(b, key)
		switch key {
		case "items", "not":
			b = appendClosed(b, m)
		case "properties", "$defs", "definitions":
			b = appendAllClosed(b, m)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			b = append(b, '[')
			for i, s := range m.Elements() {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendClosed(b, s)
			}
			b = append(b, ']')
		default:
			object, told = object || key == "type" && isObject(m), told || key == "additionalProperties"
			b = append(b, m...)
		}
	}
	if object && !told {
		b = append(rawjson.AppendKey(b, "additionalProperties"), "false"...)
	}
	return append(b, '}')
}

// appendAllClosed appends an object whose members are schemas under the client's own names.
func appendAllClosed(b, v rawjson.Value) rawjson.Value {
	if !v.IsObject() {
		return append(b, v...)
	}
	b = append(b, '{')
	for key, m := range v.Members() {
		b = appendClosed(rawjson.AppendKey(b, key), m)
	}
	return append(b, '}')
}

// isObject reports whether a type is that of objects, or one of several that is.
func isObject(v rawjson.Value) bool {
	if v.Str() == "object" {
		return true
	}
	for _, t := range v.Elements() {
		if t.Str() == "object" {
			return true
		}
	}
	return false
}
