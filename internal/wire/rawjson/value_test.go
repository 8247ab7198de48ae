// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"strings"
	"testing"
)

func TestDecoded(t *testing.T) {
	for in, want := range map[string]string{
		`a\n\"\\\/\u00e9`:  "a\n\"\\/é",
		`\ud83d\ude00`:     "😀",
		`\ud800x`:          `\ud800x`,
		`\ud83d\u0041`:     `\ud83dA`,
		`plain`:            "plain",
		`\b\f\r\t\u0000\\`: "\b\f\r\t\x00\\",
	} {
		if got := Text(in).Decoded(); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

// walk reads a value repeatedly, with and without an index, and compares the results. It returns
// the number of values.
func walk(t *testing.T, x *Index, v Value) (n int) {
	t.Helper()
	n = 1
	names, values := []string{}, []Value{}
	for name, m := range v.Members() {
		names, values = append(names, name), append(values, m)
	}
	i := 0
	for name, m := range x.Members(v) {
		if i == len(names) || name != names[i] || string(m) != string(values[i]) {
			t.Fatalf("member %d of %.200s is %s: %.200s", i, v, name, m)
		}
		if again := x.Member(v, name); string(again) != string(v.Member(name)) {
			t.Fatalf("%s of %.200s is %.200s", name, v, again)
		}
		n += walk(t, x, m)
		i++
	}
	elements := []Value{}
	for _, e := range v.Elements() {
		elements = append(elements, e)
	}
	j := 0
	for _, e := range x.Elements(v) {
		if j == len(elements) || string(e) != string(elements[j]) {
			t.Fatalf("element %d of %.200s is %.200s", j, v, e)
		}
		n += walk(t, x, e)
		j++
	}
	if i != len(names) || j != len(elements) {
		t.Fatalf("%.200s ends behind %d members and %d elements", v, i, j)
	}
	return n
}

func TestIndex(t *testing.T) {
	long := strings.Repeat(`words, \"more\" [words] {and} \\ `, 10)
	text := ` {"a":"` + long + `","` + long + `":["` + long + `","short",{"x":"` + long + `","y":[[],"` + long +
		`"]}],"b":{"c":"` + long + `"},"d":1}`
	x, ok := IndexObject([]byte(text))
	if !ok || len(x.longs) != 6 {
		t.Fatalf("%t, %d long strings", ok, len(x.longs))
	}
	if n := walk(t, &x, Value(x.text).Trim()); n != 13 {
		t.Errorf("%d values", n)
	}
	other := Value(strings.Clone(text)) // same length, other memory
	walk(t, &x, other.Trim())
	if got := x.Member(Value(x.text).Trim(), "a"); len(got) != len(long)+2 {
		t.Errorf("%s", got)
	}
}

func FuzzIndex(f *testing.F) {
	long := strings.Repeat(`w\"`, 40)
	f.Add(`{"a":"` + long + `","b":["` + long + `",{"c":"` + long + `"}]}`)
	f.Add(` { } `)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		x, ok := IndexObject([]byte(text))
		if ok != ValidObject(text) {
			t.Fatalf("%q is an object: %t", text, ok)
		}
		if ok {
			walk(t, &x, Value(x.text).Trim())
		}
	})
}
