// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package holdout

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// sessions returns sessions of one turn length and cost each, the last one as given.
func sessions(n int, each Session, last ...Session) (all []*Session) {
	for i := range n {
		s := each
		s.ID = fmt.Sprint("s", i)
		all = append(all, &s)
	}
	for i := range last {
		all = append(all, &last[i])
	}
	return all
}

func TestCompare(t *testing.T) {
	plain := Session{Turns: 10, Prompt: 1000, Read: 800, Output: 2000, Units: 100, OwnUnits: 100, USD: 1, OwnUSD: 1}
	half := plain
	half.Units, half.USD = 50, 0.5
	free := plain
	free.USD, free.OwnUSD = 0, 0
	missing := plain
	missing.Rereads = 1
	for _, c := range []struct {
		name            string
		edited, control []*Session
		measure         string
		want            Measure
		priced          bool
	}{
		{
			"half the cost", sessions(90, half), sessions(10, plain), Cost,
			Measure{Cost, 0.5, 1, -0.5, 0.5*math.Exp(-2*billError) - 1, -0.5, true, 0},
			true,
		},
		{
			"by turn", sessions(90, half), sessions(10, plain), CostPerTurn,
			Measure{CostPerTurn, 0.05, 0.1, -0.5, -0.5, -0.5, true, 0},
			true,
		},
		{
			"by output", sessions(90, half), sessions(10, plain), CostPerOutput,
			Measure{CostPerOutput, 0.25, 0.5, -0.5, -0.5, -0.5, true, 0},
			true,
		},
		{
			"without a price", sessions(90, free), sessions(10, free), CostPerTurn,
			Measure{CostPerTurn, 10, 10, 0, 0, 0, true, 0},
			false,
		},
		{
			"models without a price among others", sessions(90, half, free), sessions(10, plain), CostPerTurn,
			Measure{CostPerTurn, 0.05, 0.1, -0.5, -0.5, -0.5, true, 0},
			true,
		},
		{
			"too small a group", sessions(90, half), sessions(minSessions-1, plain), Cost,
			Measure{Name: Cost, Edited: 0.5, Control: 1},
			true,
		},
		{
			"too few events", sessions(90, missing), sessions(100, plain, missing), Rereads,
			Measure{Name: Rereads, Edited: 10, Control: 1 / 10.1},
			true,
		},
		{
			"no events at all", sessions(90, plain), sessions(100, plain), FailedEdits, Measure{Name: FailedEdits}, true,
		},
	} {
		got := Compare(c.edited, c.control)
		if m := got.Of(c.measure); !close(*m, c.want) || got.Priced != c.priced {
			t.Errorf("%s: got %+v, priced %t, want %+v, %t", c.name, *m, got.Priced, c.want, c.priced)
		}
	}
}

func close(a, b Measure) bool {
	for _, p := range [...][2]float64{
		{a.Edited, b.Edited}, {a.Control, b.Control}, {a.Change, b.Change}, {a.Low, b.Low}, {a.High, b.High},
	} {
		if math.Abs(p[0]-p[1]) > 1e-9 {
			return false
		}
	}
	return a.Name == b.Name && a.Known == b.Known && a.Needed == b.Needed
}

// Sessions that cost more than their own bytes would have are counted, and the largest loss is named.
func TestLosers(t *testing.T) {
	fine := Session{Turns: 1, USD: 1, OwnUSD: 1.5}
	c := Compare(sessions(20, fine,
		Session{ID: "slightly", Turns: 1, USD: 1.004, OwnUSD: 1},
		Session{ID: "little", Turns: 1, USD: 0.2, OwnUSD: 0.1},
		Session{ID: "much", User: "anna", Turns: 1, USD: 11, OwnUSD: 10},
	), sessions(20, fine))
	if c.Dearer != 2 || math.Abs(c.Loss-1.1) > 1e-9 || c.Worst == nil || c.Worst.Session != "much" ||
		c.Worst.User != "anna" || math.Abs(c.Worst.Change-0.1) > 1e-9 {
		t.Errorf("got %d sessions, %v lost, %+v, want 2, 1.1 and much", c.Dearer, c.Loss, c.Worst)
	}
}

// TestCoverage: of sessions with costs from a heavy tail, 95 % of the intervals hold the truth, whether or not a
// session's costs in both groups go together.
func TestCoverage(t *testing.T) {
	const n, share, runs, saved = 300, 0.2, 400, 0.25
	random := rand.New(rand.NewPCG(1, 2))
	var edited, control []*Session
	var costs, owns float64
	for range n {
		turns := math.Ceil(math.Exp(3 + random.NormFloat64()))
		price := 0.1 * math.Exp(0.5*random.NormFloat64())
		own := turns * price
		control = append(control, &Session{Turns: turns, Output: turns * 500, USD: own, OwnUSD: own})
		cost := own * (1 - saved) * math.Exp(0.1*random.NormFloat64())
		edited = append(edited, &Session{Turns: turns, Output: turns * 500, USD: cost, OwnUSD: own * (1 - billError)})
		costs, owns = costs+cost, owns+own
	}
	truth := Compare(edited, control)
	truth.Of(Cost).Change = costs/owns - 1
	covered := map[string]int{}
	needed := 0
	for range runs {
		var e, c []*Session
		for i := range n {
			if random.Float64() < share {
				c = append(c, control[i])
			} else {
				e = append(e, edited[i])
			}
		}
		got := Compare(e, c)
		for _, m := range got.Measures {
			if want := truth.Of(m.Name); m.Known && m.Low <= want.Change && want.Change <= m.High {
				covered[m.Name]++
			}
		}
		if m := got.Of(CostPerTurn); (m.Needed > 0) != ((m.High-m.Low)/2 > margin) {
			t.Errorf("got %d needed for %v to %v", m.Needed, m.Low, m.High)
		} else if m.Needed > 0 {
			needed++
		}
	}
	for _, name := range []string{Cost, CostPerTurn, CostPerOutput, TurnsEach} {
		if got := float64(covered[name]) / runs; got < 0.92 || got > 0.98 {
			t.Errorf("%s: got %.1f %% of the intervals, want 92 to 98 %%", name, 100*got)
		}
	}
	if needed == 0 {
		t.Error("no interval is wider than 3 points")
	}
}

// A large session in one group tells how much the other group's ratio misses.
func TestLargeSession(t *testing.T) {
	plain := Session{Turns: 10, USD: 1, OwnUSD: 1}
	half, less := plain, plain
	half.USD, less.USD = 0.5, 0.7
	edited := append(sessions(20, half), sessions(20, less)...)
	large := Session{Turns: 100, USD: 10, OwnUSD: 10}
	width := func(control []*Session) float64 {
		m := Compare(edited, control).Of(Cost)
		return m.High - m.Low
	}
	if with, without := width(sessions(20, plain, large)), width(sessions(21, plain)); with < 1.5*without {
		t.Errorf("got an interval of %.3f with a large session in the control group, want over 1.5 times %.3f", with, without)
	}
}

// TestAnswers: the words follow from the measures.
func TestAnswers(t *testing.T) {
	plain := Session{Turns: 10, Output: 2000, USD: 1, OwnUSD: 1, FirstToken: 10, Answered: 10}
	half, dear, missing := plain, plain, plain
	half.USD, dear.USD, missing.Rereads, missing.USD = 0.5, 1.2, 3, 0.5
	reads := plain
	reads.Rereads = 1
	for _, c := range []struct {
		name            string
		edited, control []*Session
		want            [5]string
	}{
		{
			"a saving", sessions(90, half), sessions(10, plain),
			[5]string{
				"50.0 % of what", "Yes: the saving is from 50.0 % to 50.5 %", "Nothing beyond chance.", "No session.", "You can remove holdout",
			},
		},
		{"too few", sessions(90, half), sessions(3, plain), [5]string{"Not known yet: 3 sessions", "No.", "", "No session.", "keep holdout on"}},
		{
			"a loss", sessions(90, dear), sessions(10, plain),
			[5]string{"cost 20.0 % more", "Yes: the saving is from -20.0 % to -18.8 %", "", "90 of 90 edited sessions", "policy observe"},
		},
		{
			"harm", sessions(90, missing), sessions(20, reads),
			[5]string{"50.0 %", "Yes", "rereads per 100 turns +200.0 % (+200.0 % to +200.0 %)", "No session.", "risk 0.5"},
		},
		{
			"a few dear ones", sessions(90, half, dear, dear, dear, dear, dear), sessions(10, plain),
			[5]string{"46", "Yes", "", "5 of 95 edited sessions cost more than unedited, $1.00 in all", "Look at the dearest"},
		},
	} {
		got := Compare(c.edited, c.control).Answers
		for i, want := range c.want {
			if !strings.Contains(got[i].Text, want) {
				t.Errorf("%s: %s got %q, want %q in it", c.name, got[i].Question, got[i].Text, want)
			}
		}
	}
}
