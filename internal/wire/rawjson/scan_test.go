// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// TestValid compares the validator with JSONTestSuite, and with the standard library for cases that
// are implementation-defined.
func TestValid(t *testing.T) {
	cases, err := testkit.JSONCases()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 318 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		want := json.Valid([]byte(c.Text))
		if c.Name[0] != 'i' && want != (c.Name[0] == 'y') {
			t.Fatalf("%s: the standard library says %t", c.Name, want)
		}
		if Valid(c.Text) != want || ValidBytes([]byte(c.Text)) != want {
			t.Errorf("%s: not %t", c.Name, want)
		}
		if object := want && strings.HasPrefix(strings.TrimSpace(c.Text), "{"); ValidObject(c.Text) != object {
			t.Errorf("%s: an object: not %t", c.Name, object)
		}
	}
}

// TestValidDepth tests the limit, the limit plus one, and a depth that would overflow the stack of
// a recursive validator.
func TestValidDepth(t *testing.T) {
	for n, want := range map[int]bool{MaxDepth: true, MaxDepth + 1: false, 6_000_000: false} {
		for _, pair := range []string{"[]", "{}"} {
			open := pair[:1]
			if open == "{" {
				open = `{"":`
			}
			text := strings.Repeat(open, n-1) + pair + strings.Repeat(pair[1:], n-1)
			if Valid(text) != want || Valid(`{"output":`+text+`}`) != (want && n < MaxDepth) {
				t.Errorf("%d × %s: not %t", n, pair, want)
			}
		}
	}
}

func TestValidAllocates(t *testing.T) {
	text := `{"a":[1,2.5e3,"\u00e9",{"b":null}]}`
	if n := testing.AllocsPerRun(10, func() { _ = Valid(text) && ValidObject(text) && ValidBytes([]byte(nil)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzValid compares with the standard library, which has another depth limit.
func FuzzValid(f *testing.F) {
	cases, err := testkit.JSONCases()
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add(c.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if deep := strings.Count(text, "[")+strings.Count(text, "{") > MaxDepth; !deep &&
			Valid(text) != json.Valid([]byte(text)) {
			t.Errorf("Valid(%q) = %t", text, Valid(text))
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` +
		strings.Repeat("words and \\n more words, ", 8) + `"}}`
	for name, valid := range map[string]func(string) bool{"wire": Valid, "gjson": gjson.Valid} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if !valid(text) {
					b.Fatal(text)
				}
			}
		})
	}
}

func TestSkipDigits(t *testing.T) {
	for n := range 40 {
		for c := range 256 {
			b := append(bytes.Repeat([]byte("0918273645"), 4)[:n], byte(c))
			want := n
			if c >= '0' && c <= '9' {
				want++
			}
			b = append(b, "x12345678"...)
			if got := SkipDigits(b, 0); got != want {
				t.Fatalf("%d digits and %#x: %d", n, c, got)
			}
		}
	}
}

// TestSkipString puts quotes and backslashes at all distances around a word, and compares with a form
// that reads one byte at a time.
func TestSkipString(t *testing.T) {
	for before := range 40 {
		for between := range 20 {
			for _, pair := range [][2]string{{`\"`, `"`}, {`\\`, `\"`}, {`\\"`, `"`}, {`\\\"`, ""}, {"\x80", "\xa2\""}, {`\`, ""}} {
				text := `["` + strings.Repeat("a", before) + pair[0] + strings.Repeat("!", between) + pair[1]
				for _, text := range []string{text, text + `", "b"`} {
					want := -1
					for i := 2; i < len(text); i++ {
						if text[i] == '\\' {
							i++
						} else if text[i] == '"' {
							want = i + 1
							break
						}
					}
					if got := SkipString([]byte(text), 1); got != want {
						t.Fatalf("%s: got %d, want %d", text, got, want)
					}
				}
			}
		}
	}
}

// TestCrowdedCounts compares the early-stopping count with a simple one.
func TestCrowdedCounts(t *testing.T) {
	separator := func(n int) string { return strings.Repeat(",{[", n/3+1)[:n] }
	text := func(n int) string { return strings.Repeat("x", n) }
	for name, body := range map[string]string{
		"as many as may be": separator(MaxValues),
		"one more":          separator(MaxValues + 1),
		"behind text":       text(3<<20) + separator(MaxValues+1),
		"in front of text":  separator(MaxValues+1) + text(3<<20),
		"around text":       separator(MaxValues) + text(70<<10) + separator(1),
		"nearly":            separator(MaxValues) + text(5<<20),
		"text":              text(4 << 20),
		"short":             separator(100),
	} {
		n := 0
		for _, c := range separators {
			n += bytes.Count([]byte(body), []byte{c})
		}
		if got := Crowded([]byte(body)); got != (n > MaxValues) {
			t.Errorf("%s: %t with %d values", name, got, n)
		}
	}
}

// The end of a value is found without reading a byte twice.
func TestNestingReadsOnce(t *testing.T) {
	var n Nesting
	value := []byte("{\"a\":[\"" + strings.Repeat("x\\\"{", 1<<10) + "\"]}")
	last := len(value) - 1
	for p := range slices.Chunk(value[:last], 100) {
		if end, ok := n.Next(p); end >= 0 || !ok {
			t.Fatal("closed too early")
		}
	}
	if end, ok := n.Next(value[last:]); end != 1 || !ok {
		t.Fatalf("closed at %d", end)
	}
}
