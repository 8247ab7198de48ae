// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package harm

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
)

func TestEdits(t *testing.T) {
	const line = `    return forecast[day].rain > 0.5`
	want := []string{"return forecast[day].rain > 0.5"}
	patch := `*** Begin Patch\n*** Update File: a\n@@ ` + line + `\n context that is long enough to count\n-` + line +
		`\n+a new line that is long enough to count\n*** End Patch\n outside`
	inPatch := []string{want[0], "context that is long enough to count", want[0]}
	tests := map[string]struct {
		name, input string
		want        []string
	}{
		"Claude Code": {"Edit", `{"file_path":"a","old_string":"` + line +
			`\n  short\n","new_string":"x","replace_all":false}`, want},
		"MultiEdit": {"MultiEdit", `{"file_path":"a","edits":[{"old_string":"x","new_string":"y"},{"old_string":"` +
			line + `","new_string":""}]}`, want},
		"opencode": {"edit", `{"filePath":"a","oldString":"` + line + `","newString":"x"}`, want},
		"Gemini CLI": {
			"replace", `{"file_path":"a","instruction":"x","old_string":"` + line + `","new_string":"x"}`,
			want,
		},
		"pi":          {"edit", `{"path":"a","oldText":"` + line + `","newText":"x"}`, want},
		"pi, several": {"edit", `{"path":"a","edits":[{"oldText":"` + line + `","newText":"x"}]}`, want},
		"str_replace": {"str_replace_based_edit_tool", `{"command":"str_replace","path":"a","old_str":"` + line +
			`","new_str":"x"}`, want},
		"search, replace":  {"edit", `{"search":"` + line + `","replace":"x"}`, want},
		"patch":            {"apply_patch", `{"input":"` + patch + `"}`, inPatch},
		"patch, opencode":  {"apply_patch", `{"patchText":"` + patch + `"}`, inPatch},
		"patch, free text": {"apply_patch", `"` + patch + `"`, inPatch},
		"patch in a command": {
			"shell", `{"command":["bash","-lc","cd /a && apply_patch <<'E'\n` + patch + `\nE"]}`,
			inPatch,
		},
		"patch in cmd": {"exec_command", `{"cmd":"apply_patch <<'E'\n` + patch + `\nE"}`, inPatch},
		"patch in a program": {"exec", `{"input":"// it's one\nconst patch = \"` + strings.ReplaceAll(patch, `\`, `\\`) +
			`\";\ntext(await tools.apply_patch(patch));"}`, inPatch},
		"patch in a template": {"exec", "{\"input\":\"await tools.apply_patch(String.raw`" + patch + "`)\"}", inPatch},
		"git apply": {
			"Bash",
			`{"command":"git apply <<'E'\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n context that is long enough to count\n-` + line +
				`\n+a new line that is long enough to count\n\\ No newline at end of file\nE\n  a command that is long enough ` +
				`to count"}`, inPatch[1:],
		},
		"sed": {
			"bash", `{"command":"cd /a && sed -i 's/    return forecast\\[day\\].rain > 0\\.5/x/' a.py"}`,
			want,
		},
		"sed with numbers": {"bash", `{"command":"sed -i \"3,9s|` + line + `|x|\" a.py"}`, want},
		"sed, several":     {"exec_command", `{"cmd":"sed -E -i '' -e 's/a/b/' -e 's#` + line + `#x#' a.py"}`, want},
		"sed in a program": {
			"exec", `{"input":"await tools.exec_command({cmd:\"sed -i 's/` + line + `/x/' a.py\"})"}`,
			want,
		},
		"perl":           {"bash", `{"command":"perl -0pi -e 's/` + line + `/x/' a.py"}`, want},
		"script":         {"bash", `{"command":"python - <<'EOF'\nold = '''` + line + `\n'''\nEOF"}`, want},
		"replace call":   {"bash", `{"command":"python -c \"s = s.replace('` + line + `', 'x')\""}`, want},
		"replace in cmd": {"exec_command", `{"cmd":"node -e \"s = s.replaceAll('` + line + `', 'x')\""}`, want},
		"search alone":   {"Grep", `{"search":"` + line + `"}`, nil},
		"new text alone": {"Write", `{"file_path":"a","content":"` + line + `"}`, nil},
		"short lines":    {"Edit", `{"old_string":"short\nlines\n","new_string":"x"}`, nil},
		"reading":        {"bash", `{"command":"cat a.py | sed 's/` + line + `/x/'"}`, nil},
		"writing":        {"bash", `{"command":"cat > a.py <<'E'\n` + line + `\nE"}`, nil},
		"scalars":        {"odd", `{"old":5,"new":7,"list":[1,null,true]}`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !json.Valid([]byte(test.input)) {
				t.Fatalf("the test is wrong: %s", test.input)
			}
			var got []string
			for _, lines := range Quotes(&recording.Message{Content: []recording.Block{{
				Type: "tool_use", Name: test.name,
				Input: json.RawMessage(test.input),
			}}}) {
				got = append(got, lines...)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// quote encodes a string as JSON in raw UTF-8, like JavaScript.
func quote(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// Lines are found in every escaping, in results, in inputs of calls and in arguments, which are
// JSON in a string.
func TestTexts(t *testing.T) {
	const line = "\tif a < \"b\" && größe → \\n ✅😀 {"
	quoted := quote(t, line)
	plain, _ := json.Marshal(line) // escapes <, > and &
	ascii := `"\tif a \u003c \"b\" \u0026\u0026 gr\u00f6\u00dfe \u2192 \\n \u2705\ud83d\ude00 {"`
	for name, body := range map[string]string{
		"result":    `{"content":` + quoted + `}`,
		"escaped":   `{"content":` + string(plain) + `}`,
		"ascii":     `{"content":[{"text" : ` + ascii + `}]}`,
		"input":     `{"input":{"content":` + quoted + `}}`,
		"arguments": `{"arguments":` + quote(t, `{"content":`+quoted+`}`) + `}`,
	} {
		if !json.Valid([]byte(body)) {
			t.Fatalf("%s: the test is wrong: %s", name, body)
		}
		if got := string(Texts([]byte(body))); got != line+"\n" {
			t.Errorf("%s: got %q, want %q", name, got, line+"\n")
		}
	}
	for _, broken := range []string{`"`, `{"a":"b`, `"\`, `"\u12`, `"\ud83d\u`, `{"arguments":"\"`} {
		Texts([]byte(broken)) // must not panic
	}
}

func TestHarmed(t *testing.T) {
	const a, b = "the first line that is quoted", "the second line that is quoted"
	both, one, none := []byte(a+"\n"+b), []byte("x "+a+" y"), []byte("nothing of it")
	for _, test := range []struct {
		history, shown []byte
		want           bool
	}{
		{both, both, false},
		{both, one, true},
		{both, none, true},
		{none, none, false}, // the model knew it from elsewhere
		{one, one, false},
		{none, both, false},
	} {
		if got := Done([]string{a, b}, test.history, test.shown); got != test.want {
			t.Errorf("history %q, shown %q: %t", test.history, test.shown, got)
		}
	}
}

// For valid JSON, Texts finds the same decoded strings as a JSON parser, except for keys.
func FuzzTexts(f *testing.F) {
	f.Add([]byte(`{"arguments":"{\"a\":\"b\\n\"}","c":["d",{"e":"\ud83d\ude00"}]}`))
	f.Add([]byte(`{"a" : "b\\\"\u00e9\/", "c":[1,"",{"d":null,"e":"f"}],"g":{"h":["i\t"]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := string(Texts(b))
		want, ok := stringsOf(b)
		if ok && got != want {
			t.Errorf("got %q, want %q of %q", got, want, b)
		}
	})
}

// stringsOf reads the strings of JSON with the standard library. It returns false for invalid JSON,
// for arguments, which are decoded twice, and for half a surrogate pair, which the library
// replaces.
func stringsOf(b []byte) (all string, ok bool) {
	if !json.Valid(b) || !utf8.Valid(b) || bytes.Contains(b, []byte(`"arguments"`)) {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	var open []bool // whether each enclosing bracket is that of an object
	key := false    // the next string of an object is a key
	for {
		token, err := d.Token()
		if err != nil {
			return all, errors.Is(err, io.EOF) && !strings.Contains(all, "\uFFFD")
		}
		object := len(open) > 0 && open[len(open)-1]
		switch v := token.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				open = append(open, v == '{')
				key = v == '{'
				continue
			}
			open = open[:len(open)-1]
		case string:
			if object && key {
				key = false
				continue
			}
			all += v + "\n"
		}
		key = len(open) > 0 && open[len(open)-1]
	}
}
