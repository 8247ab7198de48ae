// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// used sets the usage of a response.
func used(turn wire.Turn, x *Transaction) *wire.Turn {
	prompt := int64(x.Prompt.Body.Len() / 4)
	turn.Usage = wire.Usage{Read: prompt / 2, Write5m: prompt - prompt/2, Output: 50, Reported: true}
	return &turn
}

// begin begins a request.
func (p *process) begin(k sessioncache.Key, body []byte, at time.Time) (*Transaction, *sessioncache.Session) {
	v, err := wire.Parse(wire.Anthropic, bytes.Clone(body),
		func(first wire.Hash) *wire.Known { return p.store.Recall(k.Tenant, first) })
	if err != nil {
		panic(err)
	}
	k.Request = v
	s := p.store.Acquire(p.t.Context(), k)
	return p.p.Begin(v, s, at), s
}

// intact returns an error for a request with forbidden changes.
func intact(client []byte, x *Transaction) error {
	if x.Prompt.Err != nil {
		return x.Prompt.Err
	}
	if !json.Valid(x.Prompt.Body.Bytes()) {
		return fmt.Errorf("not JSON: %s", x.Prompt.Body.Bytes())
	}
	shape := func(body []byte) (out []string) {
		gjson.GetBytes(body, "messages").ForEach(func(_, m gjson.Result) bool {
			out = append(out, m.Get("role").Str)
			n := 0
			m.Get("content").ForEach(func(_, b gjson.Result) bool {
				n++
				if kind := b.Get("type").Str; kind == "tool_use" || kind == "tool_result" {
					out = append(out, fmt.Sprint(b.Get("id"), b.Get("name"), b.Get("tool_use_id"), b.Get("is_error")))
				}
				return true
			})
			out = append(out, fmt.Sprint(n > 0))
			return true
		})
		return out
	}
	if !slices.Equal(shape(client), shape(x.Prompt.Body.Bytes())) {
		return fmt.Errorf("of another shape: %s", x.Prompt.Body.Bytes())
	}
	if n, clients := bytes.Count(x.Prompt.Body.Bytes(), []byte(`"cache_control"`)),
		bytes.Count(client, []byte(`"cache_control"`)); n < clients || n > 4 {
		return fmt.Errorf("%d markers in place of %d", n, clients)
	}
	return nil
}

// forms returns the sent forms of a request's blocks.
func forms(x *Transaction) (out []string) {
	for i := range x.req.States {
		s, form := &x.req.States[i], ""
		if s.Edit != nil && x.Prompt.Edited {
			form = fmt.Sprint(s.Edit.Op, string(s.Edit.Value))
		}
		out = append(out, fmt.Sprintf("%x %s", x.req.Blocks[i].Hash, form))
	}
	return out
}

var wanderings = map[string]pricing.Rules{
	"keeping": keeping, "binding": binding, "kv": {Regime: pricing.KV, Write: 1, KeepsThinking: true},
	"automatic": {
		Regime: pricing.Automatic, Write: 1, Read: 0.1, TTL: 5 * time.Minute, MinTokens: 1024,
		KeepsThinking: true,
	},
}

// Conversations branch, rewind, are summarized, and have concurrent requests, lost responses and
// refused edits. Blocks are always sent again in the same form, except after a deeper fold. A
// repeated request is sent in the same bytes, also under other options.
func TestWanderingsStayAsTheyWereSent(t *testing.T) {
	t.Parallel()
	type sent struct {
		forms  []string
		at     time.Time
		model  string
		expand expandTool
	}
	for name, rules := range wanderings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edited, deep := 0, 0
			for seed := range uint64(8) {
				w, p := newWanderer(seed), newProcess(t, rules, nil)
				w.sideRequests = true
				o := Options{Planner: Planner{Need: hardly}}
				p.p = New(o, p.p.rules)
				last := map[int]sent{} // by conversation
				var flying []func()
				for step := range 150 {
					c := w.next()
					body := w.body(c)
					if len(flying) == 0 && w.IntN(20) == 0 {
						o.Policy = []Policy{CostAware, Eager}[w.IntN(2)]
						o.Prune.Mode = []stage.Mode{stage.Auto, stage.On, stage.Off}[w.IntN(3)]
						o.StripThinking.Mode = o.Prune.Mode
						o.Admission.Mode = []stage.Mode{stage.On, stage.Off}[w.IntN(2)]
						p.p = New(o, p.p.rules)
					}
					x, s := p.begin(restoreKey, body, w.now)
					again, _ := p.begin(restoreKey, body, w.now)
					again.Abandon()
					p.store.Release(s)
					if !bytes.Equal(again.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()) {
						t.Fatalf("seed %d, step %d, again: %s", seed, step, difference(again.Prompt.Body.Bytes(), x.Prompt.Body.Bytes()))
					}
					if err := intact(body, x); err != nil {
						t.Fatalf("seed %d, step %d: %v", seed, step, err)
					}
					was, known := last[x.Conversation]
					if known && x.req.off == 0 && was.model == c.model && (rules.TTL == 0 || w.now.Sub(was.at) < rules.TTL) {
						now := forms(x)
						for i := range min(len(now), len(was.forms), x.req.match.Common, x.req.change.broken) {
							if now[i] != was.forms[i] {
								t.Fatalf("seed %d, step %d: block %d was sent as %s and is now %s", seed, step, i, was.forms[i], now[i])
							}
						}
						if x.req.offer.expand != was.expand {
							t.Fatalf("seed %d, step %d: the expand tool has come or gone", seed, step)
						}
					}
					if x.Prompt.Edited {
						edited++
					}
					if x.req.change.deep {
						deep++
					}
					turn, messages := w.answer()
					end, model := w.IntN(10), c.model
					finish := func() {
						switch end {
						case 0:
							x.Abandon()
						case 1:
							x.Rejected()
							x.Accepted(0)
							x.Commit(used(turn, x), w.now)
						default:
							x.Commit(used(turn, x), w.now)
						}
						if end > 0 {
							last[x.Conversation] = sent{forms(x), x.req.start, model, x.req.offer.expand}
						}
						p.store.Release(s)
					}
					if w.IntN(8) == 0 {
						flying = append(flying, finish)
					} else if finish(); end > 0 {
						c.messages = append(c.messages, messages...)
					}
					for len(flying) > 0 && w.IntN(2) == 0 {
						flying[0]()
						flying = flying[1:]
					}
				}
				_ = p.store.Close()
			}
			if edited == 0 || deep == 0 && name != "kv" {
				t.Errorf("%d requests were edited, %d of them deep", edited, deep)
			}
		})
	}
}

// In such conversations, a process with restarts at any time sends the same bytes as one without.
func TestRestartedWanderings(t *testing.T) {
	t.Parallel()
	for name, rules := range wanderings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				w, both := newWanderer(seed), []*process{newProcess(t, rules, nil), newProcess(t, rules, new(storetest.Shelf))}
				w.sideRequests = true
				for _, p := range both {
					p.p = New(Options{Planner: Planner{Need: hardly}}, p.p.rules)
				}
				both[0].store.Acquire(t.Context(), restoreKey) // in use all the time
				for step := range 100 {
					c := w.next()
					if w.IntN(5) == 0 {
						both[1].restart()
					}
					turn, messages := w.answer()
					want := both[0].send(w.body(c), turn, w.now, nil)
					if got := both[1].send(w.body(c), turn, w.now, nil); !bytes.Equal(got, want) {
						t.Fatalf("seed %d, step %d: %s", seed, step, difference(got, want))
					}
					c.messages = append(c.messages, messages...)
				}
				for _, p := range both {
					_ = p.store.Close()
				}
			}
		})
	}
}

// ask begins a request as a handler does: an earlier claim of another process counts.
func (p *process) ask(body []byte, at time.Time) (*Transaction, *sessioncache.Session) {
	x, s := p.begin(restoreKey, body, at)
	if !x.Claim(p.t.Context(), p.store) {
		x.Abandon()
		x = p.p.Begin(x.req.View, s, at)
		x.Claim(p.t.Context(), p.store)
	}
	return x, s
}

// Several processes, killed now and then, send the same bytes as a single one, with any beginnings,
// branches and refusals.
func TestWanderingFleets(t *testing.T) {
	t.Parallel()
	for name, rules := range wanderings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range []uint64{0, 1, 2, 3, 4, 28} { // the last has a prompt that is repeated elsewhere
				w, shelf := newWanderer(seed), new(storetest.SharedShelf)
				begin := func(p *process) *process {
					p.p = New(Options{Policy: Eager}, p.p.rules)
					return p
				}
				alone := begin(newProcess(t, rules, nil))
				alone.store.Acquire(t.Context(), restoreKey) // in use all the time
				nodes := []*process{begin(node(t, rules, shelf)), begin(node(t, rules, shelf)), begin(node(t, rules, shelf))}
				for step := range 100 {
					c := w.next()
					body, at := w.body(c), w.IntN(len(nodes))
					if w.IntN(10) == 0 { // killed
						nodes[at] = begin(node(t, rules, shelf))
					}
					turn, messages := w.answer()
					refused := w.IntN(15) == 0
					var sent [2][]byte
					for i, p := range []*process{alone, nodes[at]} {
						x, s := p.ask(body, w.now)
						if sent[i] = x.Prompt.Body.Bytes(); refused {
							x.Rejected()
						}
						x.Commit(used(turn, x), w.now)
						p.store.Release(s)
					}
					nodes[at].store.Flush()
					if !bytes.Equal(sent[0], sent[1]) {
						t.Fatalf("seed %d, step %d: %s", seed, step, difference(sent[1], sent[0]))
					}
					c.messages = append(c.messages, messages...)
				}
				_ = alone.store.Close()
			}
		})
	}
}

// Concurrent requests of the same conversations, in two processes, with pings, publication, reports
// and deletion. It is for the race detector.
func TestWanderingsAtOnce(t *testing.T) {
	rules := keeping
	shelf := new(storetest.SharedShelf)
	nodes := []*process{node(t, rules, shelf), node(t, rules, shelf)}
	after, hot := 3, 1
	for _, n := range nodes {
		n.p = New(Options{
			Policy: Eager, Prune: Prune{After: &after},
			Zones: Zones{Frozen: new(int), Hot: &hot, MinMessages: new(int)},
		}, n.p.rules)
	}
	var all sync.WaitGroup
	end := time.Now().Add(time.Second)
	for g := range uint64(4) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(g, 3))
			for time.Now().Before(end) {
				branch := rng.Uint64N(3) // which others share
				w := newWanderer(branch)
				w.calls = 1000 * int(branch)
				c := w.begin()
				c.messages[0] = userPrompt("Fix the bug.")
				for range 25 {
					n := nodes[rng.IntN(2)]
					body := w.body(c)
					x, s := n.begin(sessioncache.Key{Tenant: restoreKey.Tenant, Upstream: "u", ID: fmt.Sprint(rng.IntN(2))}, body,
						time.Now())
					store := n.store
					x.Claim(t.Context(), store)
					if err := intact(body, x); err != nil {
						t.Error(err)
					}
					turn, messages := w.answer()
					switch rng.IntN(10) {
					case 0:
						x.Abandon()
					case 1:
						x.Rejected()
						x.Commit(used(turn, x), time.Now())
					default:
						x.Join(&turn)
						store.Keep(s)
						store.Publish(s)
						x.Commit(used(turn, x), time.Now())
						x.Idle(&turn)
						x.Close()
						store.Publish(s)
					}
					store.Release(s)
					c.messages = append(c.messages, messages...)
				}
			}
		})
	}
	all.Go(func() {
		rng := rand.New(rand.NewPCG(9, 9))
		for time.Now().Before(end) {
			store := nodes[rng.IntN(2)].store
			for _, s := range store.Page(sessioncache.Newest, 10) {
				s.KeepWarm(rng.IntN(3), time.Now())
				s.SetLifetime(sessioncache.Lifetime(rng.IntN(3)))
				s.Report(time.Now())
				store.Owns(t.Context(), s, rng.IntN(3))
				if rng.IntN(50) == 0 {
					store.Delete(s.ID())
				}
			}
			store.Flush()
		}
	})
	all.Wait()
}
