// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

func TestUnquoteWithEscapesNearTheBounds(t *testing.T) {
	long := "func (h *Handler) Provision(ctx caddy.Context) error {"
	for _, s := range []string{
		long,
		long + "\n\t" + long + "\r\n\n" + long,
		"\t\tif s == \"a quotation of some length\" {\n" + `C:\Users\somebody\go\src\module\file.go`,
		`\`, `\\`, "\n", "\n\n\n\n\n\n\n\n\n", `1234567\`, `12345678\`, `123456789\9`, "a\tb\tc\td",
		"ünïcödé in a line → here\n😀 and a pair of surrogates in one more line",
		"\u0001\u0000 control characters\b\f and more behind\n", strings.Repeat("x", 24), "",
	} {
		plain, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, quoted := range []string{string(plain), ascii(s), string(Append(nil, s))} {
			if got := Unquote([]byte(quoted)); got != s {
				t.Errorf("%s: %q", quoted, got)
			}
		}
	}
	if got := Unquote([]byte(`"broken \"`)); got != `broken \` {
		t.Errorf("a lone backslash at the end: %q", got)
	}
}

// ascii quotes a text as clients do that escape all non-ASCII characters.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		q := string(Quote(string(r)))
		if r < 0x80 {
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			b.WriteString(`\u` + strconv.FormatUint(0x10000+uint64(u), 16)[1:])
		}
	}
	return `"` + b.String() + `"`
}

func FuzzUnquote(f *testing.F) {
	f.Add(`a\ud83d\ude00 \u00e9\ud83dx\ud83d\u0041\uD83D\b\f\/\u001b[0m`)
	f.Add("12→a line that is long enough\n\tanother \"one\" of the kind \u2192 here")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		for _, quoted := range []string{string(Quote(s)), ascii(s), string(Append(nil, s))} {
			if got := Unquote([]byte(quoted)); got != s {
				t.Errorf("%s: %q", quoted, got)
			}
		}
		if quoted := `"` + s + `"`; json.Valid([]byte(quoted)) { // including halves of pairs
			if got, want := Unquote([]byte(quoted)), gjson.Parse(quoted).Str; got != want {
				t.Errorf("%s: %q, want %q", quoted, got, want)
			}
		}
	})
}

// TestAppend puts every byte, and runes cut short, at every offset of a word, and compares with a form
// that reads one rune at a time.
func TestAppend(t *testing.T) {
	special := []string{"\"\"", "\\\"", "\n\t", "é", "\U0001F600\n", "\U0001F600"[:3], "é"[:1] + "\"", "\uFFFD", "\x80\x80"}
	for c := range 256 {
		special = append(special, string([]byte{byte(c)}))
	}
	for _, what := range special {
		for offset := range 17 {
			text := strings.Repeat("a", offset) + what + strings.Repeat("~", 9)
			if got, want := string(Append([]byte("["), text)), "["+quotedByRune(text); got != want {
				t.Errorf("%q: got %s, want %s", text, got, want)
			}
		}
	}
}

func quotedByRune(text string) string {
	out := []byte{'"'}
	for _, r := range text {
		switch i := strings.IndexRune("\"\\\n\t\r", r); {
		case i >= 0:
			out = append(out, '\\', `"\ntr`[i])
		case r < ' ':
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(append(out, '"'))
}

func TestQuotesMarks(t *testing.T) {
	for body, want := range map[string]bool{
		`"` + StubFrame + `1f3a9c27: Read /src/a.go]]"`: true,
		`"\u005bllm_cache: 3 lines left out]"`:          true,
		`"_cache: llm_cache:"`:                          true,
		`"llm_cache_cache:"`:                            false,
		`"llm_cache"`:                                   false,
		`"_cache: x"`:                                   false,
		"_cache:":                                       false,
		`"` + CompactedNote + `9 lines]"`:               true,
		`"Compacted:"`:                                  false,
		`"` + ClearedPlaceholder + `"`:                  true,
		`"Old tool result content"`:                     false,
		"":                                              false,
	} {
		for _, around := range []string{"", strings.Repeat("Old l_cache Com", 9)} {
			if got := QuotesMarks([]byte(around + body + around)); got != want {
				t.Errorf("%s: got %t, want %t", around+body+around, got, want)
			}
		}
	}
}

func TestUnwrapped(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"text", "text"},
		{"text\n<system-reminder>\n1\n</system-reminder>\n\n<system-reminder>\n2\n</system-reminder>\n", "text"},
		{
			"text <system-reminder>not at the end</system-reminder> more",
			"text <system-reminder>not at the end</system-reminder> more",
		},
		{"open</system-reminder>", "open</system-reminder>"},
		{"Chunk ID: 81c\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\ntext\n", "text"},
		{"Wall time: 0.1 seconds\nno more", "Wall time: 0.1 seconds\nno more"},
		{"Output: text\nProcess Group PGID: 4711", "Output: text"},
		{"Process Group PGID: none", "Process Group PGID: none"},
	} {
		if got := Essence(c.in); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for _, s := range []string{"", "plain", "a\nb\tc\r\"\\/", "\\", "ü → 日本", "tail\\", strings.Repeat("x\n", 1000)} {
		raw, _ := json.Marshal(s)
		if got := Unquote(raw); got != s {
			t.Errorf("%s: got %q, want %q", raw, got, s)
		}
	}
	for raw, want := range map[string]string{`"a\u00e9b\n"`: "aéb\n", `"\ud83d\ude00 x"`: "😀 x", `"\b\f"`: "\b\f"} {
		if got := Unquote([]byte(raw)); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}
