// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// dialect are the members of Gemini's own dialect (https://ai.google.dev/api/caching#Schema).
var dialect = map[string]bool{
	"type": true, "format": true, "title": true, "description": true, "nullable": true, "enum": true, "maxItems": true,
	"minItems": true, "properties": true, "required": true, "minProperties": true, "maxProperties": true,
	"minLength": true, "maxLength": true, "pattern": true, "example": true, "anyOf": true, "propertyOrdering": true,
	"default": true, "items": true, "minimum": true, "maximum": true,
}

// JSONSchema returns a schema from the place of one in Gemini's own dialect as JSON schema, and reports
// whether the API refuses it in that place: it has members or types that the dialect lacks.
func JSONSchema(v rawjson.Value) (schema rawjson.Value, refused bool) {
	if !foreign(v) {
		return v, false
	}
	return jsonSchema(v), true
}

// foreign reports whether a schema is not in Gemini's own dialect.
func foreign(v rawjson.Value) bool {
	for key, m := range v.Members() {
		switch key = camel(key); {
		case !dialect[key], key == "type" && m.IsArray(), key == "items" && (m.IsArray() || foreign(m)):
			return true
		case key == "properties":
			for _, s := range m.Members() {
				if foreign(s) {
					return true
				}
			}
		case key == "anyOf":
			for _, s := range m.Elements() {
				if foreign(s) {
					return true
				}
			}
		}
	}
	return false
}

// jsonSchema converts a schema from Gemini's own dialect to JSON schema. The dialect is that of OpenAPI
// 3.0, with types in capitals and nullable. All other members keep their bytes and order.
func jsonSchema(v rawjson.Value) rawjson.Value {
	return appendSchema(make(rawjson.Value, 0, len(v)), v)
}

func appendSchema(b, v rawjson.Value) rawjson.Value {
	if !v.IsObject() {
		return append(b, v...)
	}
	nullable := v.Member("nullable").IsTrue() && v.Member("type").IsString()
	b = append(b, '{')
	for key, m := range v.Members() {
		if key == "nullable" && nullable {
			continue
		}
		b = rawjson.AppendKey(b, key)
		switch key {
		case "type":
			if m.IsString() {
				m = bytes.ToLower(m)
			}
			if nullable {
				b = append(append(append(b, '['), m...), `,"null"]`...)
			} else {
				b = append(b, m...)
			}
		case "items", "additionalProperties", "not":
			b = appendSchema(b, m)
		case "properties", "$defs", "definitions":
			b = appendSchemas(b, m)
		case "anyOf", "oneOf", "allOf", "prefixItems":
			b = append(b, '[')
			for i, s := range m.Elements() {
				if i > 0 {
					b = append(b, ',')
				}
				b = appendSchema(b, s)
			}
			b = append(b, ']')
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			// Google writes 64-bit integers as strings.
			if n := rawjson.Value(m.Text()); n.IsNumber() && rawjson.ValidBytes(n) {
				m = n
			}
			b = append(b, m...)
		default:
			b = append(b, m...)
		}
	}
	return append(b, '}')
}

// appendSchemas appends an object of named schemas.
func appendSchemas(b, v rawjson.Value) rawjson.Value {
	if !v.IsObject() {
		return append(b, v...)
	}
	b = append(b, '{')
	for key, m := range v.Members() {
		b = rawjson.AppendKey(b, key)
		b = appendSchema(b, m)
	}
	return append(b, '}')
}
