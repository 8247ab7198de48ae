// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openai

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// strictly reports whether OpenAI accepts a schema in strict mode
// (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas).
func strictly(v rawjson.Value) bool {
	var properties rawjson.Value
	object, closed, required := false, false, map[string]bool{}
	for key, m := range v.Members() {
		ok := true
		switch key {
		case "type":
			object = object || m.Str() == "object"
			for _, t := range m.Elements() {
				object = object || t.Str() == "object"
			}
		case "additionalProperties":
			closed = string(m) == "false"
		case "required":
			for _, name := range m.Elements() {
				required[name.Str()] = true
			}
		case "properties":
			properties = m
		case "items":
			ok = strictly(m)
		case "anyOf":
			for _, s := range m.Elements() {
				ok = ok && strictly(s)
			}
		case "$defs", "definitions":
			for _, s := range m.Members() {
				ok = ok && strictly(s)
			}
		case "allOf", "oneOf", "not", "if", "patternProperties", "dependentRequired", "dependentSchemas":
			ok = false
		}
		if !ok {
			return false
		}
	}
	for name, s := range properties.Members() {
		if !required[name] || !strictly(s) {
			return false
		}
	}
	// Every object requires all of its properties and allows no others.
	return closed || !object
}
