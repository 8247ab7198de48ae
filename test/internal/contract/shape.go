// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"
)

// shape checks a value against a type of an official SDK by reflection: known members, their types,
// and required members. For a union the variant with the fewest faults counts.
func (f *findings) shape(path string, v *Value, t reflect.Type) {
	switch {
	case v.Kind == Null || t == reflect.TypeFor[json.RawMessage]():
		return // required members are checked by object
	case t == reflect.TypeFor[time.Time]():
		f.want(path, v, String)
		return
	case optional(t):
		value, _ := t.FieldByName("Value")
		f.shape(path, v, value.Type)
		return
	}
	switch t.Kind() {
	case reflect.Interface:
	case reflect.Pointer:
		f.shape(path, v, t.Elem())
	case reflect.Bool:
		f.want(path, v, Bool)
	case reflect.String:
		if f.want(path, v, String) {
			if want, ok := constant(t); ok && v.Text != want {
				f.add(path, "is %q, not %q", v.Text, want)
			}
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		// The Gemini API writes 64-bit integers as strings.
		if v.Kind != String && f.want(path, v, Number) && strings.ContainsAny(v.Text, ".eE") {
			f.add(path, "is no whole number")
		}
	case reflect.Float32, reflect.Float64:
		f.want(path, v, Number)
	case reflect.Slice:
		f.list(path, v, t)
	case reflect.Map:
		if f.want(path, v, Object) {
			f.once(path, v)
			for _, m := range v.Members {
				f.shape(path+".*", m.Value, t.Elem())
			}
		}
	case reflect.Struct:
		if variants := variants(t); variants != nil {
			f.union(path, v, t, variants)
			return
		}
		f.object(path, v, t)
	default:
		panic("contract: " + t.String())
	}
}

func (f *findings) want(path string, v *Value, k Kind) bool {
	if v.Kind != k {
		f.add(path, "is %s, not %s", v.Kind, k)
	}
	return v.Kind == k
}

// once finds duplicate members.
func (f *findings) once(path string, v *Value) {
	seen := map[string]bool{}
	for _, m := range v.Members {
		if seen[m.Name] {
			f.add(path+"."+m.Name, "stands twice")
		}
		seen[m.Name] = true
	}
}

func (f *findings) list(path string, v *Value, t reflect.Type) {
	if t.Elem().Kind() == reflect.Uint8 { // base64
		f.want(path, v, String)
		return
	}
	// The Go SDK writes a text as a list of one block.
	if v.Kind == String && texts(t.Elem()) || !f.want(path, v, Array) {
		return
	}
	for _, e := range v.Elements {
		if e.Kind == Null {
			f.add(path+"[]", "is null")
		}
		f.shape(path+"[]", e, t.Elem())
	}
}

// texts reports whether a text block is a value of the type.
func texts(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	if of, ok := t.FieldByName("OfText"); ok {
		return of.Type.Kind() == reflect.Pointer
	}
	field, ok := t.FieldByName("Type")
	if !ok {
		return false
	}
	name, ok := constant(field.Type)
	return ok && name == "text"
}

// object checks the members of an object.
func (f *findings) object(path string, v *Value, t reflect.Type) {
	if !f.want(path, v, Object) {
		return
	}
	f.once(path, v)
	fields, open := fieldsOf(t)
	for name, field := range fields {
		if f.needs(name, field) && v.Get(name) == nil {
			f.add(path+"."+name, "is missing")
		}
	}
	for _, m := range v.Members {
		field, ok := fields[m.Name]
		if !ok {
			if !open {
				f.add(path+"."+m.Name, "is not known to the SDK")
			}
			continue
		}
		if m.Value.Kind == Null && f.request && field.Tag.Get("api") == "required" {
			f.add(path+"."+m.Name, "is null")
		}
		f.shape(path+"."+m.Name, m.Value, field.Type)
	}
}

// needs reports whether a member is required.
func (f *findings) needs(name string, field reflect.StructField) bool {
	if _, fixed := constant(field.Type); fixed {
		return true
	}
	if field.Tag.Get("api") != "required" {
		return false
	}
	if f.request {
		return true
	}
	// In responses the SDKs also mark members as required that are null, or newer than most
	// servers.
	switch field.Type.Kind() {
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Float32, reflect.Float64:
		return false
	}
	return !absent[name]
}

// absent lists members of responses that clients of every version can do without: members of later
// versions, copies of the request, and reports about features that were not requested.
var absent = map[string]bool{
	// Messages
	"estimated_tokens": true, "speed": true, "inference_geo": true, "service_tier": true, "iterations": true,
	"citations": true, "caller": true,
	// Responses
	"logprobs": true, "instructions": true, "access_programs": true,
	// chat completions
	"refusal": true,
}

// fieldsOf returns the members of a type. open reports that it allows others.
func fieldsOf(t reflect.Type) (fields map[string]reflect.StructField, open bool) {
	fields = map[string]reflect.StructField{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Name == "ExtraFields":
			open = true
		case field.Anonymous && field.IsExported() && name == "":
			more, opened := fieldsOf(field.Type)
			maps.Copy(fields, more)
			open = open || opened
		case name != "" && name != "-":
			fields[name] = field
		}
	}
	return fields, open
}

// union checks the value against the variant with the fewest faults.
func (f *findings) union(path string, v *Value, t reflect.Type, variants []reflect.Type) {
	var best *findings
	for _, variant := range variants {
		if !f.may(v, variant) {
			continue
		}
		try := &findings{request: f.request}
		try.shape(path, v, variant)
		if best == nil || len(try.found) < len(best.found) {
			best = try
		}
	}
	if best == nil {
		f.add(path, "is no %s", t.Name())
		return
	}
	f.found = append(f.found, best.found...)
}

// may reports whether a variant matches the value's kind and its discriminating members.
func (f *findings) may(v *Value, t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if optional(t) {
		value, _ := t.FieldByName("Value")
		t = value.Type
	}
	switch t.Kind() {
	case reflect.Struct:
		if inner := variants(t); inner != nil {
			for _, variant := range inner {
				if f.may(v, variant) {
					return true
				}
			}
			return false
		}
		if v.Kind != Object {
			return false
		}
		fields, _ := fieldsOf(t)
		for name, field := range fields {
			if want, ok := constant(field.Type); ok && v.Has(name) && v.String(name) != want {
				return false
			}
		}
		return true
	case reflect.Map:
		return v.Kind == Object
	case reflect.Slice:
		return v.Kind == Array
	case reflect.String:
		want, ok := constant(t)
		return v.Kind == String && (!ok || v.Text == want)
	case reflect.Bool:
		return v.Kind == Bool
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		return v.Kind == Number
	}
	return true
}

// variants returns the variants of a union: in requests the fields beginning with Of, in responses
// the results of the methods As….
func variants(t reflect.Type) (list []reflect.Type) {
	for field := range t.Fields() {
		if strings.HasPrefix(field.Name, "Of") && strings.HasSuffix(field.Tag.Get("json"), ",inline") {
			list = append(list, field.Type)
		}
	}
	for m := range t.Methods() {
		if strings.HasPrefix(m.Name, "As") && m.Name != "AsAny" && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 {
			if out := m.Type.Out(0); out.Kind() != reflect.Interface {
				list = append(list, out)
			}
		}
	}
	return list
}

// constant returns the value of a type with only one.
func constant(t reflect.Type) (string, bool) {
	if t.Kind() != reflect.String || !strings.HasSuffix(t.PkgPath(), "/shared/constant") {
		return "", false
	}
	m, ok := t.MethodByName("Default")
	if !ok {
		return "", false
	}
	return m.Func.Call([]reflect.Value{reflect.Zero(t)})[0].String(), true
}

// optional reports whether a type is an optional value.
func optional(t reflect.Type) bool {
	return strings.HasSuffix(t.PkgPath(), "/packages/param") && strings.HasPrefix(t.Name(), "Opt[")
}

// add records a fault at a path.
func (f *findings) add(path, format string, args ...any) {
	f.found = append(f.found, Finding{path, fmt.Sprintf(format, args...)})
}
