// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func TestLinesAreTheQuotableOnes(t *testing.T) {
	line := "a line that is long enough to be quoted"
	code := "call(one, another_one, and_more);"
	var want []uint64
	for range 9 {
		want = append(want, Hash(line))
	}
	want = append(want, Hash(code))
	got, source := appendLines(nil, "  "+line+"\r\nshort\n\n  12→"+line+"\n13\t"+line+"\n14: "+line+
		"\n+    "+line+"\n-"+line+"\nsrc/lock file.rs:12\nsrc/lock.rs:12:  "+line+"\n13-  "+line+"\n  +"+line+"\n"+code)
	if !slices.Equal(got, want) || source != 1 {
		t.Errorf("%x, %d of source, want %x, 1", got, source, want)
	}
}

// TestSourceLines compares with a form that searches for the words themselves.
func TestSourceLines(t *testing.T) {
	random, parts := rand.New(rand.NewPCG(1, 2)), []string{"=", " ", "(", `"`, "a", " = ", `("`, ";"}
	source := 0
	for range 20_000 {
		line := "a"
		for range random.IntN(7) {
			line += parts[random.IntN(len(parts))]
		}
		want := strings.ContainsAny(line[len(line)-1:], "{}()[];,<>=") || strings.Contains(line, " = ") ||
			strings.Contains(line, `("`)
		if got := isSource(line); got != want {
			t.Fatalf("%q: got %t, want %t", line, got, want)
		}
		if want {
			source++
		}
	}
	if source == 0 || source == 20_000 {
		t.Errorf("%d lines look like source code", source)
	}
}

func TestLinesShownAgain(t *testing.T) {
	k := NewReferenceMaker()
	defer k.Release()
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "line %d of a file that is long enough\n", i)
	}
	trait := k.Result("id", "", text.String())
	first := slices.Clone(k.Sampled())
	k.Result("id", "", text.String()+"one more line that stands only here\n")
	again := k.Sampled()
	if n := CountMatches(trait, again); len(first) < 20 || n < len(first) || len(again) > len(first)+1 {
		t.Errorf("of %d and %d sampled lines %d are held", len(first), len(again), n)
	}
	other := k.Result("id", "", strings.ReplaceAll(text.String(), "file", "book"))
	if n := CountMatches(other, first); n > len(first)/4 {
		t.Errorf("%d of %d lines are held by a text that has none", n, len(first))
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
		m := NewMention(&wire.Turn{Text: text})
		if got := m.Of(newTrait([]uint64{Hash("frame.go")}, nil)); got != (text != "nothing") {
			t.Errorf("%q: %t", text, got)
		}
		m.Release()
	}
}

func TestContainingAgreesWithContainsLine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		lines := randomLines(r, n)
		trait, asked := newTrait([]uint64{1, 2}, lines), append(randomLines(r, 400), lines...)
		want := 0
		for _, line := range asked {
			if ContainsLine(trait, line) {
				want++
			}
		}
		if got := CountMatches(trait, asked); got != want || got < n {
			t.Errorf("of %d lines and 400 others %d, want %d", n, got, want)
		}
	}
}

// BenchmarkContaining searches 24 lines in each of 240 blocks, as the first request of a long
// conversation does for each of its blocks.
func BenchmarkContaining(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	traits := make([]sessioncache.Trait, 240)
	for i := range traits {
		traits[i] = newTrait([]uint64{1, 2}, randomLines(r, 60+r.IntN(80)))
	}
	lines := randomLines(r, 24*1000)
	i := 0
	for b.Loop() {
		for _, t := range traits {
			CountMatches(t, lines[i:i+24])
		}
		i = (i + 24) % len(lines)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(traits)*24), "ns/line")
}

func randomLines(r *rand.Rand, n int) []uint64 {
	lines := make([]uint64, n)
	for i := range lines {
		lines[i] = r.Uint64()
	}
	return lines
}

func BenchmarkLines(b *testing.B) {
	var text strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&text, "%6d\t%s\n", i, []string{
			"", "}", "	if err := store.Put(ctx, key, value); err != nil {", "		return fmt.Errorf(\"put %s: %w\", key, err)",
			"	// A comment of some length stands in front of it.", "	slices.Sort(names)",
		}[i%6])
	}
	b.SetBytes(int64(text.Len()))
	var hashes []uint64
	for b.Loop() {
		hashes, _ = appendLines(hashes[:0], text.String())
	}
}
