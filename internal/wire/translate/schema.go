// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ObjectSchema returns the schema of a tool's input as Anthropic's and OpenAI's APIs demand
// it: one of an object, which says its properties and has no alternatives at the top. The
// properties of alternatives become those of the object, and all of them are required that
// every alternative requires. Without alternatives the schema keeps its bytes.
func ObjectSchema(v rawjson.Value) rawjson.Value {
	if !v.IsObject() || len(v[1:].Trim()) == 1 {
		return rawjson.Value(`{"type":"object","properties":{}}`)
	}
	kind, properties, plain := rawjson.Value(nil), false, true
	for key, m := range v.Members() {
		switch key {
		case "type":
			kind, plain = m, plain && m.Str() == "object"
		case "properties":
			properties, plain = true, plain && m.IsObject()
		case "anyOf", "oneOf", "allOf", "enum", "not", "$ref":
			plain = false
		case "required":
			plain = plain && m.IsArray()
		}
	}
	if !plain {
		return flat(v)
	}
	if !properties {
		v = append(v[:len(v)-1:len(v)-1], `,"properties":{}}`...)
	}
	if kind == nil {
		v = append(rawjson.Value(`{"type":"object",`), v[1:]...)
	}
	return v
}

// deepest bounds how far alternatives and references are followed.
const deepest = 8

// object gathers what a schema and its alternatives say of an object.
type object struct {
	root       rawjson.Value // where references lead
	names      []string
	properties map[string]rawjson.Value
	required   []string
}

func flat(v rawjson.Value) rawjson.Value {
	o := &object{root: v, properties: map[string]rawjson.Value{}}
	o.required = o.gather(v, 0)
	out := rawjson.Value(`{"type":"object","properties":{`)
	for _, name := range o.names {
		out = append(rawjson.AppendKey(out, name), o.properties[name]...)
	}
	out = append(out, '}')
	if len(o.required) > 0 {
		out = append(out, `,"required":[`...)
		for i, name := range o.required {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(rawjson.AppendEscaped(append(out, '"'), name), '"')
		}
		out = append(out, ']')
	}
	for key, m := range v.Members() {
		switch key {
		case "type", "properties", "required", "anyOf", "oneOf", "allOf", "enum", "not", "$ref":
		default:
			if string(m) != "null" {
				out = append(rawjson.AppendKey(out, key), m...)
			}
		}
	}
	return append(out, '}')
}

// gather takes in a schema and returns what it requires.
func (o *object) gather(v rawjson.Value, depth int) (required []string) {
	if depth == deepest {
		return nil
	}
	for key, m := range v.Members() {
		switch key {
		case "properties":
			for name, p := range m.Members() {
				o.add(name, p)
			}
		case "required":
			for _, name := range m.Elements() {
				required = append(required, name.Str())
			}
		case "$ref":
			required = append(required, o.gather(o.resolve(m.Str()), depth+1)...)
		case "allOf":
			for _, s := range m.Elements() {
				required = append(required, o.gather(s, depth+1)...)
			}
		case "anyOf", "oneOf":
			var all []string // that every alternative requires
			for i, s := range m.Elements() {
				these := o.gather(s, depth+1)
				if i == 0 {
					all = these
				} else {
					all = slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(these, name) })
				}
			}
			required = append(required, all...)
		}
	}
	slices.Sort(required)
	return slices.Compact(required)
}

// add takes in a property. One that alternatives describe differently has alternatives itself.
func (o *object) add(name string, p rawjson.Value) {
	old, ok := o.properties[name]
	switch {
	case !ok:
		o.names = append(o.names, name)
		o.properties[name] = p
	case string(old) != string(p):
		both := append(append(append(rawjson.Value(`{"anyOf":[`), old...), ','), p...)
		o.properties[name] = append(both, `]}`...)
	}
}

// resolve returns the schema that a reference leads to, in the schema itself.
func (o *object) resolve(ref string) rawjson.Value {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	v := o.root
	for name := range strings.SplitSeq(path, "/") {
		v = v.Member(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return v
}
