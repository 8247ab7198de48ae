// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package allowance keeps users within budgets: in dollars or tokens, by day or month. The maximum
// cost of a request is reserved before it is sent and released at its end, so concurrent requests
// spend no more than consecutive ones.
package allowance

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

// Everybody is the name of a budget that each user gets.
const Everybody = "*"

// Budget limits the spending of a user in a day or a month, by the calendar of this machine.
type Budget struct {
	// User is the user's name on record, or `*` for each user without a budget by name.
	// Default: `*`.
	User string `json:"person,omitempty"`
	// Dollars is the limit in US dollars, at list prices. A model without a known price is
	// charged as the dearest model of its vendor, or as the dearest of all if the vendor is
	// unknown, too. Local engines with a preset cost nothing. Either this or Tokens must be given.
	Dollars float64 `json:"dollars,omitempty"`
	// Tokens is the limit in tokens of prompts and responses, including tokens read from a cache.
	Tokens int64 `json:"tokens,omitempty"`
	// Per is the period of the budget: `day` or `month`. Default: day.
	Per string `json:"per,omitempty"`
	// Soft lets requests over the budget pass, with a warning in the header X-Llm-Cache-Budget and
	// in the log. Default: false, they get a 429.
	Soft bool `json:"soft,omitempty"`
}

// Validate checks the amount and the period.
func (b *Budget) Validate() error {
	switch {
	case b.Dollars < 0 || math.IsInf(b.Dollars, 1) || b.Tokens < 0 || b.Dollars > 0 == (b.Tokens > 0):
		return fmt.Errorf("%s: either dollars or tokens above zero must be given", b.user())
	case b.Per != "" && b.Per != "day" && b.Per != "month":
		return fmt.Errorf("%s must be day or month, got %q", b.user(), b.Per)
	}
	return nil
}

func (b *Budget) user() string {
	if b.User == "" {
		return Everybody
	}
	return b.User
}

// String returns the limit and its period, like "$5.00 a day".
func (b *Budget) String() string {
	per := "day"
	if b.Per == "month" {
		per = b.Per
	}
	return b.Amount(Spent{Dollars: b.Dollars, Tokens: b.Tokens}) + " a " + per
}

// Amount formats an amount in the unit of the budget.
func (b *Budget) Amount(s Spent) string {
	about := ""
	if s.Estimated {
		about = "~"
	}
	if b.Dollars > 0 {
		return about + figure.Cents(s.Dollars)
	}
	return about + humanize.Comma(s.Tokens) + " tokens"
}

func (b *Budget) share(s Spent) float64 {
	if b.Dollars > 0 {
		return s.Dollars / b.Dollars
	}
	return float64(s.Tokens) / float64(b.Tokens)
}

func (b *Budget) ends(now time.Time) time.Time {
	y, m, d := now.Date()
	// time.Date carries months and days beyond their ranges over.
	if b.Per == "month" {
		return begin(y, m+1, 1, now.Location())
	}
	return begin(y, m, d+1, now.Location())
}

// Spent is an amount.
type Spent struct {
	// Dollars and Tokens are the same amount in both units.
	Dollars float64
	Tokens  int64
	// Estimated reports that a part of the amount is an estimate.
	Estimated bool
}

func (s *Spent) add(o Spent) {
	s.Dollars, s.Tokens, s.Estimated = s.Dollars+o.Dollars, s.Tokens+o.Tokens, s.Estimated || o.Estimated
}

type account struct {
	day, month time.Time // the start of both
	ofDay      Spent
	ofMonth    Spent
	reserved   Spent
	open       int // number of reservations
}

func (a *account) turnOver(now time.Time) {
	// A start this far in the future comes from a clock that was ahead. Smaller corrections of the
	// clock are normal.
	ahead := now.Add(24 * time.Hour)
	if day := DayOf(now); a.day.Before(day) || a.day.After(ahead) {
		a.day, a.ofDay = day, Spent{}
	}
	if month := MonthOf(now); a.month.Before(month) || a.month.After(ahead) {
		a.month, a.ofMonth = month, Spent{}
	}
}

func begin(y int, m time.Month, d int, in *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, in)
	if t.Hour() == 23 { // of the day before: daylight saving time begins at midnight
		t = t.Add(time.Hour)
	}
	return t
}

// DayOf returns the start of the day of a time.
func DayOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return begin(y, m, d, t.Location())
}

// MonthOf returns the start of the month of a time.
func MonthOf(t time.Time) time.Time {
	y, m, _ := t.Date()
	return begin(y, m, 1, t.Location())
}

// Spending sums up the costs of all users. Its methods may be called concurrently.
type Spending struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// maxAccounts limits the accounts.
const maxAccounts = 1 << 16

// thin drops the eighth of the accounts that spent the least this month.
func (l *Spending) thin(now time.Time) {
	names := make([]string, 0, len(l.accounts))
	for name, a := range l.accounts {
		// A reservation must be released on its account.
		if a.turnOver(now); a.open == 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := l.accounts[a].ofMonth, l.accounts[b].ofMonth
		return cmp.Or(cmp.Compare(x.Dollars, y.Dollars), cmp.Compare(x.Tokens, y.Tokens))
	})
	for _, name := range names[:min(len(names), maxAccounts/8)] {
		delete(l.accounts, name)
	}
}

// of returns the account of a user. The caller has the lock.
func (l *Spending) of(hash, name string, now time.Time) *account {
	if l.accounts == nil {
		l.accounts = map[string]*account{}
	}
	a := l.accounts[name]
	if a == nil {
		if len(l.accounts) >= maxAccounts {
			l.thin(now)
		}
		a = &account{}
		l.accounts[name] = a
	}
	a.turnOver(now)
	// The user may have got a name only now: the tenant's hash was the name before.
	if before := l.accounts[hash]; hash != name && before != nil {
		before.turnOver(now)
		a.ofDay.add(before.ofDay)
		a.ofMonth.add(before.ofMonth)
		delete(l.accounts, hash) // open reservations are released without effect
	}
	return a
}

// Add counts a cost without a reservation. A cost of zero makes no account.
func (l *Spending) Add(hash, name string, at time.Time, s Spent, now time.Time) {
	if s == (Spent{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(hash, name, now).spend(at, s)
}

// Join adds the sums of another Spending from the same day and month.
func (l *Spending) Join(o *Spending, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, from := range o.accounts {
		a := l.of(name, name, now)
		// Midnight may have passed while the records were read.
		if from.day.Equal(a.day) {
			a.ofDay.add(from.ofDay)
		}
		if from.month.Equal(a.month) {
			a.ofMonth.add(from.ofMonth)
		}
	}
}

func (a *account) spend(at time.Time, s Spent) {
	if !at.Before(a.day) {
		a.ofDay.add(s)
	}
	if !at.Before(a.month) {
		a.ofMonth.add(s)
	}
}

// Verdict tells whether a budget allows a request.
type Verdict struct {
	// Budget is the budget with the smallest remaining share, nil for none.
	Budget *Budget
	// Spent is the spent amount, and Share its share of the budget.
	Spent Spent
	Share float64
	// Ends is the end of the budget's period.
	Ends time.Time
	// Refused reports that the budget is used up.
	Refused bool
	// Reserved reports that only the reservations of other requests use up the budget.
	Reserved bool
}

// String returns the spent amount and the limit.
func (v *Verdict) String() string {
	return fmt.Sprintf("%s of %s", v.Budget.Amount(v.Spent), v.Budget)
}

// Reservation is the maximum cost of a request in flight.
type Reservation struct {
	spending *Spending
	name     string
	account  *account
	amount   Spent
}

// of yields the budgets of a user: the budgets by that name, or else those of everybody.
func of(all []Budget, name string) iter.Seq[*Budget] {
	named := slices.ContainsFunc(all, func(b Budget) bool { return b.User == name })
	return func(yield func(*Budget) bool) {
		for i := range all {
			if b := &all[i]; (b.User == name || !named && b.user() == Everybody) && !yield(b) {
				return
			}
		}
	}
}

func (a *account) spent(b *Budget) Spent {
	if b.Per == "month" {
		return a.ofMonth
	}
	return a.ofDay
}

// Standing is the state of a user's budget.
type Standing struct {
	// User is the user's name.
	User string
	// Verdict is the verdict on a next request without cost.
	Verdict
}

// Standings returns the budgets of all users with costs, the smallest remaining share first.
func (l *Spending) Standings(all []Budget, now time.Time) (out []Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.accounts {
		a.turnOver(now)
		for b := range of(all, name) {
			spent := a.spent(b)
			if share := b.share(spent); share > 0 {
				out = append(out, Standing{name, Verdict{
					Budget: b, Spent: spent, Share: share, Ends: b.ends(now),
					Refused: !b.Soft && share >= 1,
				}})
			}
		}
	}
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.User, b.User))
	})
	return out
}

// Reserve reserves the maximum cost of a request. It returns nil if the spent amount and the earlier
// reservations use up a budget.
func (l *Spending) Reserve(all []Budget, hash, name string, amount Spent, now time.Time) (*Reservation, Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(hash, name, now)
	var v Verdict
	for b := range of(all, name) {
		spent := a.spent(b)
		expected := spent
		expected.add(a.reserved)
		is := Verdict{Budget: b, Spent: spent, Share: b.share(spent), Ends: b.ends(now)}
		// Requests in flight count with their maximum, so that one request at most can exceed the budget.
		is.Refused = !b.Soft && b.share(expected) >= 1
		is.Reserved = is.Refused && is.Share < 1
		if v.Budget == nil || is.Refused && !v.Refused || is.Refused == v.Refused && is.Share > v.Share {
			v = is
		}
	}
	if v.Refused {
		return nil, v
	}
	a.reserved.add(amount)
	a.open++
	return &Reservation{l, name, a, amount}, v
}

// Release ends the reservation. A nil or released reservation is left alone. Call [Spending.Add] with
// the actual cost first.
func (r *Reservation) Release() {
	if r == nil || r.spending == nil {
		return
	}
	l, a := r.spending, r.account
	l.mu.Lock()
	defer l.mu.Unlock()
	r.spending = nil
	a.reserved.add(Spent{Dollars: -r.amount.Dollars, Tokens: -r.amount.Tokens})
	// A stranger with an invalid key spends nothing. Such accounts are dropped.
	if a.open--; a.open == 0 && a.ofDay == (Spent{}) && a.ofMonth == (Spent{}) && l.accounts[r.name] == a {
		delete(l.accounts, r.name)
	}
}
