// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"iter"
	"slices"
)

// Index is where the long strings of a well-formed text end. A value lies in the values
// around it, and who reads one after the other would look for the end of each string in it again
// and again. The zero value and nil know of none.
type Index struct {
	text  []byte
	longs []Span
	next  int // the first of them that begins no earlier than what was asked for last
}

// longString is from how many bytes on a string is longer to skip than to look up.
const longString = 96

// IndexObject makes the index of a text that is to be a JSON object, which it checks as [ValidObject] does.
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

// find returns where a string ends in the text, 0 if it is none of the long ones. Most
// are asked for in their order.
func (x *Index) find(start int32) int32 {
	switch n := x.next; {
	case n > 0 && x.longs[n-1].Start >= start:
		x.next, _ = slices.BinarySearchFunc(x.longs, start, func(s Span, start int32) int { return int(s.Start) - int(start) })
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

// skipValue skips a value that stands in another.
func (x *Index) skipValue(v Value, i int) int {
	depth := 0
	for i < len(v) {
		if !ends[v[i]] {
			i = SkipDigits(v, i+1) // there are numbers of millions of digits
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

// Members yields the members of an object, nothing for any other value.
func (x *Index) Members(v Value) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for key, value := range x.members(v) {
			if !yield(key.name(), value) {
				return
			}
		}
	}
}

// Member returns a member of an object, nil if there is none.
func (x *Index) Member(v Value, name string) Value {
	for key, value := range x.members(v) {
		if string(key) == name || bytes.IndexByte(key, '\\') >= 0 && key.Decoded() == name {
			return value
		}
	}
	return nil
}

// members are Members with their names as they are written.
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

// Elements yields the elements of an array, nothing for any other value.
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
