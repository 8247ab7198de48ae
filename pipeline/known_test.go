// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// TestKnownBlocks: the passes over known blocks that look at some of them find the same as passes
// over all, in conversations with rewinds, repetitions and changed messages.
func TestKnownBlocks(t *testing.T) {
	for _, policy := range []Policy{CostAware, Eager} {
		edited := 0
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(49, seed))
			s := newScript(t, Options{Policy: policy}, keeping)
			s.head = `"max_tokens":9,`
			s.prompt("Fix the bug.")
			for i := range 40 {
				switch random.IntN(10) {
				case 0: // a rewind
					s.messages = s.messages[:1+2*random.IntN(len(s.messages)/2+1)]
				case 1: // a changed message
					at := random.IntN(len(s.messages))
					s.messages[at] = strings.Replace(s.messages[at], " of the ", " of a ", 1)
				case 2: // the cache is cold
					s.now = s.now.Add(time.Hour)
				}
				s.turn(i, fmt.Sprintf("/src/file%d.go", random.IntN(8)), long(fmt.Sprint("f", random.IntN(8))))
				x := s.send(wire.Turn{Text: "unrelated words", Done: random.IntN(8) > 0})
				checkKnown(t, &x.req)
				edited += len(x.req.edited)
			}
		}
		if edited == 0 {
			t.Errorf("%s: nothing was edited", policy)
		}
	}
}

// TestKnownBlocksRecorded is TestKnownBlocks with recorded conversations, in which folded texts return.
func TestKnownBlocksRecorded(t *testing.T) {
	returned := 0
	for _, c := range readRecorded(t)[:6] {
		s := newScript(t, Options{Planner: Planner{Need: DefaultNeed}}, keeping)
		r := replayedOf(c, 150)
		for i, body := range r.bodies {
			v, err := wire.Parse(s.format, body, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := s.p.Begin(v, s.s, r.at[i])
			checkKnown(t, &x.req)
			returned += len(returnedBlocks(&x.req.History, x.req.stubName))
			x.Commit(&r.answers[i], r.at[i])
		}
	}
	if returned == 0 {
		t.Error("no folded text returned")
	}
}

func checkKnown(t *testing.T, r *request) {
	t.Helper()
	var edited []int32
	var sent sessioncache.Sizes
	for i := range r.View.Blocks[:r.View.System] {
		sent[r.View.Blocks[i].Kind] += r.View.Blocks[i].Span.Len()
	}
	names := map[string]int{}
	for i := range r.Blocks {
		s := &r.States[i]
		sent[r.Blocks[i].Kind] += r.Sent(i)
		if s.Edit != nil || s.Inserted != nil {
			edited = append(edited, int32(i))
		}
		if s.Inserted != nil {
			sent[wire.KindToolResult] += s.Inserted.Size()
		}
		if folded(s) {
			names[r.stubName(i)] = i
		}
		if got, want := i >= r.firstMay(), r.may(i); got != want {
			t.Errorf("block %d may be edited: got %t, want %t", i, got, want)
		}
	}
	if r.offer.expand == expandDeclared {
		sent[wire.KindToolDef] += len(r.expandDefinition())
	}
	if !slices.Equal(r.edited, edited) {
		t.Errorf("edited blocks: got %v, want %v", r.edited, edited)
	}
	if r.sizing.sent != sent {
		t.Errorf("sizes: got %v, want %v", r.sizing.sent, sent)
	}
	want := map[int][]int{}
	for i := range r.States {
		if e := r.States[i].Edit; e != nil && strings.Contains(string(e.Value), ReturnedFrame) {
			for _, after := range strings.Split(string(e.Value), ReturnedFrame)[1:] {
				if j, ok := names[after[:content.IDLen]]; ok {
					want[i] = append(want[i], j)
				}
			}
		}
	}
	if got := returnedBlocks(&r.History, r.stubName); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("returned blocks: got %v, want %v", got, want)
	}
}

// BenchmarkKnown measures a request of a known conversation of a megabyte, from the decision to the
// commit, by how many turns the conversation has.
func BenchmarkKnown(b *testing.B) {
	for _, turns := range []int{25, 250, 1000} {
		s := newScript(b, Options{}, binding)
		result := strings.Repeat("func name(a, b int) (int, error) { return a*b, nil }\n", (1<<20)/turns/53)
		s.prompt("Fix the build.")
		for i := range turns {
			s.turn(i, fmt.Sprintf("/src/file%d.go", i), result)
		}
		raw := []byte(s.body())
		answer := wire.Turn{Text: "unrelated words", Done: true, Usage: wire.Usage{Read: 250_000, Output: 9, Reported: true}}
		var known *wire.Known
		serve := func() {
			v, err := wire.Parse(s.format, raw, func(wire.Hash) *wire.Known { return known })
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			x := s.p.Begin(v, s.s, s.now)
			x.Commit(&answer, s.now)
			x.Close()
			b.StopTimer()
			known = v.Known()
		}
		b.Run(fmt.Sprint(turns, " turns"), func(b *testing.B) {
			b.ReportAllocs()
			serve()
			b.ResetTimer()
			for range b.N {
				serve()
			}
		})
	}
}
