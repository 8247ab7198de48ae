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
	if d.Total.Turns != 3 || d.Total.Saved() != 3 || d.Total.Removed != 120 || len(d.Hours) != 3 || !d.Since.Equal(now) {
		t.Errorf("%+v", d)
	}
	if len(d.Users) != 2 || d.Users[0].Name != "anna" || d.Users[0].Saved() != 3 || len(d.Clients) != 1 ||
		len(d.Models) != 1 {
		t.Errorf("%+v", d.Users)
	}
	if w := l.Identity("s-anna"); w != (Identity{User: "anna", Client: "codex"}) {
		t.Errorf("%+v", w)
	}
	both := turn(now, "anna", "f00d", 1, 4)
	both.Groups = []string{"night", "web"}
	l.Add(both)
	if d := l.Today(); len(d.Groups) != 3 || d.Groups[0].Name != None || d.Groups[1].Name != "night" ||
		d.Groups[2].Name != "web" || d.Groups[0].Turns != 3 || d.Groups[1].Turns != 1 || d.Groups[2].Turns != 1 ||
		d.Total.Turns != 4 {
		t.Errorf("got the groups %+v, want a turn in each of two, and three in none", d.Groups)
	}
	now = now.Add(16 * time.Hour)
	if d := l.Today(); d.Total.Turns != 0 || len(d.Users) != 0 || len(d.Hours) != 2 {
		t.Errorf("the next day: %+v", d)
	}
	for i := range 2 * maxNames {
		l.Add(turn(now, fmt.Sprint("p", i), "x", 1, 1))
	}
	if d := l.Today(); len(d.Users) > maxNames+1 || d.Total.Turns != 2*maxNames {
		t.Errorf("%d people are told apart", len(d.Users))
	}
	now = now.Add(24 * time.Hour)
	for i := range 2 * maxNames { // refused requests
		l.Add(&Record{At: now, Turns: 1, User: fmt.Sprint("p", i), Tenant: "x"})
	}
	l.Add(turn(now, "anna", "f00d", 1, 2))
	if d := l.Today(); d.Total.Turns != 2*maxNames+1 || d.Users[0].Name != "anna" {
		t.Errorf("strangers have left no room: %+v", d.Users[0])
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
