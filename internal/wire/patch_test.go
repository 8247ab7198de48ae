// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

func TestPatch(t *testing.T) {
	set := func(name, value string) Member { return Member{name, []byte(value)} }
	drop := func(name string) Member { return Member{Name: name} }
	for _, tt := range []struct {
		name, object string
		patches      []Member
		want         string
	}{
		{"replace", `{ "a" : 1 , "b":[1, 2]}`, []Member{set("a", `"x"`)}, `{ "a" : "x" , "b":[1, 2]}`},
		{"add", `{"a":1 }`, []Member{set("b", "2"), set("c", "3")}, `{"a":1 ,"b":2,"c":3}`},
		{"add to nothing", ` {} `, []Member{set("b", "2"), set("c", "3")}, ` {"b":2,"c":3} `},
		{"drop the first", `{"a":1, "b":2}`, []Member{drop("a")}, `{"b":2}`},
		{"drop one in the middle", `{"a":1, "b":2, "c":3}`, []Member{drop("b")}, `{"a":1, "c":3}`},
		{"drop the last", `{"a":1, "b":2 }`, []Member{drop("b")}, `{"a":1 }`},
		{"drop two at the beginning", `{"a":1, "b":2, "c":3}`, []Member{drop("a"), drop("b")}, `{"c":3}`},
		{"drop two at the end", `{"a":1, "b":2, "c":3}`, []Member{drop("c"), drop("b")}, `{"a":1}`},
		{"drop all", `{ "a":1, "b":2 }`, []Member{drop("a"), drop("b")}, `{  }`},
		{"drop all, add one", `{"a":1,"b":2}`, []Member{drop("a"), drop("b"), set("c", "3")}, `{"c":3}`},
		{"drop the first and the last", `{"a":1,"b":2,"c":3}`, []Member{drop("a"), drop("c")}, `{"b":2}`},
		{"drop what is not there", `{"a":1}`, []Member{drop("b")}, `{"a":1}`},
		{"inner names stay", `{"a":{"b":1},"b":2}`, []Member{set("b", "3")}, `{"a":{"b":1},"b":3}`},
		{"twice", `{"a":1,"b":2,"a":3}`, []Member{set("a", "0")}, `{"a":0,"b":2,"a":0}`},
		{"twice, dropped", `{"a":1,"b":2,"a":3}`, []Member{drop("a")}, `{"b":2}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := []byte(tt.object)
			got, err := Patch(before, tt.patches...)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
			if string(before) != tt.object {
				t.Errorf("the object became %s", before)
			}
		})
	}
	same := []byte(`{"a":1}`)
	if got, err := Patch(same, set("a", "1")); err != nil || &got[0] != &same[0] {
		t.Errorf("nothing to do made a copy: %s, %v", got, err)
	}
	for _, bad := range []string{``, `[]`, `"a"`, `{`, `{"a":1`, `{"a":1}}`, `{"a" 1}`, `{"a":1,}`} {
		if got, err := Patch([]byte(bad), set("b", "1")); !errors.Is(err, ErrNotObject) {
			t.Errorf("%q: got %s, %v", bad, got, err)
		}
	}
}

// A view of the body saves scanning the messages and the tools and does not change the result.
func TestObjectOfView(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"[1]"}],"stream":true}`,
		`{ "messages" : [ {"role":"user","content":[{"type":"text","text":"]"}]} , {"role":"assistant","content":"ok"} ] ,` +
			` "model":"m" }`,
		`{"tools":[{"name":"t"}],"messages":[{"role":"user","content":"a"}],"metadata":{"messages":[{"role":"user"}]}}`,
		`{"tools": [ {"name":"t"} , {"type":"function","function":{"name":"]"}}],"messages":[{"role":"user","content":"a"}]}`,
		`{"tools":[{"name":"t"}],"model":"m","tools":[{"name":"u"}],"messages":[]}`,
		`{"tools":[{"name":"t"}],"functions":[{"name":"u"}],"messages":[{"role":"user","content":"a"}]}`,
		`{"tools":[{"name":"t"},null,{"name":"u"}],"input":"a"}`,
		`{"tools":[{"type":"function","name":"t"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"u"}]}],` +
			`"model":"m","input":"a"}`,
		`{"tools":[{"functionDeclarations":[{"name":"t"},{"name":"u"}]}],"contents":[{"role":"user","parts":[{"text":"a"}]}]}`,
	} {
		for _, format := range Formats() {
			compareToView(t, format, []byte(body))
		}
	}
	v, err := Parse(Anthropic, []byte(`{"messages":[{"role":"user","content":"a"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := ReadObject([]byte(`{"messages":[{"role":"user","content":"b"}]}`), v) // another body of the same length
	if err != nil || string(o.Value("messages")) != `[{"role":"user","content":"b"}]` {
		t.Errorf("%s, %v", o.Value("messages"), err)
	}
}

// compareToView compares the members of a body read with and without its view.
func compareToView(t *testing.T, format Format, body []byte) {
	t.Helper()
	v, err := Parse(format, body, nil)
	if err != nil {
		return
	}
	plain, err := ReadObject(body, nil)
	if err != nil {
		t.Fatalf("%s is read as a request, and is no object: %v", body, err)
	}
	if known, err := ReadObject(body, v); err != nil || !reflect.DeepEqual(known, plain) {
		t.Errorf("%s: with its view %+v, %v; without %+v", body, known, err, plain)
	}
}

func FuzzObjectOfView(f *testing.F) {
	f.Add(`{"model":"m","messages":[{"role":"user","content":"a"}]}`)
	f.Add(`{"model":"m","input":[{"role":"user","content":"a"},{"type":"compaction"}]}`)
	f.Add(`{"tools":[{"name":"t"},{"name":"u"}],"model":"m","messages":[]}`)
	f.Add(`{"contents":[{"role":"user","parts":[{"text":"a"}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, format := range Formats() {
			compareToView(t, format, []byte(body))
		}
	})
}

// TestRename: a body with edits is renamed as the same body in one piece.
func TestRename(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}`,
		`{"messages":[{"role":"user","content":"a"}], "model" : "m" }`,
		`{"messages":[{"role":"user","content":"a"}]}`,
	} {
		v, err := Parse(OpenAIChat, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		text := v.Blocks[0].Body
		for name, cuts := range map[string][]Cut{
			"none":            nil,
			"a text":          {{Start: text.Start, End: text.End, With: []byte(`"shorter"`)}},
			"and a beginning": {{Start: text.Start, End: text.End, With: []byte(`"b"`)}, {Start: 1, End: 1, With: []byte(`"n":1,`)}},
		} {
			edited, err := NewBody(v.Raw, cuts...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Patch(edited.Bytes(), Member{"model", []byte(`"a\"b"`)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := v.Rename(edited, `a"b`)
			if err != nil || string(got.Bytes()) != string(want) {
				t.Errorf("%s with %s: got %s, %v, want %s", body, name, got.Bytes(), err, want)
			}
		}
	}
}

func FuzzPatch(f *testing.F) {
	f.Add(`{"a":1,"b":{"a":2},"c":[]}`)
	f.Add(` { "max_tokens" : 5 } `)
	f.Fuzz(func(t *testing.T, object string) {
		got, err := Patch([]byte(object), Member{"a", []byte(`"new"`)}, Member{"b", nil}, Member{"z", []byte("null")})
		if err != nil {
			return
		}
		var before, after map[string]any
		if json.Unmarshal([]byte(object), &before) != nil {
			return // the standard library is stricter here
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%s became %s: %v", object, got, err)
		}
		before["a"], before["z"] = "new", nil
		delete(before, "b")
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s became %s", object, got)
		}
	})
}
