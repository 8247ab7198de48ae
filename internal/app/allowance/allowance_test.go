// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// budgetsOf has budgets of users, written as `anna $3 day`, `* 100 tokens month`, or of another kind, as
// `group:web 5 requests minute soft`.
func budgetsOf(tb testing.TB, all ...string) *Budgets {
	tb.Helper()
	b := new(Budgets)
	for _, text := range all {
		words := strings.Fields(text)
		kind, name, ok := strings.Cut(words[0], ":")
		if !ok {
			kind, name = string(User), words[0]
		}
		budget, err := Parse(words[1:])
		if err != nil {
			tb.Fatalf("%s: %v", text, err)
		}
		b.Add(Account{Kind(kind), name}, budget)
	}
	return b
}

func user(name string) Spender { return Spender{Hash: name, User: name} }

// TestSpending: budgets of a day and of a month begin anew, a user's own stand before those of
// everybody, and what a user spent without a name stays the user's.
func TestSpending(t *testing.T) {
	now := time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)
	var l Spending
	all := budgetsOf(t, "* $2 day", "anna $3 day", "anna 100 tokens month")
	refused := func(hash, name string) bool {
		t.Helper()
		r, v := l.Reserve(all, Spender{Hash: hash, User: name}, Spent{}, now)
		r.Release()
		return v.Refused
	}
	l.Add(user("b"), now, Spent{Dollars: 2, Tokens: 10}, now)
	l.Add(user("a"), now, Spent{Dollars: 2, Tokens: 10}, now)
	if !refused("b", "b") || !refused("a", "a") {
		t.Error("$2 of $2 are not refused")
	}
	if refused("a", "anna") {
		t.Error("anna has $3")
	}
	anna := Spender{Hash: "a", User: "anna"}
	l.Add(anna, now, Spent{Dollars: 1, Tokens: 10}, now)
	if !refused("a", "anna") {
		t.Error("what was spent without a name is forgotten")
	}
	now = now.Add(2 * time.Hour) // the next day, of another month
	if refused("a", "anna") || refused("b", "b") {
		t.Error("a new day is refused")
	}
	l.Add(anna, now, Spent{Dollars: 0, Tokens: 100}, now)
	now = now.Add(24 * time.Hour)
	if _, v := l.Reserve(all, anna, Spent{}, now); !v.Refused || v.Reserved ||
		!v.Ends.Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", v)
	}
	if r, v := l.Reserve(all, user("c"), Spent{Dollars: 5, Tokens: 5}, now); r == nil || v.Refused {
		t.Error("the first request is refused")
	} else if _, v := l.Reserve(all, user("c"), Spent{Dollars: 5, Tokens: 5}, now); !v.Reserved {
		t.Errorf("what was reserved is spent twice: %+v", v)
	} else if r.Release(); refused("c", "c") {
		t.Error("a released reservation still counts")
	}
}

// TestKinds: a request is charged to its user, groups, project and site, and each may refuse it.
func TestKinds(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	anna := Spender{Hash: "a", User: "anna", Groups: []string{"web", "night"}, Project: "shop"}
	others := []Spender{
		{Hash: "b", User: "ben", Groups: []string{"web"}},
		{Hash: "c", User: "carla", Project: "shop"},
		{Hash: "d", User: "dora", Groups: []string{"day"}, Project: "blog"},
	}
	for _, c := range []struct {
		budget, says string
		refused      []bool // others
	}{
		{"* $5 day", "anna: $5.00 of $5.00 a day", []bool{false, false, false}},
		{"group:web $5 week", "group web: $5.00 of $5.00 a week", []bool{true, false, false}},
		{"group:* $5 month", "group web: $5.00 of $5.00 a month", []bool{true, false, false}},
		{"project:* 100 tokens hour", "project shop: 100 tokens of 100 tokens an hour", []bool{false, true, false}},
		{"project:shop $4 day", "project shop: $5.00 of $4.00 a day", []bool{false, true, false}},
		{"site: $5 month", "this site: $5.00 of $5.00 a month", []bool{true, true, true}},
		{"site: 2 requests minute", "this site: 2 requests of 2 requests a minute", []bool{true, true, true}},
		{"* 2 requests day", "anna: 2 requests of 2 requests a day", []bool{false, false, false}},
	} {
		var l Spending
		all := budgetsOf(t, c.budget)
		for range 2 {
			r, v := l.Reserve(all, anna, Spent{Requests: 1}, now)
			if v.Refused {
				t.Fatalf("%s: %+v", c.budget, v)
			}
			l.Add(anna, now, Spent{Dollars: 2.5, Tokens: 50}, now)
			r.Release()
		}
		r, v := l.Reserve(all, anna, Spent{Requests: 1}, now)
		if got := fmt.Sprint(v.Account, ": ", &v); r != nil || !v.Refused || got != c.says {
			t.Errorf("%s: got %t %q, want a refusal %q", c.budget, v.Refused, got, c.says)
		}
		for i, s := range others {
			r, v := l.Reserve(all, s, Spent{Requests: 1}, now)
			if r.Release(); v.Refused != c.refused[i] {
				t.Errorf("%s: %s refused: %t", c.budget, s.User, v.Refused)
			}
		}
	}
}

// TestAllOrNothing: a refused request leaves no reservation, no count and no account in the accounts that
// would have allowed it.
func TestAllOrNothing(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	var l Spending
	all := budgetsOf(t, "* $5 day", "* 9 requests hour", "group:web $1 month", "site: $100 month")
	anna, ben := Spender{Hash: "a", User: "anna", Groups: []string{"web"}}, user("ben")
	l.Add(anna, now, Spent{Dollars: 1}, now)
	for range 20 {
		if r, v := l.Reserve(all, anna, Spent{Dollars: 9, Requests: 1}, now); r != nil || v.Account.Kind != Group {
			t.Fatalf("%+v", v)
		}
	}
	for name, a := range l.accounts {
		if a.open != 0 || a.reserved != (Spent{}) || a.windows[Hour.index()].spent.Requests != 0 {
			t.Errorf("%v: %+v", name, a)
		}
	}
	newcomer := Spender{Hash: "n", User: "n", Groups: []string{"web"}}
	if r, _ := l.Reserve(all, newcomer, Spent{Requests: 1}, now); r != nil || l.accounts[Account{User, "n"}] != nil {
		t.Error("a refused stranger has an account")
	}
	if r, v := l.Reserve(all, ben, Spent{Dollars: 1, Requests: 1}, now); r == nil {
		t.Errorf("somebody outside the group: %+v", v)
	}
}

// TestConcurrent: however many requests come at once, those admitted exceed no budget but by their own
// last one, and all reservations are released. It is for the race detector, too.
func TestConcurrent(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	var l Spending
	all := budgetsOf(t, "* $4 day", "group:web $7 day", "site: 12 requests day")
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			s := Spender{User: "u" + strconv.Itoa(i%4), Project: "p"}
			if s.Hash = s.User; i%4 < 2 {
				s.Groups = []string{"web"}
			}
			r, v := l.Reserve(all, s, Spent{Dollars: 1, Requests: 1}, now)
			if v.Refused {
				return
			}
			l.Add(s, now, Spent{Dollars: 1}, now)
			r.Release()
			l.Standings(all, now)
		})
	}
	group.Wait()
	of := func(a Account) Spent { return l.accounts[a].windows[Day.index()].spent }
	if s := of(Account{Site, ""}); s.Requests > 12 || s.Dollars != float64(s.Requests) {
		t.Errorf("the site: %+v", s)
	}
	if s := of(Account{Group, "web"}); s.Dollars > 7 {
		t.Errorf("the group: %+v", s)
	}
	for name, a := range l.accounts {
		if a.open != 0 || a.reserved != (Spent{}) {
			t.Errorf("%v: %+v", name, a)
		}
	}
}

// TestPeriods: each period begins and ends by the local calendar, also where the clock is changed.
func TestPeriods(t *testing.T) {
	zone := func(name string) *time.Location {
		l, err := time.LoadLocation(name)
		if err != nil {
			t.Skip(err)
		}
		return l
	}
	berlin, chile, nepal := zone("Europe/Berlin"), zone("America/Santiago"), zone("Asia/Kathmandu")
	const form = "2006-01-02T15:04:05-07:00"
	for _, c := range []struct {
		period           Period
		in               *time.Location
		at, begins, ends string
	}{
		{Minute, berlin, "2026-11-26T18:59:59+01:00", "2026-11-26T18:59:00+01:00", "2026-11-26T19:00:00+01:00"},
		{Hour, nepal, "2026-11-26T18:20:00+05:45", "2026-11-26T18:00:00+05:45", "2026-11-26T19:00:00+05:45"},
		{"", berlin, "2026-11-26T18:59:59+01:00", "2026-11-26T00:00:00+01:00", "2026-11-27T00:00:00+01:00"},
		{Week, berlin, "2026-11-26T18:59:59+01:00", "2026-11-23T00:00:00+01:00", "2026-11-30T00:00:00+01:00"},
		{Week, berlin, "2026-11-29T23:59:59+01:00", "2026-11-23T00:00:00+01:00", "2026-11-30T00:00:00+01:00"},
		{Week, berlin, "2026-11-30T00:00:00+01:00", "2026-11-30T00:00:00+01:00", "2026-12-07T00:00:00+01:00"},
		{Week, berlin, "2027-01-01T12:00:00+01:00", "2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00"},
		{Month, berlin, "2026-12-31T23:59:59+01:00", "2026-12-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"},
		// Winter time begins: a day of 25 hours, whose hour from two is there twice.
		{Day, berlin, "2026-10-25T12:00:00+01:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{Week, berlin, "2026-10-25T12:00:00+01:00", "2026-10-19T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{Hour, berlin, "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"},
		{Hour, berlin, "2026-10-25T02:30:00+01:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		{Minute, berlin, "2026-10-25T02:59:30+02:00", "2026-10-25T02:59:00+02:00", "2026-10-25T02:00:00+01:00"},
		// Summer time begins: the day begins at one, and not the day before.
		{Hour, berlin, "2026-03-29T01:30:00+01:00", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{Day, chile, "2026-09-05T23:30:00-04:00", "2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"},
		{Day, chile, "2026-09-06T02:00:00-03:00", "2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"},
	} {
		at, err := time.Parse(form, c.at)
		if err != nil {
			t.Fatal(err)
		}
		at = at.In(c.in)
		if begins, ends := c.period.begins(at).Format(form), c.period.ends(at).Format(form); begins != c.begins ||
			ends != c.ends {
			t.Errorf("%s at %s: got %s to %s, want %s to %s", c.period, c.at, begins, ends, c.begins, c.ends)
		}
	}
	if at := time.Date(2026, 12, 2, 1, 0, 0, 0, berlin); Since(at).Format(form) != "2026-11-30T00:00:00+01:00" {
		t.Errorf("the week is older than the month, but %s is read from", Since(at))
	}
}

// TestPeriodsEnd: each period of a budget begins with nothing spent.
func TestPeriodsEnd(t *testing.T) {
	at := time.Date(2026, 11, 24, 10, 30, 30, 0, time.UTC)
	for period, next := range map[Period]time.Time{
		Minute: at.Add(time.Minute), Hour: at.Add(time.Hour), Day: at.AddDate(0, 0, 1), Week: at.AddDate(0, 0, 7),
		Month: at.AddDate(0, 1, 0),
	} {
		for _, unit := range [...]string{"$2", "2 tokens", "2 requests"} {
			var l Spending
			all := budgetsOf(t, "* "+unit+" "+string(period))
			for range 2 {
				r, _ := l.Reserve(all, user("a"), Spent{Requests: 1}, at)
				l.Add(user("a"), at, Spent{Dollars: 1, Tokens: 1}, at)
				r.Release()
			}
			if _, v := l.Reserve(all, user("a"), Spent{Requests: 1}, at.Add(time.Second)); !v.Refused || v.Reserved {
				t.Errorf("%s %s: %+v", unit, period, v)
			} else if r, v := l.Reserve(all, user("a"), Spent{Requests: 1}, v.Ends.Add(-time.Nanosecond)); r != nil {
				t.Errorf("%s %s: %+v", unit, period, v)
			} else if r, _ := l.Reserve(all, user("a"), Spent{Requests: 1}, v.Ends); r == nil {
				t.Errorf("%s %s does not begin anew", unit, period)
			}
			if r, _ := l.Reserve(all, user("a"), Spent{Requests: 1}, next); r == nil {
				t.Errorf("%s %s does not begin anew", unit, period)
			}
		}
	}
}

// TestWarnings: each threshold warns once in a period, rates never do.
func TestWarnings(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	var l Spending
	all := budgetsOf(t, "* $100 day soft", "site: $1000 month", "* 1 tokens minute soft")
	var got []int
	for day := range 2 {
		for range 12 {
			at := now.AddDate(0, 0, day)
			r, v := l.Reserve(all, user("anna"), Spent{Requests: 1}, at)
			r.Release()
			for _, w := range v.Warnings {
				if w.Account.Kind == User {
					got = append(got, int(w.Spent.Dollars))
				}
			}
			l.Add(user("anna"), at, Spent{Dollars: 10, Tokens: 1}, at)
		}
	}
	if fmt.Sprint(got) != "[80 100 80 100]" { // 100 passes both 95 and 100 %
		t.Errorf("warned at %v", got)
	}
}

// TestForecast: spending goes on as in the period so far, once a tenth of it is over.
func TestForecast(t *testing.T) {
	midnight := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		hours, dollars, forecast float64
		runsOut                  time.Duration
	}{
		{2, 1, 0, 0},
		{6, 2, 0.8, 0},
		{6, 5, 2, 12 * time.Hour},
		{12, 10, 2, 0}, // spent already
	} {
		var l Spending
		now := midnight.Add(time.Duration(c.hours * float64(time.Hour)))
		l.Add(user("anna"), now, Spent{Dollars: c.dollars}, now)
		v := l.Standings(budgetsOf(t, "anna $10 day"), now)[0]
		var want time.Time
		if c.runsOut > 0 {
			want = midnight.Add(c.runsOut)
		}
		if got := v.Forecast(now); got != c.forecast || !v.RunsOut(now).Equal(want) {
			t.Errorf("$%g after %g h: got %g, %s, want %g, %s", c.dollars, c.hours, got, v.RunsOut(now), c.forecast, want)
		}
	}
}

// TestClockSetBack: a clock that was far ahead counts for no longer than it is.
func TestClockSetBack(t *testing.T) {
	var l Spending
	all := budgetsOf(t, "* $2 day", "* $5 month")
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	ahead := now.AddDate(0, 2, 0)
	l.Add(user("a"), ahead, Spent{Dollars: 5, Tokens: 10}, ahead)
	if _, v := l.Reserve(all, user("a"), Spent{}, now); v.Refused {
		t.Errorf("what was spent in another month counts: %+v", v)
	}
	l.Add(user("a"), now, Spent{Dollars: 2, Tokens: 10}, now)
	if _, v := l.Reserve(all, user("a"), Spent{}, now); !v.Refused || v.Spent.Dollars != 2 {
		t.Errorf("nothing counts until the clock was right once: %+v", v)
	}
	midnight := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	l.Add(user("a"), midnight, Spent{Dollars: 2, Tokens: 10}, midnight)
	if _, v := l.Reserve(all, user("a"), Spent{}, midnight.Add(-time.Second)); !v.Refused {
		t.Errorf("a clock that is set right by a second gives a day's budget anew: %+v", v)
	}
}

// TestStrangers: who spends nothing leaves no account behind.
func TestStrangers(t *testing.T) {
	var l Spending
	now := time.Now()
	all, more := budgetsOf(t, "* $1 day"), budgetsOf(t, "* $9 day")
	for i := range 100 {
		s := user(fmt.Sprint("stranger ", i))
		first, _ := l.Reserve(all, s, Spent{Dollars: 1, Tokens: 1, Requests: 1}, now)
		second, _ := l.Reserve(more, s, Spent{Dollars: 1, Tokens: 1, Requests: 1}, now)
		first.Release()
		if _, v := l.Reserve(all, s, Spent{}, now); !v.Reserved {
			t.Fatal("what one request reserves ends with another")
		}
		second.Release()
		second.Release() // counts once
	}
	if n := len(l.accounts); n != 0 {
		t.Errorf("%d accounts are kept", n)
	}
	l.Add(user("d"), now, Spent{}, now) // nor where there are no budgets
	if n := len(l.accounts); n != 0 {
		t.Errorf("%d accounts are kept of refused requests", n)
	}
	l.Add(user("a"), now, Spent{Dollars: 1, Tokens: 1}, now)
	r, _ := l.Reserve(more, user("a"), Spent{}, now)
	if r.Release(); l.accounts[Account{User, "a"}] == nil {
		t.Error("what was spent is forgotten")
	}
}

// TestBudgetValidate refuses what makes no sense.
func TestBudgetValidate(t *testing.T) {
	for _, b := range []Budget{
		{}, {Dollars: -1}, {Dollars: 1, Tokens: 1}, {Tokens: 1, Requests: 1}, {Tokens: 1, Per: "year"}, {Requests: -1},
	} {
		if b.Validate() == nil {
			t.Errorf("%+v is taken", b)
		}
	}
}

// TestMadeUpNames: made-up names do not fill the ledger, and those who have spent more stay in it.
func TestMadeUpNames(t *testing.T) {
	l, now := new(Spending), time.Now()
	l.Add(user("anna"), now, Spent{Dollars: 5, Tokens: 100}, now)
	for i := range 2 * maxAccounts {
		l.Add(user(strconv.Itoa(i)), now, Spent{Dollars: 0.01, Tokens: 10}, now)
	}
	if n := len(l.accounts); n > maxAccounts {
		t.Errorf("got %d accounts, want %d at most", n, maxAccounts)
	}
	if all := l.Standings(budgetsOf(t, "anna $10 day"), now); len(all) != 1 || all[0].Spent.Dollars != 5 {
		t.Errorf("got %+v, want the $5 of anna", all)
	}
}

// TestCap: the fullest hard budget by day, week or month is the cap, whatever soft and short ones say. Looking
// at it counts nothing and warns of nothing.
func TestCap(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var l Spending
	l.Add(Spender{User: "anna", Groups: []string{"web"}, Project: "shop"}, now, Spent{Dollars: 8, Tokens: 80}, now)
	for name, c := range map[string]struct {
		user, group, project []Budget
		want                 Account
	}{
		"none":    {},
		"soft":    {user: []Budget{{Dollars: 10, Soft: true}}},
		"short":   {user: []Budget{{Dollars: 10, Per: Hour}, {Tokens: 100, Per: Minute}}},
		"day":     {user: []Budget{{Dollars: 10}, {Dollars: 9, Soft: true}}, want: Account{User, "anna"}},
		"group":   {user: []Budget{{Dollars: 10}}, group: []Budget{{Dollars: 9, Per: Week}}, want: Account{Group, "web"}},
		"project": {group: []Budget{{Dollars: 90, Per: Week}}, project: []Budget{{Tokens: 85, Per: Month}}, want: Account{Project, "shop"}},
	} {
		var b Budgets
		b.Add(Account{User, "anna"}, c.user...)
		b.Add(Account{Group, "web"}, c.group...)
		b.Add(Account{Project, Each}, c.project...)
		s := Spender{User: "anna", Groups: []string{"web"}, Project: "shop"}
		if v := l.Cap(&b, s, now); v.Account != c.want || (v.Budget != nil) != (c.want != Account{}) {
			t.Errorf("%s: got %+v, want the cap of %v", name, v, c.want)
		}
		r, v := l.Reserve(&b, s, Spent{Requests: 1}, now)
		if r.Release(); v.Refused {
			t.Errorf("%s: got %+v, want a reservation", name, v)
		}
	}
}
