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
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
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
		for _, quoted := range []string{string(plain), ascii(s), string(appendText(nil, s))} {
			if got := unquote([]byte(quoted)); got != s {
				t.Errorf("%s: %q", quoted, got)
			}
		}
	}
	if got := unquote([]byte(`"broken \"`)); got != `broken \` {
		t.Errorf("a lone backslash at the end: %q", got)
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

func FuzzUnquote(f *testing.F) {
	f.Add("12→a line that is long enough\n\tanother \"one\" of the kind \u2192 here")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		for _, quoted := range []string{string(quote(s)), ascii(s), string(appendText(nil, s))} {
			if got := unquote([]byte(quoted)); got != s {
				t.Errorf("%s: %q", quoted, got)
			}
		}
	})
}

func TestLinesAreTheQuotableOnes(t *testing.T) {
	line := "a line that is long enough to be quoted"
	want := []uint64{hashOf(line), hashOf(line), hashOf(line), hashOf(line)}
	got := appendLines(nil, "  "+line+"\r\nshort\n\n  12→"+line+"\n13\t"+line+"\n14: "+line)
	if !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestTermSet(t *testing.T) {
	var s termSet
	for round := range 3 {
		want := map[uint64]bool{}
		for i := range uint64(2000) {
			h := i % 700 * uint64(round+1) << 40
			if s.has(h) != want[h] {
				t.Fatalf("round %d: %x: %t", round, h, !want[h])
			}
			s.add(h)
			want[h] = true
		}
		if s.has(1) || !s.has(0) {
			t.Errorf("round %d: what was not added is there, or the other way round", round)
		}
		s.clear()
	}
}

func TestMentionsAreClean(t *testing.T) {
	for _, text := range []string{"pipeline/frame.go says so", "nothing"} {
		m := newMention(&wire.Turn{Text: text})
		if got := m.of(newTrait([]uint64{hashOf("frame.go")}, nil)); got != (text != "nothing") {
			t.Errorf("%q: %t", text, got)
		}
		m.release()
	}
}

func TestDecisionString(t *testing.T) {
	for want, d := range map[string]planner.Decision{
		`epoch=none; candidates=3; folded=0; removed=0; rewritten=12; further=2; gain=-17; reason="no \"gain\""`: {Epoch: planner.NoEpoch, Reason: `no "gain"`, Candidates: 3, Rewritten: 12, Further: 2.4, Gain: -16.5001},
		`epoch=cold; candidates=0; folded=5; removed=900; rewritten=0; further=100000000; gain=+Inf`:             {Epoch: planner.Cold, Folded: 5, Removed: 900, Further: 1e8, Gain: math.Inf(1)},
	} {
		if got := d.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
