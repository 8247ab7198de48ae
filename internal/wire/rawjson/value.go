// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
)

// Value is a JSON value in the client's bytes. Its methods require a well-formed value.
type Value []byte

// ends are the bytes that may end or structure a value.
var ends = [256]bool{
	'"': true, '{': true, '[': true, '}': true, ']': true, ',': true, ' ': true, '\n': true,
	'\t': true, '\r': true,
}

// Trim returns the value without surrounding white space.
func (v Value) Trim() Value { return Value(bytes.Trim(v, " \n\t\r")) }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return len(v) > 0 && v[0] == '{' }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return len(v) > 0 && v[0] == '[' }

// IsString reports whether the value is a string.
func (v Value) IsString() bool { return len(v) > 0 && v[0] == '"' }

// IsNumber reports whether the value is a number.
func (v Value) IsNumber() bool { return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') }

// IsTrue reports whether the value is true.
func (v Value) IsTrue() bool { return string(v) == "true" }

// Absent reports whether the value is missing, null, false, or an empty string, array or object:
// the values that clients send for an unused member.
func (v Value) Absent() bool {
	switch string(v) {
	case "", "null", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

// Used returns the value, nil if it is null.
func (v Value) Used() Value {
	if string(v) == "null" {
		return nil
	}
	return v
}

// Members yields the members of an object, and nothing for other values.
func (v Value) Members() iter.Seq2[string, Value] { return (*Index)(nil).Members(v) }

// Elements yields the elements of an array, and nothing for other values.
func (v Value) Elements() iter.Seq2[int, Value] { return (*Index)(nil).Elements(v) }

// Member returns a member of an object, nil for none.
func (v Value) Member(name string) Value { return (*Index)(nil).Member(v, name) }

// Text returns the inside of a string, with escapes.
func (v Value) Text() Text {
	if !v.IsString() {
		return nil
	}
	return Text(v[1 : len(v)-1])
}

// Str returns a string's decoded text.
func (v Value) Str() string { return v.Text().Decoded() }

// Int returns a number without its fraction, false for other values and numbers beyond 32 bits.
func (v Value) Int() (int, bool) {
	if !v.IsNumber() {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < -1<<31 || f > 1<<31 {
		return 0, false
	}
	return int(f), true
}

// Index is an index of the ends of long strings in a well-formed text. Values are nested: without
// an index, reading each level would search for the end of the same strings again. The zero value
// and nil are empty.
type Index struct {
	text  []byte
	longs []Span
	next  int // index of the first string at or after the last lookup
}

// Text returns the indexed text.
func (x *Index) Text() []byte { return x.text }

// longString is the minimum length of an indexed string, in bytes. Skipping shorter strings is
// faster than a lookup.
const longString = 96

// IndexObject validates a JSON object like [ValidObject] and returns its index.
func IndexObject(text []byte) (x Index, ok bool) {
	x.text, x.longs = text, make([]Span, 0, 16+len(text)>>11)
	at := SkipSpace(text, 0)
	if at == len(text) || text[at] != '{' {
		return x, false
	}
	end := scan(text, at, func(b []byte, i int) int {
		end := checkString(b, i)
		if end-i >= longString {
			x.longs = append(x.longs, Span{int32(i), int32(end)})
		}
		return end
	})
	return x, end >= 0 && SkipSpace(text, end) == len(text)
}

// find returns the end of the string at start, 0 if it is not indexed.
func (x *Index) find(start int32) int32 {
	// Most lookups are in ascending order.
	switch n := x.next; {
	case n > 0 && x.longs[n-1].Start >= start:
		x.next, _ = slices.BinarySearchFunc(x.longs, start,
			func(s Span, start int32) int { return int(s.Start) - int(start) })
	default:
		for x.next < len(x.longs) && x.longs[x.next].Start < start {
			x.next++
		}
	}
	if x.next < len(x.longs) && x.longs[x.next].Start == start {
		return x.longs[x.next].End
	}
	return 0
}

// skipString skips a string of a value.
func (x *Index) skipString(v Value, i int) int {
	if x != nil {
		// Subslices share the end of their capacity, which gives v's offset in the text. The
		// pointers confirm it.
		at := cap(x.text) - cap(v) + i
		if at >= 0 && at < len(x.text) && &x.text[at] == &v[i] {
			if end := x.find(int32(at)); end > 0 {
				return i + int(end) - at
			}
		}
	}
	if end := SkipString(v, i); end >= 0 {
		return end
	}
	return len(v)
}

// skipValue skips a nested value.
func (x *Index) skipValue(v Value, i int) int {
	depth := 0
	for i < len(v) {
		if !ends[v[i]] {
			i = SkipDigits(v, i+1) // numbers may have millions of digits
			continue
		}
		switch v[i] {
		case '"':
			i = x.skipString(v, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// Members yields the members of an object, and nothing for other values.
func (x *Index) Members(v Value) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for key, value := range x.members(v) {
			if !yield(key.name(), value) {
				return
			}
		}
	}
}

// Member returns a member of an object, nil for none.
func (x *Index) Member(v Value, name string) Value {
	for key, value := range x.members(v) {
		if string(key) == name || bytes.IndexByte(key, '\\') >= 0 && key.Decoded() == name {
			return value
		}
	}
	return nil
}

// members yields the members with undecoded names.
func (x *Index) members(v Value) iter.Seq2[Text, Value] {
	return func(yield func(Text, Value) bool) {
		if !v.IsObject() {
			return
		}
		for i := SkipSpace(v, 1); i < len(v) && v[i] == '"'; {
			end := x.skipString(v, i)
			key := Text(v[i+1 : end-1])
			start := SkipSpace(v, SkipSpace(v, end)+1)
			end = x.skipValue(v, start)
			if !yield(key, v[start:end]) {
				return
			}
			if i = SkipSpace(v, end); i < len(v) && v[i] == ',' {
				i = SkipSpace(v, i+1)
			}
		}
	}
}

// Elements yields the elements of an array, and nothing for other values.
func (x *Index) Elements(v Value) iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if !v.IsArray() {
			return
		}
		n := 0
		for i := SkipSpace(v, 1); i < len(v) && v[i] != ']'; n++ {
			end := x.skipValue(v, i)
			if !yield(n, v[i:end]) {
				return
			}
			if i = SkipSpace(v, end); i < len(v) && v[i] == ',' {
				i = SkipSpace(v, i+1)
			}
		}
	}
}
