// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"bytes"
	"encoding/json"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// unsupported are the members of schemas that the API refuses in an output format
// (https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations).
var unsupported = map[string]bool{
	"minimum": true, "maximum": true, "exclusiveMinimum": true, "exclusiveMaximum": true, "multipleOf": true,
	"minLength": true, "maxLength": true,
	"maxItems": true, "uniqueItems": true, "minProperties": true, "maxProperties": true,
}

// AnswerSchema returns an output schema in the form that the API takes, and reports whether the API
// refuses the given one. It calls leaveOut with the name of each member that the form omits.
func AnswerSchema(v rawjson.Value, leaveOut func(member string)) (schema rawjson.Value, refused bool) {
	schema = answerSchema(v, leaveOut)
	var before, after bytes.Buffer
	if json.Compact(&before, v) != nil || json.Compact(&after, schema) != nil {
		return v, false
	}
	return schema, !bytes.Equal(before.Bytes(), after.Bytes())
}

// answerSchema rewrites an output schema for the API: objects allow no additional properties, oneOf
// becomes anyOf, and unsupported members are omitted. It calls leaveOut with the name of each
// omitted member.
func answerSchema(v rawjson.Value, leaveOut func(member string)) rawjson.Value {
	return appendSchema(make(rawjson.Value, 0, len(v)+len(v)/4), v, leaveOut)
}

func appendSchema(b, v rawjson.Value, leaveOut func(string)) rawjson.Value {
	if !v.IsObject() {
		return append(b, v...)
	}
	object, closed := false, false
	b = append(b, '{')
	for key, m := range v.Members() {
		closed = closed || key == "additionalProperties" && string(m) == "false"
		if n, ok := m.Int(); unsupported[key] || key == "minItems" && (!ok || n > 1) || key == "additionalProperties" &&
			!closed {
			leaveOut(key)
			continue
		}
		if key == "oneOf" {
			key = "anyOf"
		}
		b = rawjson.AppendKey(b, key)
		switch key {
		case "items", "not":
			b = appendSchema(b, m, leaveOut)
		case "properties", "$defs", "definitions":
			object = object || key == "properties"
			b = appendSchemas(b, m, leaveOut)
		case "anyOf", "allOf", "prefixItems":
			b = append(b, '[')
			for i, s := range m.Elements() {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendSchema(b, s, leaveOut)
			}
			b = append(b, ']')
		default:
			object = object || key == "type" && isObject(m)
			b = append(b, m...)
		}
	}
	if object && !closed {
		b = append(rawjson.AppendKey(b, "additionalProperties"), "false"...)
	}
	return append(b, '}')
}

// appendSchemas appends an object of named schemas.
func appendSchemas(b, v rawjson.Value, leaveOut func(string)) rawjson.Value {
	if !v.IsObject() {
		return append(b, v...)
	}
	b = append(b, '{')
	for key, m := range v.Members() {
		b = appendSchema(rawjson.AppendKey(b, key), m, leaveOut)
	}
	return append(b, '}')
}

// isObject reports whether a type is "object", or a list that contains it.
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
