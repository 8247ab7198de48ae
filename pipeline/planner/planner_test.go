// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// warm is a conversation of a hundred requests with a warm cache. Its blocks are given as tokens,
// with the saving of a fold.
func warm(blocks ...Block) Input {
	in := Input{
		Moment: Moment{Epoch: NoEpoch, Begun: true},
		Cache:  Cache{Warm: len(blocks), Forwarded: len(blocks), Anywhere: true},
		Prices: Prices{Write: 1.25, Read: 0.1, MinTokens: 1024},
		Past:   Past{Requests: 100, Spent: 1e6, Caution: 1},
		Blocks: blocks, Base: 10000, Total: 10000, Further: 50, Care: 1, Harm: Harm{Price: 8e6, Long: 4000},
	}
	for _, b := range blocks {
		in.Total += b.Tokens
	}
	return in
}

func kept(tokens float64) Block { return Block{Tokens: tokens} }

// output is a block of which a fold leaves a stub of a hundred tokens.
func output(tokens, need float64) Block {
	return Block{Tokens: tokens, Whole: tokens - 100, Need: need}
}

func folded(folds []Fold) string {
	out := make([]string, 0, len(folds))
	for _, f := range folds {
		out = append(out, strconv.Itoa(f.Block)+map[bool]string{true: "p"}[f.Part])
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks []Block
		but    func(in *Input)
		want   string
	}{
		{
			"worth what is written again; the entry in front of it is built on",
			[]Block{kept(500), kept(200), output(8000, 0), kept(400), kept(300)},
			func(in *Input) { in.Anywhere, in.Entries = false, []int{1, 4} },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=1000; further=50; gain=38350 folds=[2] entry=1`,
		},
		{
			"no entry in front of it, so that all is written again",
			[]Block{kept(500), kept(60000), output(8000, 0), kept(400)},
			func(in *Input) { in.Anywhere = false },
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="no gain" folds=[] entry=0`,
		},
		{
			"only tools and system text are found",
			[]Block{kept(500), output(8000, 0), kept(400)},
			func(in *Input) { in.Anywhere = false },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=1000; further=50; gain=38350 folds=[1] entry=0`,
		},
		{
			"and these are not, either",
			[]Block{kept(500), output(8000, 0), kept(400)},
			func(in *Input) { in.Anywhere, in.Lapsed = false, true },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=11000; further=50; gain=26850 folds=[1] entry=0`,
		},
		{
			"a box finds any prefix",
			[]Block{kept(500), kept(60000), output(8000, 0), kept(400)},
			nil,
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=500; further=50; gain=38925 folds=[2] entry=2`,
		},
		{
			"cold: all that is worthwhile, whatever stands behind",
			[]Block{kept(500), output(8000, 0), kept(60000), output(700, 0.001), output(700, 0.9)},
			func(in *Input) { in.Epoch, in.Warm = Cold, 0 },
			`epoch=cold; candidates=2; folded=0; removed=0; rewritten=0; further=50; gain=51345 folds=[1 3] entry=0`,
		},
		{
			"another model has a cache of its own",
			[]Block{output(8000, 0), kept(60000)},
			func(in *Input) { in.Epoch, in.Warm = ModelChanged, 0 },
			`epoch=model; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=48585 folds=[0] entry=0`,
		},
		{
			"the client has written anew what stands behind",
			[]Block{kept(500), output(8000, 0), kept(300)},
			func(in *Input) { in.Epoch, in.Warm, in.Forwarded = Diverged, 1, 1 },
			`epoch=diverged; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=48585 folds=[1] entry=0`,
		},
		{
			"the client has, but the fold begins in front of that",
			[]Block{kept(500), output(8000, 0), kept(300), kept(2000)},
			func(in *Input) { in.Epoch, in.Warm, in.Forwarded = Diverged, 3, 3 },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=400; further=50; gain=39040 folds=[1] entry=1`,
		},
		{
			"a file that was read, between two tasks",
			[]Block{kept(500), output(8000, 0.005), kept(300)},
			nil,
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=400; further=50; gain=27076 folds=[1] entry=1`,
		},
		{
			"a file that is likely to be needed",
			[]Block{kept(500), output(8000, 0.3), kept(300)},
			func(in *Input) { in.Loop = true },
			`epoch=none; candidates=0; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="nothing to fold" ` +
				`folds=[] entry=0`,
		},
		{
			"what is likely to be needed stays",
			[]Block{kept(500), output(8000, 0.03), output(8000, 0.003), kept(300)},
			func(in *Input) { in.Loop = true },
			`epoch=loop; candidates=1; folded=0; removed=0; rewritten=400; further=50; gain=31859 folds=[2] entry=2`,
		},
		{
			"of a call only what it has replaced",
			[]Block{kept(500), {Tokens: 8000, Whole: 7900, Part: 3900, Need: 0.9}, kept(300)},
			nil,
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=4400; further=50; gain=12852 folds=[1p] entry=1`,
		},
		{
			"needed for certain",
			[]Block{kept(500), output(8000, 1), kept(300)},
			nil,
			`epoch=none; candidates=0; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="nothing to fold" ` +
				`folds=[] entry=0`,
		},
		{
			"the run of calls is open",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.Loop, in.Bound = true, true },
			`epoch=none; candidates=0; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="the run of calls is ` +
				`open" folds=[] entry=0`,
		},
		{
			"so it is where nothing is known of the conversation",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.Loop, in.Bound, in.Begun, in.Past = true, true, false, Past{Caution: 1} },
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=400; further=50; gain=39040; reason="thinking is bound ` +
				`and the run of calls is open" folds=[] entry=0`,
		},
		{
			"but not for what nobody has cached",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.Loop, in.Bound, in.Epoch, in.Warm = true, true, Cold, 0 },
			`epoch=cold; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=48585 folds=[0] entry=0`,
		},
		{
			"a conversation that has cost little may end soon",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.Spent = 100 },
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=400; further=50; gain=39040; reason="too much at stake ` +
				`so early" folds=[] entry=0`,
		},
		{
			"a later fold may cost little enough",
			[]Block{kept(500), output(8000, 0), kept(3000), output(8000, 0), kept(300)},
			func(in *Input) { in.Spent = 40000 },
			`epoch=boundary; candidates=2; folded=0; removed=0; rewritten=400; further=50; gain=39040 folds=[3] entry=3`,
		},
		{
			"folds that have paid back do not stand in the way",
			[]Block{kept(500), output(8000, 0), kept(3000)},
			func(in *Input) { in.Spent = 200000 },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=3100; further=50; gain=35935 folds=[1] entry=1`,
		},
		{
			"folds that have not do",
			[]Block{kept(500), output(8000, 0), kept(3000)},
			func(in *Input) { in.Spent, in.Staked = 200000, 500 },
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=3100; further=50; gain=35935; reason="too much at ` +
				`stake so early" folds=[] entry=0`,
		},
		{
			"writing that costs no more than reading puts nothing at stake",
			[]Block{kept(500), output(8000, 0), kept(3000)},
			func(in *Input) { in.Begun, in.Write, in.Read = false, 0.1, 0.1 },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=3100; further=50; gain=39500 folds=[1] entry=1`,
		},
		{
			"near the window what is at stake does not matter",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.Spent, in.Window = 100, 20000 },
			`epoch=window; candidates=1; folded=0; removed=0; rewritten=400; further=50; gain=39040 folds=[0] entry=0`,
		},
		{
			"what is left would be too short to be cached",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.MinTokens = 10000 },
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="no gain" folds=[] entry=0`,
		},
		{
			"little by little is not worth it",
			[]Block{kept(500), output(300, 0), kept(20000)},
			nil,
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="no gain" folds=[] entry=0`,
		},
		{
			"writing again costs what it costs",
			[]Block{kept(500), output(8000, 0), kept(18000)},
			func(in *Input) { in.Spent = 2e6 },
			`epoch=boundary; candidates=1; folded=0; removed=0; rewritten=18100; further=50; gain=18685 folds=[1] entry=1`,
		},
		{
			"once it was dearer than planned, more is counted on",
			[]Block{kept(500), output(8000, 0), kept(18000)},
			func(in *Input) { in.Caution = 4 },
			`epoch=none; candidates=1; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="no gain" folds=[] entry=0`,
		},
		{
			"a little in front of much is left alone",
			[]Block{output(400, 0), kept(30000), output(8000, 0), kept(300)},
			nil,
			`epoch=boundary; candidates=2; folded=0; removed=0; rewritten=400; further=50; gain=39040 folds=[2] entry=2`,
		},
		{
			"too much of what was folded was missed",
			[]Block{output(8000, 0), kept(300)},
			func(in *Input) { in.Epoch, in.Warm, in.TooManyMisses = Cold, 0, true },
			`epoch=none; candidates=0; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="what was folded was ` +
				`missed" folds=[] entry=0`,
		},
		{
			"nothing to fold",
			[]Block{kept(500), kept(300)},
			nil,
			`epoch=none; candidates=0; folded=0; removed=0; rewritten=0; further=50; gain=0; reason="nothing to fold" ` +
				`folds=[] entry=0`,
		},
	} {
		in := warm(c.blocks...)
		if c.but != nil {
			c.but(&in)
		}
		p := Make(&in, new(Scratch))
		if got := fmt.Sprintf("%s folds=[%s] entry=%d", p.String(), folded(p.Folds), p.Entry); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// The value of a cold cache: the price of writing the rest again.
func TestGain(t *testing.T) {
	in := warm(kept(500), output(8000, 0), kept(60000))
	s := new(Scratch)
	if g := Gain(&in, s); g != 0 {
		t.Errorf("%v where so much would be written again", g)
	}
	in.Warm = 0
	if g, want := Gain(&in, s), 7900*0.1*50+7900*(1.25-0.1); g != want {
		t.Errorf("%v, want %v", g, want)
	}
	in = warm(output(8000, 0))
	in.Spent = 100
	if g := Gain(&in, s); g != 0 {
		t.Errorf("%v, though so much is at stake so early", g)
	}
}

func TestIdle(t *testing.T) {
	blocks := []Block{kept(500), output(3000, 0), kept(60000), output(8000, 0), kept(300)}
	for _, c := range []struct {
		blocks  []Block
		limit   int
		want    string
		from    int
		process int
	}{
		{blocks, 0, "1 3", 1, 60500}, // the blocks behind the fold, with its stubs
		{blocks, 5000, "3", 3, 400},  // a limit to the tokens that are read again
		{blocks, 100, "", 5, 0},      // a limit too small for any fold
		{[]Block{kept(500)}, 0, "", 1, 0},
		// A block that is likely to be needed stays.
		{[]Block{output(800, 0.02), output(800, 0.002), kept(300)}, 0, "1", 1, 400},
	} {
		in := warm(c.blocks...)
		in.Harm = DefaultHarm
		folds, from, process := Idle(&in, new(Scratch), c.limit)
		if got := folded(folds); got != c.want || from != c.from || process != c.process {
			t.Errorf("%v, limit %d: folds [%s] from %d, %d to read; want [%s] from %d, %d", c.blocks, c.limit, got, from,
				process, c.want, c.from, c.process)
		}
	}
}

// Make and Refuses agree on the moments that forbid every fold.
func TestRefuses(t *testing.T) {
	in := Input{Moment: Moment{Epoch: NoEpoch, Loop: true, Bound: true, Begun: true}, Further: 7}
	if p := Make(&in, new(Scratch)); p.Reason != in.Refuses() || p.Reason == "" || p.Epoch != NoEpoch || p.Further != 7 {
		t.Errorf("%+v", p.Decision)
	}
	for _, m := range []Moment{
		{Epoch: Cold, Loop: true, Bound: true, Begun: true},
		{Epoch: NoEpoch, Bound: true, Begun: true},
		{Epoch: NoEpoch, Loop: true, Begun: true},
		{Epoch: NoEpoch, Loop: true, Bound: true},
	} {
		if reason := m.Refuses(); reason != "" {
			t.Errorf("%+v: %s", m, reason)
		}
	}
}

// A plan in reused scratch memory allocates nothing.
func TestPlanAllocates(t *testing.T) {
	blocks := make([]Block, 100)
	for i := range blocks {
		blocks[i] = output(300, 0)
	}
	in, s := warm(blocks...), new(Scratch)
	in.Warm = 0
	if n := testing.AllocsPerRun(10, func() {
		if p := Make(&in, s); len(p.Folds) != len(blocks) {
			t.Fatal(p.String())
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A block needed at three in a hundred moments is never folded, at any length, unless the price is
// independent of the length.
func TestHarmGrows(t *testing.T) {
	for _, c := range []struct {
		tokens, long float64
		want         string
	}{
		{800, 4000, ""}, {50_000, 4000, ""}, {500_000, 4000, ""}, {800, 0, ""}, {50_000, 0, "0"},
	} {
		in := warm(output(c.tokens, 0.03), kept(300))
		in.Harm.Long = c.long
		if p := Make(&in, new(Scratch)); folded(p.Folds) != c.want {
			t.Errorf("%v tokens at %v: folds [%s], %s", c.tokens, c.long, folded(p.Folds), p.String())
		}
	}
}

func TestDecisionString(t *testing.T) {
	for want, d := range map[string]Decision{
		`epoch=none; candidates=3; folded=0; removed=0; rewritten=12; further=2; gain=-17; reason="no \"gain\""`: {Epoch: NoEpoch, Reason: `no "gain"`, Candidates: 3, Rewritten: 12, Further: 2.4, Gain: -16.5001},
		`epoch=cold; candidates=0; folded=5; removed=900; rewritten=0; further=100000000; gain=+Inf`:             {Epoch: Cold, Folded: 5, Removed: 900, Further: 1e8, Gain: math.Inf(1)},
	} {
		if got := d.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
