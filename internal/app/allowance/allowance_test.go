// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// TestSpending: budgets of a day and of a month begin anew, those of a person stand before
// those of everybody, and what somebody spent without a name stays theirs.
func TestSpending(t *testing.T) {
	now := time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)
	var l Spending
	all := []Budget{{Dollars: 2}, {User: "anna", Dollars: 3}, {User: "anna", Tokens: 100, Per: "month"}}
	refused := func(hash, name string) bool {
		t.Helper()
		r, v := l.Reserve(all, hash, name, Spent{}, now)
		r.Release()
		return v.Refused
	}
	l.Add("b", "b", now, Spent{Dollars: 2, Tokens: 10}, now)
	l.Add("a", "a", now, Spent{Dollars: 2, Tokens: 10}, now)
	if !refused("b", "b") || !refused("a", "a") {
		t.Error("$2 of $2 are not refused")
	}
	if refused("a", "anna") {
		t.Error("anna has $3")
	}
	l.Add("a", "anna", now, Spent{Dollars: 1, Tokens: 10}, now)
	if !refused("a", "anna") {
		t.Error("what was spent without a name is forgotten")
	}
	now = now.Add(2 * time.Hour) // the next day, of another month
	if refused("a", "anna") || refused("b", "b") {
		t.Error("a new day is refused")
	}
	l.Add("a", "anna", now, Spent{Dollars: 0, Tokens: 100}, now)
	now = now.Add(24 * time.Hour)
	if _, v := l.Reserve(all, "a", "anna", Spent{}, now); !v.Refused || v.Reserved ||
		!v.Ends.Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", v)
	}
	if r, v := l.Reserve(all, "c", "c", Spent{Dollars: 5, Tokens: 5}, now); r == nil || v.Refused {
		t.Error("the first request is refused")
	} else if _, v := l.Reserve(all, "c", "c", Spent{Dollars: 5, Tokens: 5}, now); !v.Reserved {
		t.Errorf("what was set aside is spent twice: %+v", v)
	} else if r.Release(); refused("c", "c") {
		t.Error("what was set aside is not given back")
	}
}

// A clock that was far ahead counts for no longer than it is.
func TestClockSetBack(t *testing.T) {
	var l Spending
	all := []Budget{{Dollars: 2}, {Dollars: 5, Per: "month"}}
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	ahead := now.AddDate(0, 2, 0)
	l.Add("a", "a", ahead, Spent{Dollars: 5, Tokens: 10}, ahead)
	if _, v := l.Reserve(all, "a", "a", Spent{}, now); v.Refused {
		t.Errorf("what was spent in another month counts: %+v", v)
	}
	l.Add("a", "a", now, Spent{Dollars: 2, Tokens: 10}, now)
	if _, v := l.Reserve(all, "a", "a", Spent{}, now); !v.Refused || v.Spent.Dollars != 2 {
		t.Errorf("nothing counts until the clock was right once: %+v", v)
	}
	midnight := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	l.Add("a", "a", midnight, Spent{Dollars: 2, Tokens: 10}, midnight)
	if _, v := l.Reserve(all, "a", "a", Spent{}, midnight.Add(-time.Second)); !v.Refused {
		t.Errorf("a clock that is set right by a second gives a day's budget anew: %+v", v)
	}
}

// A day that begins at one, the clocks being put forward at midnight, does not begin the
// day before.
func TestDayWithoutMidnight(t *testing.T) {
	chile, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Skip(err)
	}
	var l Spending
	now := time.Date(2026, 9, 5, 23, 30, 0, 0, chile)
	want := time.Date(2026, 9, 6, 1, 0, 0, 0, chile)
	l.Add("a", "a", now, Spent{Dollars: 2, Tokens: 10}, now)
	if _, v := l.Reserve([]Budget{{Dollars: 2}}, "a", "a", Spent{}, now); !v.Ends.Equal(want) {
		t.Errorf("at %s it begins anew at %s", now, v.Ends)
	}
	if day := DayOf(want.Add(time.Hour)); !day.Equal(want) {
		t.Errorf("the day begins at %s", day)
	}
}

// Strangers leave nothing behind.
func TestStrangers(t *testing.T) {
	var l Spending
	now := time.Now()
	all := []Budget{{Dollars: 1}}
	for i := range 100 {
		name := fmt.Sprint("stranger ", i)
		first, _ := l.Reserve(all, name, name, Spent{Dollars: 1, Tokens: 1}, now)
		second, _ := l.Reserve([]Budget{{Dollars: 9}}, name, name, Spent{Dollars: 1, Tokens: 1}, now)
		first.Release()
		if _, v := l.Reserve(all, name, name, Spent{}, now); !v.Reserved {
			t.Fatal("what one request sets aside ends with another")
		}
		second.Release()
		second.Release() // counts once
	}
	if n := len(l.accounts); n != 0 {
		t.Errorf("%d accounts are kept", n)
	}
	l.Add("d", "d", now, Spent{}, now) // nor where there are no budgets
	if n := len(l.accounts); n != 0 {
		t.Errorf("%d accounts are kept of who was refused", n)
	}
	l.Add("a", "a", now, Spent{Dollars: 1, Tokens: 1}, now)
	r, _ := l.Reserve([]Budget{{Dollars: 9}}, "a", "a", Spent{}, now)
	if r.Release(); len(l.accounts) != 1 {
		t.Error("what was spent is forgotten")
	}
}

// TestBudgetValidate refuses what makes no sense.
func TestBudgetValidate(t *testing.T) {
	for _, b := range []Budget{{}, {Dollars: -1}, {Dollars: 1, Tokens: 1}, {Tokens: 1, Per: "week"}} {
		if b.Validate() == nil {
			t.Errorf("%+v is taken", b)
		}
	}
}

// Made-up names do not fill the ledger, and those who have spent more stay in it.
func TestMadeUpNames(t *testing.T) {
	l, now := new(Spending), time.Now()
	l.Add("anna", "anna", now, Spent{Dollars: 5, Tokens: 100}, now)
	for i := range 2 * maxAccounts {
		name := strconv.Itoa(i)
		l.Add(name, name, now, Spent{Dollars: 0.01, Tokens: 10}, now)
	}
	if n := len(l.accounts); n > maxAccounts {
		t.Errorf("got %d accounts, want %d at most", n, maxAccounts)
	}
	all := []Budget{{User: "anna", Dollars: 10}}
	if standings := l.Standings(all, now); len(standings) != 1 || standings[0].Spent.Dollars != 5 {
		t.Errorf("got %+v, want the $5 of anna", standings)
	}
}
