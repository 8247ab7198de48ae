// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package allowance keeps people within budgets: in dollars or tokens, by day or month.
// What a request may cost is reserved before it is sent and settled when it is over, so
// that requests at once spend no more than one after the other.
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

// Everybody is the name in a budget that is the same for each person.
const Everybody = "*"

// Budget bounds what a person may spend in a day or a month, by the calendar of this
// machine.
type Budget struct {
	// Person is whom it is for, by the name on record, or `*` for each person for whom
	// no other budget is. Default: `*`.
	Person string `json:"person,omitempty"`
	// Dollars is the bound in US dollars, at list prices. A model whose price is not
	// known is charged as the dearest known one of its vendor, or of all where the
	// vendor is not known either. Local engines that a preset is for cost nothing.
	// Either this or Tokens must be given.
	Dollars float64 `json:"dollars,omitempty"`
	// Tokens is the bound in tokens of prompts and answers, whether they are read
	// from a cache or not.
	Tokens int64 `json:"tokens,omitempty"`
	// Per is how long it lasts: `day` or `month`. Default: day.
	Per string `json:"per,omitempty"`
	// Soft has requests over the budget go through, with a warning in the header
	// X-Llm-Cache-Budget and in the log. Default: false, they are answered by 429.
	Soft bool `json:"soft,omitempty"`
}

// Validate reports what makes no sense.
func (b *Budget) Validate() error {
	switch {
	case b.Dollars < 0 || math.IsInf(b.Dollars, 1) || b.Tokens < 0 || b.Dollars > 0 == (b.Tokens > 0):
		return fmt.Errorf("%s: either dollars or tokens above zero must be given", b.whose())
	case b.Per != "" && b.Per != "day" && b.Per != "month":
		return fmt.Errorf("%s must be day or month, got %q", b.whose(), b.Per)
	}
	return nil
}

func (b *Budget) whose() string {
	if b.Person == "" {
		return Everybody
	}
	return b.Person
}

// String writes the bound as people say it.
func (b *Budget) String() string {
	per := "day"
	if b.Per == "month" {
		per = b.Per
	}
	return b.Amount(Spent{Dollars: b.Dollars, Tokens: b.Tokens}) + " a " + per
}

// Amount writes an amount in the unit of the budget.
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

// share returns what part of the budget so much is.
func (b *Budget) share(s Spent) float64 {
	if b.Dollars > 0 {
		return s.Dollars / b.Dollars
	}
	return float64(s.Tokens) / float64(b.Tokens)
}

// ends returns when the budget begins anew.
func (b *Budget) ends(now time.Time) time.Time {
	y, m, d := now.Date()
	if b.Per == "month" {
		return begin(y, m+1, 1, now.Location())
	}
	return begin(y, m, d+1, now.Location())
}

// Spent is an amount.
type Spent struct {
	// Dollars and Tokens are the same amount twice.
	Dollars float64
	// Tokens: see Dollars.
	Tokens int64
	// Estimated reports that a part of the amount is an estimate.
	Estimated bool
}

func (s *Spent) add(o Spent) {
	s.Dollars, s.Tokens, s.Estimated = s.Dollars+o.Dollars, s.Tokens+o.Tokens, s.Estimated || o.Estimated
}

// account is what a person has spent.
type account struct {
	day, month time.Time // when they began
	ofDay      Spent
	ofMonth    Spent
	reserved   Spent
	open       int // reservations
}

// turnOver begins a day and a month when it is time, and where the clock was ahead, by more
// than what it is set right by now and then, when they began.
func (a *account) turnOver(now time.Time) {
	ahead := now.Add(24 * time.Hour)
	if day := DayOf(now); a.day.Before(day) || a.day.After(ahead) {
		a.day, a.ofDay = day, Spent{}
	}
	if month := MonthOf(now); a.month.Before(month) || a.month.After(ahead) {
		a.month, a.ofMonth = month, Spent{}
	}
}

// begin returns when a day begins.
func begin(y int, m time.Month, d int, in *time.Location) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, in)
	if t.Hour() == 23 { // of the day before: clocks are put forward at midnight
		t = t.Add(time.Hour)
	}
	return t
}

// DayOf returns when the day of a time began.
func DayOf(t time.Time) time.Time {
	y, m, d := t.Date()
	return begin(y, m, d, t.Location())
}

// MonthOf returns when the month of a time began.
func MonthOf(t time.Time) time.Time {
	y, m, _ := t.Date()
	return begin(y, m, 1, t.Location())
}

// Ledger is what people have spent. Its methods may be called concurrently.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// mostAccounts bounds the accounts of a ledger: another key makes up another name.
const mostAccounts = 1 << 16

// thin forgets an eighth of the accounts, those that have spent least in the month, but none
// with a reservation.
func (l *Ledger) thin(now time.Time) {
	names := make([]string, 0, len(l.accounts))
	for name, a := range l.accounts {
		if a.turnOver(now); a.open == 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := l.accounts[a].ofMonth, l.accounts[b].ofMonth
		return cmp.Or(cmp.Compare(x.Dollars, y.Dollars), cmp.Compare(x.Tokens, y.Tokens))
	})
	for _, name := range names[:min(len(names), mostAccounts/8)] {
		delete(l.accounts, name)
	}
}

// of finds the account of a person, who may have had no name until now. The ledger is
// locked.
func (l *Ledger) of(hash, name string, now time.Time) *account {
	if l.accounts == nil {
		l.accounts = map[string]*account{}
	}
	a := l.accounts[name]
	if a == nil {
		if len(l.accounts) >= mostAccounts {
			l.thin(now)
		}
		a = &account{}
		l.accounts[name] = a
	}
	a.turnOver(now)
	if before := l.accounts[hash]; hash != name && before != nil {
		before.turnOver(now)
		a.ofDay.add(before.ofDay)
		a.ofMonth.add(before.ofMonth)
		delete(l.accounts, hash) // reservations that are open settle with nobody to hold up
	}
	return a
}

// Add counts what has been spent at a time, without a reservation. It keeps nothing of who
// has spent nothing.
func (l *Ledger) Add(hash, name string, at time.Time, s Spent, now time.Time) {
	if s == (Spent{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(hash, name, now).spend(at, s)
}

// Join counts what another ledger has counted in the same day and month.
func (l *Ledger) Join(o *Ledger, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, from := range o.accounts {
		a := l.of(name, name, now)
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

// Verdict is what a budget says of a request.
type Verdict struct {
	// Budget is the one that is closest to its end, nil for none.
	Budget *Budget
	// Spent is what has been spent of it, Share the part that this is.
	Spent Spent
	// Share: see Spent.
	Share float64
	// Ends is when it begins anew.
	Ends time.Time
	// Refused reports that nothing more may be spent.
	Refused bool
	// Held reports that it is refused for what requests that have not ended may cost.
	Held bool
}

// String says how much has been spent of what.
func (v *Verdict) String() string {
	return fmt.Sprintf("%s of %s", v.Budget.Amount(v.Spent), v.Budget)
}

// Reservation is what a request may cost, until it is settled.
type Reservation struct {
	ledger  *Ledger
	name    string
	account *account
	amount  Spent
}

// of yields the budgets of a person: those by that name, or else those of everybody.
func of(all []Budget, name string) iter.Seq[*Budget] {
	own := slices.ContainsFunc(all, func(b Budget) bool { return b.Person == name })
	return func(yield func(*Budget) bool) {
		for i := range all {
			if b := &all[i]; (b.Person == name || !own && b.whose() == Everybody) && !yield(b) {
				return
			}
		}
	}
}

// spent returns what has been spent in the time of a budget.
func (a *account) spent(b *Budget) Spent {
	if b.Per == "month" {
		return a.ofMonth
	}
	return a.ofDay
}

// Standing is how a person stands with a budget.
type Standing struct {
	// Person is the name.
	Person string
	// Verdict is what the budget says of the next request, of which nothing is known.
	Verdict
}

// Standings tells how everybody stands who has spent something, the closest to the end of
// a budget first.
func (l *Ledger) Standings(all []Budget, now time.Time) (out []Standing) {
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
		return cmp.Or(cmp.Compare(b.Share, a.Share),
			cmp.Compare(a.Person, b.Person))
	})
	return out
}

// Reserve sets aside what a request of a person may cost at most. It returns nil where a
// budget is spent, or may be by what has been set aside before.
func (l *Ledger) Reserve(all []Budget, hash, name string, most Spent, now time.Time) (*Reservation, Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(hash, name, now)
	var v Verdict
	for b := range of(all, name) {
		spent := a.spent(b)
		expected := spent
		expected.add(a.reserved)
		is := Verdict{Budget: b, Spent: spent, Share: b.share(spent), Ends: b.ends(now)}
		is.Refused = !b.Soft && b.share(expected) >= 1
		is.Held = is.Refused && is.Share < 1
		if v.Budget == nil || is.Refused && !v.Refused || is.Refused == v.Refused && is.Share > v.Share {
			v = is
		}
	}
	if v.Refused {
		return nil, v
	}
	a.reserved.add(most)
	a.open++
	return &Reservation{l, name, a, most}, v
}

// Settle gives back what was set aside. What the request has cost is for [Ledger.Add] to
// count, before. Nil, and what is settled, settle nothing.
func (r *Reservation) Settle() {
	if r == nil || r.ledger == nil {
		return
	}
	l, a := r.ledger, r.account
	l.mu.Lock()
	defer l.mu.Unlock()
	r.ledger = nil
	a.reserved.add(Spent{Dollars: -r.amount.Dollars, Tokens: -r.amount.Tokens})
	// Of who has spent nothing, a stranger with a key of no worth, nothing is kept.
	if a.open--; a.open == 0 && a.ofDay == (Spent{}) && a.ofMonth == (Spent{}) && l.accounts[r.name] == a {
		delete(l.accounts, r.name)
	}
}
