// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// linesOf are the hashes of a text, read from a JSON string of it.
func linesOf(t testing.TB, quoted string) (got, want []uint64) {
	t.Helper()
	raw := `{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":` + quoted + `}]}]}`
	view, err := wire.Parse(wire.Anthropic, []byte(raw), nil)
	if err != nil {
		t.Fatalf("%s: %v", quoted, err)
	}
	f := &frame{view: view, blocks: view.MessageBlocks()}
	got = f.appendLines(nil, 0)
	for line := range strings.Lines(textOf(view, &f.blocks[0])) {
		want = appendLine(want, line)
	}
	return got, want
}

func TestRawLinesAreTheLinesOfTheText(t *testing.T) {
	long := "func (h *Handler) Provision(ctx caddy.Context) error {"
	for _, s := range []string{
		long,
		long + "\n\t" + long + "\r\n\n" + long,
		"  12→" + long + "\n13\t" + long + "\n14:" + long + "\n15| " + long + "\n1234567890123456789012345",
		"\t\tif s == \"a quotation of some length\" {\n" + `C:\Users\somebody\go\src\module\file.go`,
		"ünïcödé in a line that is long enough → here\n😀 and a pair of surrogates in one more line",
		"\u0001\u0000 control characters in a long enough line\b\f",
		strings.Repeat("x", 24), strings.Repeat("x", 25), "", "\n",
	} {
		plain, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, quoted := range []string{string(plain), ascii(s)} {
			if got, want := linesOf(t, quoted); !slices.Equal(got, want) {
				t.Errorf("%s: %d lines %x, want %d %x", quoted, len(got), got, len(want), want)
			}
		}
	}
}

// ascii quotes a text as clients do that escape all that is not ASCII.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		q := string(quote(string(r)))
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

func FuzzRawLines(f *testing.F) {
	f.Add("12→a line that is long enough\n\tanother \"one\" of the kind \u2192 here")
	f.Fuzz(func(t *testing.T, s string) {
		for _, quoted := range []string{string(quote(s)), ascii(strings.ToValidUTF8(s, "?"))} {
			if got, want := linesOf(t, quoted); !slices.Equal(got, want) {
				t.Errorf("%s: %d lines, want %d", quoted, len(got), len(want))
			}
		}
	})
}
