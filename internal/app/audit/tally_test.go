// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"testing"
	"time"
)

func turn(at time.Time, user, tenant string, usd, client float64) *Record {
	return &Record{
		At: at, Turns: 1, Kind: KindTurn, User: user, Tenant: tenant, Session: "s-" + user, Client: "codex", Model: "m",
		Outcome: Completed,
		USD:     usd, ClientUSD: client, Cost: usd * 1e6, ClientCost: client * 1e6, OriginalTokens: 100, SentTokens: 60,
	}
}

// busy returns the number of hours or days with turns.
func busy(p Period) (n int) {
	for _, s := range p.Trend {
		if s.Turns > 0 {
			n++
		}
	}
	return n
}

// TestTally: today's turns count from midnight, the hours go back a day, and a user with a new name
// keeps the earlier counts.
func TestTally(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC)
	l := NewTally(func() time.Time { return now })
	l.Add(turn(now, "f00d", "f00d", 1, 3))
	l.Add(turn(now, "anna", "f00d", 1, 2))
	l.Add(turn(now.Add(-time.Hour), "ben", "b", 1, 1))
	l.Add(turn(now.Add(-20*time.Hour), "ben", "b", 1, 1)) // yesterday
	d := l.Today()
	if d.Total.Turns != 3 || d.Total.Saved() != 3 || d.Total.Removed != 120 || busy(d) != 3 || !d.Since.Equal(now) {
		t.Errorf("%+v", d)
	}
	users := d.Of("user")
	if len(users) != 2 || users[0].Name != "anna" || users[0].Saved() != 3 || len(d.Of("client")) != 1 ||
		len(d.Of("model")) != 1 {
		t.Errorf("%+v", users)
	}
	if last := d.Trend[len(d.Trend)-1]; len(d.Trend) != 24 || last.Name != "10:00" || last.Turns != 2 {
		t.Errorf("the trend of %d hours ends with %+v", len(d.Trend), last)
	}
	if w := l.Identity("s-anna"); w != (Identity{User: "anna", Client: "codex"}) {
		t.Errorf("%+v", w)
	}
	both := turn(now, "anna", "f00d", 1, 4)
	both.Groups = []string{"night", "web"}
	l.Add(both)
	d = l.Today()
	groups := d.Of("group")
	if len(groups) != 3 || groups[0].Name != None || groups[1].Name != "night" ||
		groups[2].Name != "web" || groups[0].Turns != 3 || groups[1].Turns != 1 || groups[2].Turns != 1 ||
		d.Total.Turns != 4 {
		t.Errorf("got the groups %+v, want a turn in each of two, and three in none", groups)
	}
	now = now.Add(16 * time.Hour)
	if d := l.Today(); d.Total.Turns != 0 || len(d.Of("user")) != 0 || busy(d) != 2 {
		t.Errorf("the next day: %+v", d)
	}
	for i := range 2 * maxNames {
		l.Add(turn(now, fmt.Sprint("p", i), "x", 1, 1))
	}
	if d := l.Today(); len(d.Of("user")) > maxNames+1 || d.Total.Turns != 2*maxNames {
		t.Errorf("%d users are told apart", len(d.Of("user")))
	}
	now = now.Add(24 * time.Hour)
	for i := range 2 * maxNames { // refused requests
		l.Add(&Record{At: now, Turns: 1, User: fmt.Sprint("p", i), Tenant: "x"})
	}
	l.Add(turn(now, "anna", "f00d", 1, 2))
	if d := l.Today(); d.Total.Turns != 2*maxNames+1 || d.Of("user")[0].Name != "anna" {
		t.Errorf("strangers have left no room: %+v", d.Of("user")[0])
	}
}

// past is a source of records.
type past []*Record

func (p past) Each(_ context.Context, since time.Time, f func(*Record) error) error {
	for _, r := range p {
		if !r.At.Before(since) {
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (past) Close() error { return nil }

// TestSeed: earlier records count once, and from midnight on.
func TestSeed(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC)
	l := NewTally(func() time.Time { return now })
	live := turn(now.Add(time.Second), "anna", "a", 1, 2)
	now = now.Add(time.Minute)
	l.Add(live)
	if err := l.Seed(t.Context(), past{
		turn(now.Add(-30*time.Hour), "anna", "a", 1, 9),
		turn(now.Add(-11*time.Hour), "anna", "a", 1, 9), turn(now.Add(-time.Hour), "anna", "a", 1, 5), live,
	}); err != nil {
		t.Fatal(err)
	}
	if d := l.Today(); d.Total.Turns != 2 || d.Total.Saved() != 5 ||
		!d.Since.Equal(time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", d)
	}
}

// TestRecent: the latest turns of a user or a session are in memory, as many as there is room for. A session bears the
// costs of its pings.
func TestRecent(t *testing.T) {
	now := time.Date(2026, 3, 4, 10, 30, 0, 0, time.UTC)
	l := NewTally(func() time.Time { return now })
	for i := range 2*maxTurns + 5 {
		l.Add(turn(now.Add(time.Duration(i)*time.Millisecond), []string{"anna", "ben"}[i%2], "", 1, 2))
	}
	if got := l.Recent(Filter{Limit: 5 * maxTurns}); len(got) != maxTurns || got[0].User != "anna" || !got[0].At.After(got[1].At) {
		t.Errorf("got %d turns, the first one %+v", len(got), got[0])
	}
	got := l.Recent(Filter{User: "ben", Since: now.Add((2*maxTurns - 5) * time.Millisecond), Limit: 3})
	if len(got) != 3 || got[0].User != "ben" || got[0].Session != "s-ben" || got[0].ClientUSD != 2 {
		t.Errorf("ben: got %+v", got)
	}
	if got := l.Recent(Filter{Session: "s-carla", Limit: 3}); len(got) != 0 {
		t.Errorf("carla: got %+v", got)
	}
	l.Add(&Record{At: now, Turns: 1, Kind: KindKeepAlive, Session: "s-anna", User: "?", Cost: 7, USD: 0.5})
	if who := l.Identity("s-anna"); who.User != "anna" || who.Internal != 7 || who.InternalUSD != 0.5 {
		t.Errorf("after a ping: got %+v", who)
	}
}
