// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestFoldPatch(t *testing.T) {
	old := strings.Repeat("-\tan old line of some length\n", 8)
	added := strings.Repeat("+\ta new line of some length\n", 9)
	patch := "*** Begin Patch\n*** Update File: a.go\n@@ func a()\n kept\n" + old + added +
		"*** Add File: b.go\n+short\n*** End Patch\n"
	for _, c := range []struct {
		name     string
		replaced bool
		want     string
	}{
		{
			"all", false,
			"*** Begin Patch\n*** Update File: a.go\n@@ func a()\n[[llm_cache:folded 0123abcd: 18 lines, 490 chars]]\n*** " +
				"Add File: b.go\n+short\n*** End Patch\n",
		},
		{
			"what it replaced", true,
			"*** Begin Patch\n*** Update File: a.go\n@@ func a()\n kept\n-[[llm_cache:folded 0123abcd: 8 lines, 232 chars]]\n" +
				added + "*** Add File: b.go\n+short\n*** End Patch\n",
		},
	} {
		if got := foldPatch(patch, "0123abcd", c.replaced); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		free := Fold(Quote(patch), "0123abcd", c.replaced)
		if got := gjson.ParseBytes(free).Str; got != c.want {
			t.Errorf("%s, as free text:\n%s", c.name, got)
		}
		arguments := Fold(Quote(`{"input":`+string(Quote(patch))+`,"n":1.50}`), "0123abcd", c.replaced)
		if got := gjson.ParseBytes(arguments).Str; got != `{"input":`+
			string(Quote(strings.ReplaceAll(c.want, "0123abcd:", "0123abcd.1:")))+`,"n":1.50}` {
			t.Errorf("%s, in arguments:\n%s", c.name, got)
		}
	}
	if n := ReplacedBytes(gjson.ParseBytes(Quote(patch))); n != len(old) {
		t.Errorf("%d bytes replaced, want %d", n, len(old))
	}
	program := Quote("await tools.apply_patch(`" + patch + "`)")
	foldable := func(body []byte) bool { return Foldable(CallInput(body)) }
	if foldable(program) || !foldable(Quote(patch)) || !foldable(Quote(`{"a":1}`)) || !foldable([]byte(`{"a":1}`)) {
		t.Error("programs are not to be folded, all else is")
	}
}

func TestFoldInput(t *testing.T) {
	long := strings.Repeat("a line of text\\n", 20)
	edit := `{"file_path":"/a.go", "old_string":"` + long + `","new_string":"` + long + `x","n":1.50}`
	const stub = `"[[llm_cache:folded 0123abcd.1: 20 lines, 300 chars]]"`
	for _, c := range []struct {
		name, body string
		replaced   bool
		want       string
	}{
		{"all", edit, false, `{"file_path":"/a.go", "old_string":` + stub +
			`,"new_string":"[[llm_cache:folded 0123abcd.2: 21 lines, 301 chars]]","n":1.50}`},
		{"what was replaced", edit, true, `{"file_path":"/a.go", "old_string":` + stub + `,"new_string":"` + long +
			`x","n":1.50}`},
		{"several edits", `{"edits":[{"oldText":"` + long + `","newText":"b"}]}`, true, `{"edits":[{"oldText":` + stub +
			`,"newText":"b"}]}`},
		{"nothing long", `{"a":"b"}`, false, `{"a":"b"}`},
		{"not an object", `"text"`, false, `"text"`},
	} {
		got := string(Fold([]byte(c.body), "0123abcd", c.replaced))
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
	}
	// OpenAI chat sends the input as JSON text in a string.
	inner, _ := json.Marshal(edit)
	var back string
	if err := json.Unmarshal(Fold(inner, "0123abcd", true), &back); err != nil || !strings.Contains(back, stub) ||
		!json.Valid([]byte(back)) {
		t.Errorf("chat: %q, %v", back, err)
	}
}
