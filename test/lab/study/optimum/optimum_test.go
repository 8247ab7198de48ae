// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package optimum

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/agent"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Five requests, all but the first warm: each reads the previous one. A token
// costs 0.1 read and 1.25 otherwise. The result r may be folded from request 2
// on, which saves 900 tokens and leaves 100. The blocks a, b and c behind it have
// 100 tokens each.
//
//	request   0    1    2      3        4
//	holds     p    p r  p r a  p r a b  p r a b c
func byHand() *stretch {
	s := &stretch{items: []item{
		{tokens: 500, ripe: never},
		{tokens: 1000, saves: 900, ripe: 2},
		{tokens: 100, ripe: never},
		{tokens: 100, ripe: never},
		{tokens: 100, ripe: never},
	}}
	for i := range 5 {
		s.asks = append(s.asks, ask{items: i + 1, read: i, warm: 0.1, rest: 1.25})
	}
	return s
}

func TestOptimumByHand(t *testing.T) {
	// Folding r at request 2 saves 900 tokens read there, at 3 and at 4: 270. The remaining 100 of
	// r are written again at 1.15 more than reading: 115.
	s := byHand()
	s.check(t, []int{0, 1, 2, 3, 4}, 270-115, 1)

	// At request 3 it saves two reads, 180, and 200 tokens are written again.
	s.check(t, []int{3, 4}, 0, 0)

	// With a cold cache at request 3 everything is written anyway: a fold there saves 900 at 1.25
	// and at 0.1.
	s.asks[3].read = 0
	s.check(t, []int{3, 4}, 900*1.35, 1)
	// At request 2 it also saves 900 at 0.1, which is less than the 115.
	s.check(t, []int{0, 1, 2, 3, 4}, 900*1.35, 1)

	// A second result that ripens at the cold request is folded there for free.
	s.items[2] = item{tokens: 100, saves: 50, ripe: 3}
	s.check(t, []int{0, 1, 2, 3, 4}, 950*1.35, 1)

	// A result that ripens at request 4 is not worth it.
	s.items[2].ripe = 4
	s.check(t, []int{0, 1, 2, 3, 4}, 900*1.35, 1)

	// Thinking that is lost with the edits saves tokens, too, but no fold begins with it.
	s = byHand()
	s.items[2] = item{tokens: 100, saves: 100, ripe: 2, thought: true}
	s.check(t, []int{0, 1, 2, 3, 4}, 270-115+125+20, 1)
	s.items[1] = item{tokens: 1000, ripe: never}
	s.check(t, []int{0, 1, 2, 3, 4}, 0, 0)
}

func (s *stretch) check(t *testing.T, allowed []int, gain float64, folds int) {
	t.Helper()
	if g, n := s.solve(allowed); math.Abs(g-gain) > 1e-6 || n != folds {
		t.Errorf("folding at %v gains %.2f by %d folds, want %.2f by %d", allowed, g, n, gain, folds)
	}
}

// The optimum equals the best of all combinations of folds.
func TestOptimumIsBest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		s := someStretch(random)
		var allowed []int
		for i := range s.asks {
			if random.IntN(4) > 0 {
				allowed = append(allowed, i)
			}
		}
		gain, _ := s.solve(allowed)
		plan := make([]int, len(s.asks))
		for i := range plan {
			plan[i] = len(s.items) // no fold
		}
		best := s.cost(plan) - s.least(plan, allowed)
		if math.Abs(gain-best) > 1e-6 {
			t.Fatalf("gain %.3f, want %.3f, of %+v at %v", gain, best, *s, allowed)
		}
	}
}

// someStretch returns a stretch of five requests with two blocks each.
func someStretch(random *rand.Rand) *stretch {
	s := &stretch{}
	for i := range 5 {
		a := ask{items: 2*i + 2, read: 2 * i, warm: 0.1, rest: 1.25}
		if random.IntN(4) == 0 {
			a.read = random.IntN(a.read + 1)
		}
		s.asks = append(s.asks, a)
		for range 2 {
			it := item{tokens: 10 + random.Int64N(100), ripe: never}
			switch random.IntN(4) {
			case 0:
			case 1:
				it.thought, it.saves, it.ripe = true, it.tokens, i
			default:
				it.tokens += random.Int64N(1000)
				it.saves, it.ripe = it.tokens-10, i+random.IntN(4)
			}
			s.items = append(s.items, it)
		}
	}
	return s
}

// least tries all folds at the allowed requests, from every block that is not folded yet.
func (s *stretch) least(plan, allowed []int) float64 {
	if len(allowed) == 0 {
		return s.cost(plan)
	}
	best := s.least(plan, allowed[1:])
	for p := range s.items[:s.asks[allowed[0]].items] {
		it := &s.items[p]
		folded := false
		for i, from := range plan[:allowed[0]] {
			folded = folded || from <= p && it.ripe <= i
		}
		if it.saves == 0 || it.thought || it.ripe > allowed[0] || folded {
			continue
		}
		plan[allowed[0]] = p
		best = min(best, s.least(plan, allowed[1:]))
	}
	plan[allowed[0]] = len(s.items)
	return best
}

// cost bills the requests one by one, with a fold from block plan[i] on at request i.
func (s *stretch) cost(plan []int) float64 {
	sizes := make([]int64, len(s.items))
	for i := range s.items {
		sizes[i] = s.items[i].tokens
	}
	sum := 0.0
	for i, a := range s.asks {
		for p := plan[i]; p < a.items; p++ {
			if it := &s.items[p]; it.ripe <= i {
				sizes[p] = it.tokens - it.saves
			}
		}
		for p := range a.items {
			if p < a.read && p < plan[i] {
				sum += float64(sizes[p]) * a.warm
			} else {
				sum += float64(sizes[p]) * a.rest
			}
		}
	}
	return sum
}

// A fold costs the same at the simulated providers as in the optimum: for a cache of all prefixes,
// and for one with markers.
func TestOptimumOfSimulator(t *testing.T) {
	for _, name := range []string{"kv", "anthropic-5m"} {
		profile, err := pricing.ProfileByName(name)
		if err != nil {
			t.Fatal(err)
		}
		rules := profile.Rules()
		sent := bodiesOf(t, profile, gardenerTrace)
		h := New(rules, Options{Over: 500, Hot: 4})
		plain := pricing.NewSimulator(profile.Config())
		for i, body := range sent {
			r := &trial.Asked{View: parsed(t, profile, body), Continued: i > 0}
			r.Billed = billed(t, plain, r.View, i)
			r.Cost = rules.Cost(r.Billed)
			h.Add(r)
		}
		s := h.stretches[0]
		from := slices.IndexFunc(s.items, func(it item) bool { return it.saves > 0 && it.ripe < len(sent)-2 })
		if len(h.stretches) != 1 || from < 0 {
			t.Fatalf("%s: %d stretches, block %d", name, len(h.stretches), from)
		}
		at := s.items[from].ripe + 1
		plan := make([]int, len(s.asks))
		for i := range plan {
			plan[i] = len(s.items)
		}
		plan[at] = from

		folding, cost := pricing.NewSimulator(profile.Config()), 0.0
		for i, body := range sent {
			v := parsed(t, profile, body)
			var edits []wire.Edit
			if rules.Regime == pricing.Markers && (i == at-1 || i == at) {
				edits = append(edits, wire.Edit{Block: from - 1, Op: wire.OpMark, Value: []byte(`{"type":"ephemeral"}`)})
			}
			for j := from; j < len(v.Blocks) && i >= at; j++ {
				if it := &s.items[j]; it.saves > 0 && it.ripe <= at {
					edits = append(edits, wire.Edit{Block: j, Value: []byte(`"` + strings.Repeat("x", 110) + `"`)}) // stubTokens
				}
			}
			folded, err := v.Splice(edits)
			if err != nil {
				t.Fatal(err)
			}
			cost += rules.Cost(billed(t, folding, parsed(t, profile, string(folded)), i))
		}
		if want := s.cost(plan); math.Abs(cost-want) > 1e-6 {
			t.Errorf("%s: it cost %.2f, want %.2f", name, cost, want)
		}
	}
}

const gardenerTrace = "../../../../internal/cli/trial/testdata/traces/gardener-11111111-p1.jsonl"

// bodiesOf returns the requests of a trace from the profile's agent.
func bodiesOf(t *testing.T, p pricing.Profile, path string) (out []string) {
	t.Helper()
	found, err := recording.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	err = agent.Requests(found[0], p, func(_ int, body []byte) error {
		out = append(out, string(body))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parsed(t *testing.T, p pricing.Profile, body string) *wire.View {
	t.Helper()
	v, err := wire.Parse(p.Format, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// billed sends the i-th request of a conversation.
func billed(t *testing.T, s *pricing.Simulator, v *wire.View, i int) wire.Usage {
	t.Helper()
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
	run, refused := s.Begin(pricing.Call{View: v, At: at})
	if refused != nil {
		t.Fatal(refused)
	}
	run.FirstByte(at)
	return run.Usage()
}

// A quoted text is kept until its edit, unless another block shows it.
func TestNeed(t *testing.T) {
	line := []byte("return forecast[day].rain > 0.5")
	quoting := func(it item) item {
		it.says = append([]byte("x\n"), line...)
		return it
	}
	result := item{tokens: 100, saves: 60, ripe: 1}
	for name, test := range map[string]struct {
		items []item
		want  []int
	}{
		"one":        {[]item{quoting(result), result}, []int{3, 1}},
		"the last":   {[]item{quoting(result), quoting(result)}, []int{1, 3}},
		"hot":        {[]item{quoting(result), quoting(item{saves: 60, ripe: never})}, []int{1, never}},
		"no result":  {[]item{quoting(item{ripe: never}), quoting(result)}, []int{never, 1}},
		"elsewhere":  {[]item{result, result}, []int{1, 1}},
		"a thought":  {[]item{quoting(result), quoting(item{thought: true, ripe: never})}, []int{1, never}},
		"goes along": {[]item{quoting(result), quoting(item{thought: true, saves: 5, ripe: 1})}, []int{3, 1}},
	} {
		s := &stretch{items: test.items, asks: make([]ask, 3)}
		s.need(line)
		for i := range s.items {
			if s.items[i].ripe != test.want[i] {
				t.Errorf("%s: block %d may be folded from %d on, want %d", name, i, s.items[i].ripe, test.want[i])
			}
		}
	}
}
