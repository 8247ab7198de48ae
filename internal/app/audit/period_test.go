// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/holdout"
)

// TestRead: a period has its days, those without turns, too, and the sum of the time before up to the same hour.
func TestRead(t *testing.T) {
	now := time.Date(2026, 3, 8, 10, 30, 0, 0, time.UTC)
	since := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	failed := turn(now.Add(-time.Hour), "ben", "b", 0, 0)
	failed.Outcome, failed.Status, failed.Break = Failed, 529, "expired"
	failed.Client, failed.Cost, failed.USD, failed.ClientCost, failed.ClientUSD, failed.BreakCost = "codex", 40, 0.8, 40, 0.8, 10
	refused := turn(now.Add(-time.Hour), "ben", "b", 0, 0)
	refused.Outcome, refused.Status = Refused, 429
	p, err := Read(t.Context(), past{
		turn(now.AddDate(0, 0, -15), "anna", "a", 100, 100), // earlier than the time before
		turn(now.AddDate(0, 0, -7).Add(-time.Hour), "anna", "a", 1, 2),
		turn(now.AddDate(0, 0, -7).Add(time.Hour), "anna", "a", 100, 100), // later than this time a week ago
		turn(since.Add(time.Hour), "anna", "a", 1, 5), failed, failed, refused, turn(now, "anna", "a", 1, 5),
	}, since, now, func(t time.Time) time.Time { return t.AddDate(0, 0, -7) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Total.Turns != 4 || p.Total.Saved() != 8 || p.Total.Refused != 1 || p.Before.Turns != 1 || p.Before.Saved() != 1 {
		t.Errorf("got %+v, before %+v", p.Total, p.Before)
	}
	if len(p.Trend) != 7 || p.Trend[0].Name != "2026-03-02" || p.Trend[0].Turns != 1 || p.Trend[3].Turns != 0 ||
		p.Trend[6].Turns != 3 || p.Trend[6].Failed != 2 {
		t.Errorf("days: got %+v", p.Trend)
	}
	if len(p.Errors) != 2 || p.Errors[0].Status != 529 || p.Errors[0].Turns != 2 || p.Errors[1].Outcome != Refused ||
		!p.Errors[0].Last.Equal(failed.At) {
		t.Errorf("errors: got %+v", p.Errors)
	}
	want := Break{Cause: "expired", Client: "codex", Turns: 2, Units: 20, USD: 0.4}
	if len(p.Breaks) != 1 || p.Breaks[0] != want {
		t.Errorf("misses: got %+v, want %+v", p.Breaks, want)
	}
}

// TestLatencies: quantiles are close to those of the sorted durations.
func TestLatencies(t *testing.T) {
	var h histogram
	if got := h.latency("none"); got.P50 != 0 || got.P99 != 0 {
		t.Errorf("of nothing: got %+v", got)
	}
	for i := 1; i <= 100_000; i++ {
		h.add(time.Duration(i) * 37 * time.Microsecond)
	}
	for q, want := range map[float64]float64{0: 0.037, 0.5: 1850, 0.95: 3515, 0.99: 3663, 1: 3700} {
		if got := h.at(q); math.Abs(got/want-1) > 0.035 {
			t.Errorf("quantile %g: got %g ms, want %g", q, got, want)
		}
	}
	h.add(1000 * time.Hour)
	if got := h.at(1); got > 1000*3600e3 || got < 3700 {
		t.Errorf("the longest: got %g ms", got)
	}
}

// TestRecentOnRecord: a store finds the latest turns of a user and of a session, as reading all of them does.
func TestRecentOnRecord(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	store, err := OpenSQLite(filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var all past
	for i := range 300 {
		r := turn(now.Add(time.Duration(i-300)*time.Minute), fmt.Sprint("p", i%3), "t", 1, 2)
		r.ID, r.Session, r.FirstToken, r.Reason = NewID(r.At), fmt.Sprint("s", i%6), time.Second, "no gain"
		if i == 297 {
			r.Turns = 5 // a sum has no details
		}
		all = append(all, r)
	}
	if err := store.Write(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Filter{
		{User: "p0", Since: now.Add(-4 * time.Hour), Limit: 7},
		{Session: "s4", Since: now.Add(-100 * time.Minute), Limit: 50},
		{User: "p1", Session: "s0", Limit: 5},
	} {
		got, err := Recent(t.Context(), store, f)
		want, err2 := Recent(t.Context(), all, f)
		if err != nil || err2 != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: got %v, %v, want %v, %v", f, got, err, want, err2)
		}
		for _, turn := range got {
			if turn.User != f.User && f.User != "" || turn.FirstToken != 1000 || turn.Reason != "no gain" || turn.At.Before(f.Since) {
				t.Errorf("%+v: got %+v", f, turn)
			}
		}
	}
}

// TestHoldoutOfAPeriod: sessions are compared from the first turn of the control group on, and the control group's
// folds and misses, which were only computed, are not ours.
func TestHoldoutOfAPeriod(t *testing.T) {
	c := newCollector()
	turn := func(session string, control bool, usd float64, change func(*Record)) {
		r := &Record{
			At: time.Now(), Turns: 1, Kind: KindTurn, Session: session, Holdout: control, Policy: "cost_aware", USD: usd,
			ClientUSD: 1,
			Cost:      usd * 100, ClientCost: 100, Folded: 1, FoldMisses: 1, Rereads: 1, Outcome: Completed,
		}
		if control {
			r.Policy, r.SimulatedCost = "observe", 90
		}
		if change != nil {
			change(r)
		}
		c.add(r, time.UTC)
	}
	turn("before", false, 0.5, nil)
	if p := c.period(time.Now(), time.Now()); p.Holdout != nil {
		t.Fatalf("got %+v without a control group", p.Holdout)
	}
	for i := range 20 {
		turn(fmt.Sprint("control", i), true, 1, nil)
		turn(fmt.Sprint("edited", i), false, 0.6, nil)
	}
	turn("pinged", false, 1, func(r *Record) { r.Kind = KindKeepAlive })
	turn("", false, 1, func(r *Record) { r.Turns = 100 })
	p := c.period(time.Now(), time.Now())
	h := p.Holdout
	if h == nil || h.Edited != 20 || h.Control != 20 || !h.Priced {
		t.Fatalf("got %+v, want 20 sessions in each group", h)
	}
	m := h.Of(holdout.Cost)
	if math.Abs(m.Edited-0.6) > 1e-9 || math.Abs(m.Control-1/0.9) > 1e-9 || !m.Known {
		t.Errorf("got %+v, want 0.6 against a simulated cost that is too low by a tenth", *m)
	}
	if p.Total.Folded != 23 || p.Total.FoldMisses != 23 {
		t.Errorf("got %d folds, %d missed, want 23 of each: none of the control group", p.Total.Folded, p.Total.FoldMisses)
	}
}
