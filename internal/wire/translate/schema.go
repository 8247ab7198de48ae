// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// ObjectSchema returns a tool's input schema in the form required by Anthropic's and OpenAI's APIs:
// an object with properties and without alternatives at the top level. Properties of alternatives
// become properties of the object. A property is required if every alternative requires it. A
// schema without alternatives keeps its bytes.
func ObjectSchema(v rawjson.Value) rawjson.Value { return ObjectSchemaIn(v, v) }

// ObjectSchemaIn is [ObjectSchema] for a part of the schema root, to which references refer.
func ObjectSchemaIn(root, v rawjson.Value) rawjson.Value {
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
		case "anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref":
			plain = false
		case "required":
			plain = plain && m.IsArray()
		}
	}
	if !plain {
		return flat(root, v)
	}
	// The APIs require both properties and type.
	if !properties {
		v = append(v[:len(v)-1:len(v)-1], `,"properties":{}}`...)
	}
	if kind == nil {
		v = append(rawjson.Value(`{"type":"object",`), v[1:]...)
	}
	return v
}

// deepest is the maximum depth for following alternatives and references.
const deepest = 8

// object collects the properties of an object schema and its alternatives.
type object struct {
	root       rawjson.Value // the target of references
	names      []string
	properties map[string]rawjson.Value
	required   []string
}

func flat(root, v rawjson.Value) rawjson.Value {
	o := &object{root: root, properties: map[string]rawjson.Value{}}
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
		case "type", "properties", "required", "anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref":
		default:
			if string(m) != "null" {
				out = append(rawjson.AppendKey(out, key), m...)
			}
		}
	}
	return append(out, '}')
}

// gather collects the properties of a schema and returns the required ones.
func (o *object) gather(v rawjson.Value, depth int) (required []string) {
	// References may be circular.
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
			var all []string // required by every alternative
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

// add adds a property. Different definitions of one property become alternatives.
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

// resolve returns the target of a reference within the schema.
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
