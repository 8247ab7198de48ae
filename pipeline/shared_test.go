// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// node is one of several processes that share a backend.
func node(t *testing.T, rules pricing.Rules, shelf *storetest.SharedShelf) *process {
	t.Helper()
	p := &process{t: t, p: New(Options{}, func(string, time.Time) pricing.Rules { return rules })}
	var err error
	p.store, err = sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
		Open:     func() (sessioncache.Backend, error) { return shelf, nil },
		Interval: time.Hour, Budget: time.Minute, Failed: func(what string, err error) { t.Errorf("%s: %v", what, err) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// With recorded conversations, several processes send the same bytes as a single one. Any of them
// may get the next request, and any may end after it.
func TestSharedProcessesSendTheSame(t *testing.T) {
	conversations := readRecorded(t)
	most := 250
	if testing.Short() {
		conversations, most = conversations[:4], 120
	}
	for half, name := range []string{"binding", "keeping"} { // each has its own half of the conversations
		rules := map[string]pricing.Rules{"binding": binding, "keeping": keeping}[name]
		t.Run(name, func(t *testing.T) {
			folded, moves, gone, requests := 0, 0, 0, 0
			for n, c := range conversations {
				if n%2 != half {
					continue
				}
				random := rand.New(rand.NewPCG(2, uint64(n)))
				shelf := new(storetest.SharedShelf)
				alone := newProcess(t, rules, nil)
				nodes := []*process{node(t, rules, shelf), node(t, rules, shelf), node(t, rules, shelf), node(t, rules, shelf)}
				at, last := 0, int64(0)
				r := replayedOf(c, most)
				for i, body := range r.bodies {
					if to := random.IntN(len(nodes)); to != at {
						nodes[to].last = last
						at = to
						moves++
					}
					if random.IntN(10) == 0 { // killed: it writes nothing more
						nodes[at] = node(t, rules, shelf)
						nodes[at].last = last
						gone++
					}
					want := alone.send(body, r.answers[i], r.at[i], nil)
					got := nodes[at].send(body, r.answers[i], r.at[i], nil)
					if !bytes.Equal(got, want) {
						t.Fatalf("%s, request %d: %s", c.file, i, difference(got, want))
					}
					last = nodes[at].last
					requests++
					if bytes.Count(got, []byte("[[llm_cache:folded")) > 1 { // one is in the tool
						folded++
					}
				}
				_ = alone.store.Close()
			}
			if folded == 0 || moves == 0 || gone == 0 {
				t.Fatalf("%d requests, %d with folds, %d moves, %d killed", requests, folded, moves, gone)
			}
			t.Logf("%d requests, %d with folds, %d moves, %d killed", requests, folded, moves, gone)
		})
	}
}

// Of two processes with the same request at once, the first to claim it decides the form in which
// both send it.
func TestFirstClaimWins(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := node(t, keeping, shelf), node(t, keeping, shelf)
	after := 1
	for p, o := range map[*process]Options{one: {
		CompactToolResults: CompactToolResults{Mode: stage.Off},
		Prune:              Prune{After: &after},
	}, other: {Prune: Prune{Mode: stage.Off}}} {
		o.Policy, o.Zones = Eager, Zones{Frozen: new(int), Hot: &after, MinMessages: new(int)}
		p.p = New(o, p.p.rules)
	}
	var body []byte
	body = append(body, `{"model":"m","messages":[{"role":"user","content":"Fix the build."}`...)
	for i := range 12 {
		body = fmt.Appendf(body,
			`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Read",`+
				`"input":{"file_path":"/src/file%d.go"}}]}`, i, i)
		body = fmt.Appendf(body, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%d","content":%q}]}`,
			i, strings.Repeat("a line of the file\n", 300))
	}
	body = append(body, "]}"...)
	begin := func(p *process) (*Transaction, *sessioncache.Session) {
		v, err := wire.Parse(wire.Anthropic, bytes.Clone(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := p.store.Acquire(t.Context(), restoreKey)
		return p.p.Begin(v, s, time.Unix(1e9, 0)), s
	}
	x, _ := begin(one)
	y, s := begin(other) // before the first has claimed
	if bytes.Equal(x.Prompt.Body.Bytes(), y.Prompt.Body.Bytes()) || !x.Prompt.Edited || !y.Prompt.Edited {
		t.Fatal("both decide alike: nothing is tested")
	}
	if !x.Claim(t.Context(), one.store) {
		t.Fatal("the first has lost")
	}
	if y.Claim(t.Context(), other.store) {
		t.Fatal("the second is not told that it was late")
	}
	y.Abandon()
	again := other.p.Begin(y.req.View, s, time.Unix(1e9, 0))
	if !again.Claim(t.Context(), other.store) {
		t.Error("what was decided anew is late again")
	}
	edits := 0
	for i := range x.req.States {
		won := x.req.States[i].Edit
		if won == nil {
			continue
		}
		edits++
		if e := again.req.States[i].Edit; e == nil || !bytes.Equal(e.Value, won.Value) {
			t.Errorf("block %d: the second sends another form than the first", i)
		}
	}
	if edits == 0 {
		t.Error("nothing was edited")
	}
}

// With recorded conversations, a repeat after a lost response changes nothing in the bytes sent
// from then on.
func TestAskedAgain(t *testing.T) {
	conversations, again := readRecorded(t)[:6], 0
	for n, c := range conversations {
		random := rand.New(rand.NewPCG(3, uint64(n)))
		shelf := new(storetest.SharedShelf)
		alone := newProcess(t, keeping, nil)
		nodes := []*process{node(t, keeping, shelf), node(t, keeping, shelf)}
		for _, p := range append(nodes, alone) {
			after, hot := 6, 1
			p.p = New(Options{
				Policy: Eager, Prune: Prune{After: &after},
				Zones: Zones{Frozen: new(int), Hot: &hot, MinMessages: new(int)},
			}, p.p.rules)
		}
		last := int64(0)
		r := replayedOf(c, 100)
		for i, body := range r.bodies {
			want := alone.send(body, r.answers[i], r.at[i], nil)
			times := 1
			if random.IntN(5) == 0 {
				times++
				again++
			}
			for range times {
				p := nodes[random.IntN(len(nodes))]
				p.last = last
				if got := p.send(body, r.answers[i], r.at[i], nil); !bytes.Equal(got, want) {
					t.Fatalf("%s, request %d: %s", c.file, i, difference(got, want))
				}
			}
			last = alone.last
		}
		_ = alone.store.Close()
	}
	if again == 0 {
		t.Error("nothing was asked again")
	}
}
