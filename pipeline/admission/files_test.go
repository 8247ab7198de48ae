// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// TestShortenedJSONStrings compares the rules on JSON strings, as various clients write them, with the
// rules on the decoded text.
func TestShortenedJSONStrings(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	shorter := 0
	for range 2000 {
		text := numberedLines(random)
		for _, s := range []source{sourceRead, sourceWrite, sourceOther} {
			from, o := &origin{source: s, numbered: true}, &Options{}
			want := o.admitted(text, from)
			for _, body := range jsonStrings(t, text) {
				got := text
				if value := o.shortened(body, text, from); value != nil {
					got = content.Unquote(value)
					if !json.Valid(value) || len(value) >= len(body) {
						t.Fatalf("%s becomes %s", body, value)
					}
				}
				if got != want {
					t.Fatalf("%s: got\n%s\nwant\n%s", body, got, want)
				}
				if got != text {
					shorter++
				}
			}
		}
	}
	if shorter < 1000 {
		t.Errorf("got %d shorter texts", shorter)
	}
}

// TestUnpaddedKeepsEscapes makes sure that a file that was read keeps the client's escapes.
func TestUnpaddedKeepsEscapes(t *testing.T) {
	line := func(pad string, n int) string {
		return fmt.Sprintf(`%s%d\u2192if a \u003c b \/ \\n \"\u00e9\" {\n`, pad, n)
	}
	body, want := `"`, `"`
	for n := 1; n < 10; n++ {
		body, want = body+line("     ", n), want+line("", n)
	}
	if got := string(quoted.unpadded(body + `"`)); got != want+`"` {
		t.Errorf("got  %s\nwant %s", got, want+`"`)
	}
	for _, none := range []string{`""`, `"a"`, want + `"`, `"     1\tone\n     2\ttwo\n"`} {
		if got := quoted.unpadded(none); got != nil {
			t.Errorf("%s becomes %s", none, got)
		}
	}
}

// numberedLines returns runs of numbered lines, between other lines.
func numberedLines(random *rand.Rand) string {
	words := []string{"x", `\n`, `\`, "\"", "é", "→", "\t", " ", "\x1b", "<", "\r", `\\`, "0123456789", "\U0001F600"}
	var b strings.Builder
	for b.Len() < minAdmission {
		width, n, separator := random.IntN(8), random.IntN(12), []string{"\t", "→", ":"}[random.IntN(3)]
		for range random.IntN(14) {
			n++
			if random.IntN(30) == 0 {
				n++
			}
			fmt.Fprintf(&b, "%*d%s", width, n, separator)
			for range random.IntN(9) {
				b.WriteString(words[random.IntN(len(words))])
			}
			b.WriteByte('\n')
		}
		b.WriteString([]string{"", "other\n", "\n", "     \n", `  7\t` + "\n"}[random.IntN(5)])
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// jsonStrings encodes a text with the fewest escapes, as encoding/json does, and as clients that escape
// all non-ASCII characters.
func jsonStrings(t *testing.T, text string) [][]byte {
	t.Helper()
	plain, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var ascii []byte
	for _, r := range string(plain) {
		if r < utf8.RuneSelf {
			ascii = append(ascii, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			ascii = fmt.Appendf(ascii, `\u%04x`, unit)
		}
	}
	return [][]byte{content.Append(nil, text), plain, ascii}
}

func BenchmarkUnpadded(b *testing.B) {
	body := string(content.Append(nil, numberedFile(80)))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if got := quoted.unpadded(body); len(got) >= len(body) {
			b.Fatalf("got %d of %d bytes", len(got), len(body))
		}
	}
}
