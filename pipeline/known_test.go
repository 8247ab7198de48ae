// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
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
				edited += len(x.req.entries)
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

// TestKeptState: a conversation with the state kept from its last requests is decided and billed like
// one that is examined from the beginning each time: with rewinds, forks, changed messages, a new
// start from a summary, pauses, requests that end in another order, and lost answers.
func TestKeptState(t *testing.T) {
	for _, o := range []Options{
		{Planner: Planner{Need: hardly}}, {Policy: Eager}, {Policy: Observe, Planner: Planner{Need: hardly}},
	} {
		for _, rules := range []pricing.Rules{keeping, binding, stripping} {
			edited := 0
			for seed := range uint64(4) {
				random := rand.New(rand.NewPCG(49, seed))
				kept, scratch := newScript(t, o, rules), newScript(t, o, rules)
				kept.prompt("Fix the bug.")
				kept.head = `"max_tokens":9,`
				var known *wire.Known
				for i := range 70 {
					switch random.IntN(24) {
					case 0: // a rewind, or a fork
						kept.messages = kept.messages[:1+2*random.IntN(len(kept.messages)/2+1)]
					case 1: // a changed message
						at := random.IntN(len(kept.messages))
						kept.messages[at] = strings.Replace(kept.messages[at], " of the ", " of a ", 1)
					case 2: // the cache is cold
						kept.now = kept.now.Add(time.Hour)
					case 3:
						kept.final("Done.")
						kept.prompt("Go on.")
					case 4:
						if len(kept.messages) > 60 {
							kept.messages = nil
							kept.prompt("This is a summary of the conversation.")
						}
					}
					kept.turn(i, fmt.Sprintf("/src/file%d.go", random.IntN(8)), long(fmt.Sprint("f", random.IntN(8))), "thought")
					bodies := []string{kept.body()}
					if random.IntN(6) == 0 { // another request before the answer to the first
						kept.turn(100+i, "/src/other.go", long("other"))
						bodies = append(bodies, kept.body())
					}
					at, later, fate := kept.now, random.IntN(2), random.IntN(8)
					serve := func(s *script, recall func(wire.Hash) *wire.Known) (told []string) {
						var open []*Transaction
						for _, body := range bodies {
							v, err := wire.Parse(s.format, []byte(body), recall)
							if err != nil {
								t.Fatal(err)
							}
							if recall == nil {
								s.s.Lock()
								for id := range 100 {
									if l := s.s.Conversation(id); l != nil {
										l.SetEdited(nil)
									}
								}
								s.s.Unlock()
							} else {
								known = v.Known()
							}
							x := s.p.Begin(v, s.s, at)
							checkKnown(t, &x.req)
							checkSimulation(t, &x.req)
							edited += len(x.req.entries)
							open = append(open, x)
						}
						if later == 1 {
							slices.Reverse(open)
						}
						for _, x := range open {
							told = append(told, string(x.Prompt.Body.Bytes()), fmt.Sprintf("%+v %d", x.Decision, x.Prompt.SentTokens))
							if fate == 0 {
								x.Abandon()
								continue
							}
							n := int64(x.Prompt.Body.Len() / 4)
							answer := wire.Turn{
								Text: "unrelated words", Done: true,
								Usage: wire.Usage{Read: n * 3 / 4, Write5m: n - n*3/4, Output: 9, Reported: true},
							}
							x.Commit(&answer, at.Add(time.Second))
							told = append(told, fmt.Sprintf("%+v %+v", x.Bill(nil), x.Lesson))
							x.Close()
						}
						return told
					}
					got := serve(kept, func(wire.Hash) *wire.Known { return known })
					if want := serve(scratch, nil); !slices.Equal(got, want) {
						t.Fatalf("%s, seed %d, request %d: got\n%.300q\nwant\n%.300q", o.Policy, seed, i, got, want)
					}
					kept.now = at.Add(10 * time.Second)
				}
			}
			if edited == 0 {
				t.Errorf("%s: nothing was edited", o.Policy)
			}
		}
	}
}

// stripping are the rules of a provider that drops the thinking of earlier tasks.
var stripping = func() pricing.Rules {
	r := keeping
	r.KeepsThinking = false
	return r
}()

// checkSimulation: a run of messages ends alike by its summary and by its blocks.
func checkSimulation(t *testing.T, r *request) {
	t.Helper()
	for _, sent := range []bool{false, true} {
		s := newSimulation(billedRequest{
			View: r.View, States: r.States, Edited: r.entries, Rules: &r.rules, Calibration: &r.session.Calibration,
			Cache: new(sessioncache.CounterfactualCache), Sent: sent,
		})
		for n := range s.runs {
			got, want := s.passRun(n), s.readRun(n)
			if got.prefix != want.prefix || math.Abs(got.size-want.size) > 1e-6*want.size {
				t.Errorf("run %d, sent %t: got %+v, want %+v", n, sent, got, want)
			}
		}
	}
}

func checkKnown(t *testing.T, r *request) {
	t.Helper()
	var entries []int32
	var sent sessioncache.Sizes
	for i := range r.View.Blocks[:r.View.System] {
		sent[r.View.Blocks[i].Kind] += r.View.Blocks[i].Span.Len()
	}
	names := map[string]int{}
	for i := range r.Blocks {
		s := &r.States[i]
		sent[r.Blocks[i].Kind] += r.Sent(i)
		if s.Edit != nil || s.Inserted != nil || s.Missed {
			entries = append(entries, int32(i))
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
	if !slices.Equal(r.entries, entries) {
		t.Errorf("entries: got %v, want %v", r.entries, entries)
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

// BenchmarkKnown measures the requests of a growing conversation of a megabyte, from the decision to
// the commit, by how many turns the conversation has. The turns before take much longer: use -benchtime 200x.
func BenchmarkKnown(b *testing.B) {
	for _, turns := range []int{25, 250, 1000} {
		b.Run(fmt.Sprint(turns, " turns"), func(b *testing.B) {
			b.ReportAllocs()
			for left := b.N; left > 0; {
				b.StopTimer()
				s := newScript(b, Options{Planner: Planner{Need: DefaultNeed}}, keeping)
				s.prompt("Fix the build.")
				var known *wire.Known
				before := 0
				for i := 0; i < turns*5/4 && left > 0; i++ {
					result := strings.Repeat(fmt.Sprintf("func name%d(a, b int) (int, error) { return a*b, nil }\n", i), (1<<20)/turns/57)
					s.turn(i, fmt.Sprintf("/src/file%d.go", i%100), result)
					v, err := wire.Parse(s.format, []byte(s.body()), func(wire.Hash) *wire.Known { return known })
					if err != nil {
						b.Fatal(err)
					}
					if i >= turns {
						left--
						b.StartTimer()
					}
					x := s.p.Begin(v, s.s, s.now)
					n := x.Prompt.Body.Len() / 4
					x.Commit(&wire.Turn{Text: "Let me read it.", Done: true, Usage: wire.Usage{
						Read: int64(min(before, n)), Write5m: int64(max(n-before, 0)), Output: 90, Reported: true,
					}}, s.now)
					x.Close()
					b.StopTimer()
					known, before, s.now = v.Known(), n, s.now.Add(10*time.Second)
				}
			}
		})
	}
}
