// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is the kind of a JSON value.
type Kind byte

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Value is a JSON value with its members in order, including duplicates, which a map would hide.
type Value struct {
	Kind     Kind
	Text     string // of a string, or the literal of a number
	True     bool
	Elements []*Value
	Members  []Member
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value *Value
}

// Parse parses a JSON text.
func Parse(b []byte) (*Value, error) {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	v, err := read(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind the JSON value")
	}
	return v, nil
}

func read(d *json.Decoder) (*Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case bool:
		return &Value{Kind: Bool, True: t}, nil
	case json.Number:
		return &Value{Kind: Number, Text: t.String()}, nil
	case string:
		return &Value{Kind: String, Text: t}, nil
	case json.Delim:
		return readAll(d, t)
	}
	return new(Value), nil
}

func readAll(d *json.Decoder, open json.Delim) (*Value, error) {
	v := &Value{Kind: Array}
	if open == '{' {
		v.Kind = Object
	}
	for d.More() {
		var m Member
		if v.Kind == Object {
			t, err := d.Token()
			if err != nil {
				return nil, err
			}
			m.Name = t.(string) // the decoder guarantees a string
		}
		next, err := read(d)
		if err != nil {
			return nil, err
		}
		if m.Value = next; v.Kind == Object {
			v.Members = append(v.Members, m)
		} else {
			v.Elements = append(v.Elements, next)
		}
	}
	_, err := d.Token()
	return v, err
}

// Get returns a member, nil if it is missing. It accepts nil and values other than objects.
func (v *Value) Get(names ...string) *Value {
	for _, name := range names {
		if v == nil {
			return nil
		}
		var found *Value
		for i := range v.Members {
			if v.Members[i].Name == name {
				found = v.Members[i].Value
			}
		}
		v = found
	}
	return v
}

// Has reports whether a member is present and not null.
func (v *Value) Has(name string) bool {
	m := v.Get(name)
	return m != nil && m.Kind != Null
}

// String returns the text of a member, "" without one.
func (v *Value) String(names ...string) string {
	if m := v.Get(names...); m != nil && m.Kind == String {
		return m.Text
	}
	return ""
}

// List returns the elements of a member, nil without any.
func (v *Value) List(names ...string) []*Value {
	if m := v.Get(names...); m != nil {
		return m.Elements
	}
	return nil
}

// AsBlocks converts a text to a list of one block of a type.
func (v *Value) AsBlocks(kind string) {
	if v == nil || v.Kind != String {
		return
	}
	*v = Value{Kind: Array, Elements: []*Value{{Kind: Object, Members: []Member{
		{"type", &Value{Kind: String, Text: kind}},
		{"text", &Value{Kind: String, Text: v.Text}},
	}}}}
}

// fill sets a missing member of an object.
func (v *Value) fill(name, text string) {
	if v.Get(name) == nil {
		v.Members = append(v.Members, Member{name, &Value{Kind: String, Text: text}})
	}
}

// Without encodes the value compactly, without the members of a name at any depth. The encoding is
// equal for equal values.
func (v *Value) Without(name string) string {
	var b strings.Builder
	v.write(&b, name)
	return b.String()
}

func (v *Value) write(b *strings.Builder, without string) {
	switch v.Kind {
	case Null:
		b.WriteString("null")
	case Bool:
		fmt.Fprint(b, v.True)
	case Number:
		b.WriteString(v.Text)
	case String:
		fmt.Fprintf(b, "%q", v.Text)
	case Array:
		b.WriteByte('[')
		for _, e := range v.Elements {
			e.write(b, without)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for _, m := range v.Members {
			if m.Name == without {
				continue
			}
			fmt.Fprintf(b, "%q:", m.Name)
			m.Value.write(b, without)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	}
}
