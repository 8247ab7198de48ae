// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

// process is a pipeline with its store, which can stop and start again.
type process struct {
	t     *testing.T
	p     *Pipeline
	shelf *storetest.Shelf // nil for a process that never stops
	store *sessioncache.Store

	last   int64 // length of the last prompt
	blocks int   // number of blocks in the last request
}

func newProcess(t *testing.T, rules pricing.Rules, shelf *storetest.Shelf) *process {
	t.Helper()
	p := &process{t: t, shelf: shelf, p: New(Options{}, func(string, time.Time) pricing.Rules { return rules })}
	p.start()
	return p
}

func (p *process) start() {
	var err error
	if p.shelf == nil {
		p.store, err = sessioncache.New(sessioncache.Options{})
	} else {
		p.store, err = sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
			Open:     func() (sessioncache.Backend, error) { return p.shelf, nil },
			Interval: time.Hour, Budget: time.Minute, Failed: func(what string, err error) { p.t.Errorf("%s: %v", what, err) },
		}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) restart() {
	if err := p.store.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.start()
}

// size returns the snapshot's bytes per block, 0 for a short conversation.
func (p *process) size() float64 {
	const long = 50
	if p.blocks < long {
		return 0
	}
	return float64(len(p.shelf.Records()[restoreKey.Digest()].Snapshot)) / float64(p.blocks)
}

var restoreKey = sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: "s"}

// send sends one request. It calls before with the edits decided; if before returns false, the
// process ends before the response.
func (p *process) send(body []byte, answer wire.Turn, at time.Time, before func() bool) []byte {
	v, err := wire.Parse(wire.Anthropic, bytes.Clone(body), func(first wire.Hash) *wire.Known {
		return p.store.Recall(restoreKey.Tenant, first)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	s := p.store.Acquire(p.t.Context(), restoreKey)
	x := p.p.Begin(v, s, at)
	if x.Prompt.Err != nil {
		p.t.Fatal(x.Prompt.Err)
	}
	x.Claim(p.t.Context(), p.store)
	if before != nil && !before() {
		return x.Prompt.Body.Bytes()
	}
	prompt := int64(x.Prompt.Body.Len() / 4)
	answer.Usage = wire.Usage{Read: min(p.last, prompt), Write5m: max(prompt-p.last, 0), Output: 100, Reported: true}
	p.last, p.blocks = prompt, len(v.Blocks)
	x.Commit(&answer, at.Add(5*time.Second))
	p.store.Release(s)
	if p.shelf == nil {
		p.store.Flush() // there is time for it between two turns
	}
	return x.Prompt.Body.Bytes()
}

// replayed is a recorded conversation, request by request.
type replayed struct {
	bodies  [][]byte
	answers []wire.Turn
	at      []time.Time
}

func replayedOf(c recorded, most int) (out replayed) {
	const marker = `,"cache_control":{"type":"ephemeral"}`
	begin := `{"model":"m","system":[{"type":"text","text":"` + strings.Repeat("Be helpful. ", 800) + `"` + marker +
		`}],"tools":[{"name":"Read"},{"name":"Edit"}],"messages":[`
	var messages []byte
	for i, entry := range c.calls {
		for _, m := range entry {
			if len(messages) > 0 {
				messages = append(messages, ',')
			}
			messages = append(messages, m...)
			if i > 0 && gjson.GetBytes(m, "role").Str == "assistant" {
				out.answers = append(out.answers[:min(len(out.answers), i-1)], answerOf(m))
			}
		}
		if len(out.answers) < i {
			out.answers = append(out.answers, wire.Turn{Done: true})
		}
		if i == most {
			break
		}
		body := append([]byte(begin), messages...)
		if bytes.HasSuffix(body, []byte("}]}")) {
			body = append(body[:len(body)-3], marker+"}]}"...)
		}
		out.bodies = append(out.bodies, append(body, "]}"...))
		pause := 20 * time.Second
		if i%40 == 39 {
			pause = 20 * time.Minute // the cache is cold
		}
		at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		if i > 0 {
			at = out.at[i-1].Add(pause)
		}
		out.at = append(out.at, at)
	}
	for len(out.answers) < len(out.bodies) {
		out.answers = append(out.answers, wire.Turn{Done: true})
	}
	return out
}

func answerOf(message json.RawMessage) wire.Turn {
	t := wire.Turn{Done: true}
	gjson.GetBytes(message, "content").ForEach(func(_, b gjson.Result) bool {
		switch b.Get("type").Str {
		case "text":
			t.Text += b.Get("text").Str
		case "thinking":
			t.Thinking += b.Get("thinking").Str
		case "tool_use":
			t.Calls = append(t.Calls, wire.Call{ID: b.Get("id").Str, Name: b.Get("name").Str, Arguments: b.Get("input").Raw})
		}
		return true
	})
	return t
}

// With recorded conversations, a process with restarts at any time sends the same bytes as one
// without.
func TestRestartedProcessGoesOnTheSame(t *testing.T) {
	goOnTheSame(t, func(t *testing.T, goOn func(outlives bool, happens func(*process))) {
		var sizes []float64 // bytes of a snapshot per block
		goOn(true, func(p *process) {
			p.restart()
			if size := p.size(); size > 0 {
				sizes = append(sizes, size)
			}
		})
		slices.Sort(sizes)
		t.Logf("bytes a block: median %.1f, 95 %% below %.1f, worst %.1f", sizes[len(sizes)/2], sizes[len(sizes)*95/100],
			sizes[len(sizes)-1])
		if worst := sizes[len(sizes)-1]; worst > 100 {
			t.Errorf("a snapshot takes %.1f bytes a block", worst)
		}
	})
}

// Sessions packed while idle send the same bytes as others.
func TestUnusedSessionsGoOnTheSame(t *testing.T) {
	goOnTheSame(t, func(t *testing.T, goOn func(outlives bool, happens func(*process))) {
		synctest.Test(t, func(t *testing.T) {
			packed := 0
			goOn(false, func(p *process) {
				before := p.store.Stats().Bytes
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if p.store.Stats().Bytes < before {
					packed++
				}
			})
			if packed == 0 {
				t.Error("nothing was packed")
			}
			t.Logf("packed %d times", packed)
		})
	})
}

// goOnTheSame sends recorded conversations through a process with random events and through one
// without, and compares the bytes.
func goOnTheSame(t *testing.T, test func(t *testing.T, goOn func(outlives bool, happens func(*process)))) {
	conversations := readRecorded(t)
	most := 250
	if testing.Short() {
		conversations, most = conversations[:4], 120
	}
	for half, name := range []string{"binding", "keeping"} { // each has its own half of the conversations
		rules := map[string]pricing.Rules{"binding": binding, "keeping": keeping}[name]
		t.Run(name, func(t *testing.T) {
			test(t, func(outlives bool, happens func(*process)) {
				folded, happened, requests := 0, 0, 0
				for n, c := range conversations {
					if n%2 != half {
						continue
					}
					random := rand.New(rand.NewPCG(1, uint64(n)))
					never := newProcess(t, rules, nil)
					never.store.Acquire(t.Context(), restoreKey) // in use all the time
					var shelf *storetest.Shelf
					if outlives {
						shelf = new(storetest.Shelf)
					}
					again := newProcess(t, rules, shelf)
					r := replayedOf(c, most)
					for i, body := range r.bodies {
						if random.IntN(4) == 0 {
							happens(again)
							happened++
						}
						want := never.send(body, r.answers[i], r.at[i], nil)
						got := again.send(body, r.answers[i], r.at[i], nil)
						if !bytes.Equal(got, want) {
							t.Fatalf("%s, request %d: %s", c.file, i, difference(got, want))
						}
						requests++
						if bytes.Count(got, []byte("[[llm_cache:folded")) > 1 { // one is in the tool
							folded++
						}
					}
					_ = never.store.Close()
					_ = again.store.Close()
				}
				if folded == 0 || happened == 0 {
					t.Fatalf("%d requests, %d with folds, %d times something happened", requests, folded, happened)
				}
				t.Logf("%d requests, %d with folds, %d times something happened", requests, folded, happened)
			})
		})
	}
}

func difference(a, b []byte) string {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	part := func(x []byte) string { return string(x[max(0, min(n-80, len(x))):min(n+120, len(x))]) }
	return fmt.Sprintf("from byte %d of %d and %d on:\n%s\nand\n%s", n, len(a), len(b), part(a), part(b))
}
