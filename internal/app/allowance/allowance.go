// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package allowance keeps users, groups, projects and the site within budgets: in dollars, tokens or
// requests, by periods of the calendar. The maximum cost of a request is reserved before it is sent
// and released at its end, so concurrent requests spend no more than consecutive ones.
package allowance

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Ledger reserves and charges costs. [Spending] keeps them in the memory of this process.
type Ledger interface {
	// Reserve counts a request and reserves its maximum cost in all accounts of the spender, or in
	// none: it returns nil if a budget is used up.
	Reserve(b *Budgets, s Spender, amount Spent, now time.Time) (*Reservation, Verdict)
	// Add charges a cost to all accounts of the spender, at the end of the request.
	Add(s Spender, at time.Time, amount Spent, now time.Time)
	// Cap returns the fullest budget of the spender that refuses requests for a day or longer once it is
	// used up, with a nil Budget if there is none.
	Cap(b *Budgets, s Spender, now time.Time) Verdict
	// Standings returns the budgets in use, the smallest remaining share first.
	Standings(b *Budgets, now time.Time) []Standing
}

// Spent is an amount.
type Spent struct {
	// Dollars and Tokens are the same amount in both units.
	Dollars float64
	Tokens  int64
	// Requests is the number of requests.
	Requests int64
	// Estimated reports that a part of the amount is an estimate.
	Estimated bool
}

func (s *Spent) add(o Spent) {
	s.Dollars, s.Tokens, s.Requests = s.Dollars+o.Dollars, s.Tokens+o.Tokens, s.Requests+o.Requests
	s.Estimated = s.Estimated || o.Estimated
}

// Verdict tells whether the budgets of a request allow it.
type Verdict struct {
	// Account and Budget are the budget with the smallest remaining share. Budget is nil for none.
	Account Account
	Budget  *Budget
	// Spent is the spent amount, and Share its share of the budget.
	Spent Spent
	Share float64
	// Begins and Ends bound the budget's present period.
	Begins, Ends time.Time
	// Refused reports that the budget is used up.
	Refused bool
	// Reserved reports that only the reservations of other requests use up the budget.
	Reserved bool
	// Uncounted reports that the request is refused because the counters that several processes share
	// cannot be reached. Budget is nil then.
	Uncounted bool
	// Warnings are the budgets that this request is the first to find beyond one of [WarnAt] in the
	// present period.
	Warnings []Verdict
}

// WarnAt are the shares of a budget at which the log warns, once in a period. From the first one on,
// responses tell the spent amount.
var WarnAt = [...]float64{0.75, 0.95, 1}

// String returns the spent amount and the limit.
func (v *Verdict) String() string {
	return fmt.Sprintf("%s of %s", v.Budget.Amount(v.Spent), v.Budget)
}

// minForecast is the part of a period that must be over for a forecast.
const minForecast = 0.1

// Forecast returns the expected share at the end of the period if spending goes on as in the period so
// far. It returns 0 until a tenth of the period is over.
func (v *Verdict) Forecast(now time.Time) float64 {
	elapsed := float64(now.Sub(v.Begins)) / float64(v.Ends.Sub(v.Begins))
	if elapsed < minForecast {
		return 0
	}
	return v.Share / min(elapsed, 1)
}

// RunsOut returns the time at which the budget is used up at the present rate, the zero time if that
// is after the period or there is no forecast.
func (v *Verdict) RunsOut(now time.Time) time.Time {
	if v.Share >= 1 || v.Forecast(now) <= 1 {
		return time.Time{}
	}
	return v.Begins.Add(time.Duration(float64(now.Sub(v.Begins)) / v.Share))
}

// Standing is the state of a budget: the verdict on a next request without cost.
type Standing = Verdict

// Reservation is the maximum cost of a request in flight.
type Reservation struct {
	release func()
}

// Release ends the reservation. A nil or released reservation is left alone. Call [Ledger.Add] with
// the actual cost first.
func (r *Reservation) Release() {
	if r == nil || r.release == nil {
		return
	}
	r.release()
	r.release = nil
}

// Spending is a [Ledger] in memory. Its methods may be called concurrently.
type Spending struct {
	mu       sync.Mutex
	accounts map[Account]*account
}

var _ Ledger = (*Spending)(nil)

type account struct {
	windows  [len(periods)]window
	reserved Spent
	open     int  // number of reservations
	counts   bool // a budget in requests applies

	// The following are used by [Shared] only.
	unsent Spent     // charges that are not at the counters yet
	asOf   time.Time // when the counters were last read
}

// window is the present period of an account.
type window struct {
	begins time.Time
	spent  Spent       // by this process, or read from the record
	warned [units]int8 // number of WarnAt that the log has warned of

	// The following are used by [Shared] only.
	others Spent // spent by other processes, as far as this one knows
	unsent Spent // the part of spent that is not at the counters yet
}

// sum is what all processes have spent, as far as this one knows.
func (w *window) sum() Spent {
	s := w.spent
	s.add(w.others)
	return s
}

func (a *account) turnOver(now time.Time) {
	for i := range a.windows {
		w, p := &a.windows[i], periods[i]
		if begins := p.begins(now); w.begins.Before(begins) || w.begins.After(now.Add(p.ahead())) {
			*w = window{begins: begins}
		}
	}
}

// spend charges an amount to the periods that contain a time.
func (a *account) spend(at time.Time, s Spent) {
	for i := range a.windows {
		if w := &a.windows[i]; !at.Before(w.begins) {
			w.spent.add(s)
		}
	}
}

// join adds the sums of another account in the same periods.
func (a *account) join(o *account) {
	for i := range a.windows {
		if w, from := &a.windows[i], &o.windows[i]; w.begins.Equal(from.begins) {
			w.spent.add(from.spent)
			w.others = Spent{} // may include the added sum: the counters are read again soon
		}
	}
}

// idle reports whether nothing is lost with the account.
func (a *account) idle() bool {
	if a.open > 0 {
		return false
	}
	for i := range a.windows {
		s := a.windows[i].sum()
		if s.Dollars != 0 || s.Tokens != 0 || a.counts && s.Requests != 0 {
			return false
		}
	}
	return true
}

func (a *account) verdict(of Account, b *Budget, now time.Time) Verdict {
	w := &a.windows[b.Per.index()]
	return verdict(of, b, w.begins, w.sum(), a.reserved, now)
}

// verdict judges a budget by what is spent and reserved in the period that begins at a time.
func verdict(of Account, b *Budget, begins time.Time, spent, reserved Spent, now time.Time) Verdict {
	share := b.share(spent)
	v := Verdict{
		Account: of, Budget: b, Spent: spent, Share: share, Begins: begins, Ends: b.Per.ends(now),
		Refused: !b.Soft && share >= 1,
	}
	// Requests in flight count with their maximum, so that one request at most can exceed the budget.
	expected := spent
	expected.add(reserved)
	if !b.Soft && !v.Refused && b.share(expected) >= 1 {
		v.Refused, v.Reserved = true, true
	}
	return v
}

// warns reports whether a budget is found beyond one of WarnAt for the first time in the period.
func (a *account) warns(b *Budget, share float64) bool {
	warned := &a.windows[b.Per.index()].warned[b.unit()]
	was := *warned
	for int(*warned) < len(WarnAt) && share >= WarnAt[*warned] {
		*warned++
	}
	return *warned > was
}

// Reserve implements [Ledger]. Budgets in requests apply to amounts with requests only.
func (l *Spending) Reserve(b *Budgets, s Spender, amount Spent, now time.Time) (*Reservation, Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	type part struct {
		name Account
		*account
	}
	var few [4]part
	of := few[:0]
	var worst Verdict
	var warnings []Verdict
	for name := range s.accounts {
		budgets := b.For(name)
		if len(budgets) == 0 {
			continue
		}
		a := l.account(name, s.Hash, now)
		of = append(of, part{name, a})
		for i := range budgets {
			budget := &budgets[i]
			counts := budget.unit() == requests
			a.counts = a.counts || counts
			if counts && amount.Requests == 0 {
				continue
			}
			v := a.verdict(name, budget, now)
			// A limit of the rate is meant to be reached.
			if a.warns(budget, v.Share) && !budget.Limits() {
				warnings = append(warnings, v)
			}
			if worst.Budget == nil || v.worse(&worst) {
				worst = v
			}
		}
	}
	worst.Warnings = warnings
	if worst.Refused {
		for _, p := range of {
			l.drop(p.name, p.account)
		}
		return nil, worst
	}
	count := Spent{Requests: amount.Requests}
	amount.Requests = 0
	for _, p := range of {
		p.spend(now, count)
		p.reserved.add(amount)
		p.open++
	}
	reserved := slices.Clone(of)
	return &Reservation{func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, p := range reserved {
			p.reserved.add(Spent{Dollars: -amount.Dollars, Tokens: -amount.Tokens})
			p.open--
			l.drop(p.name, p.account)
		}
	}}, worst
}

// Cap implements [Ledger].
func (l *Spending) Cap(b *Budgets, s Spender, now time.Time) (fullest Verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range s.accounts {
		budgets := b.For(name)
		if len(budgets) == 0 {
			continue
		}
		a := l.account(name, s.Hash, now)
		for i := range budgets {
			if !budgets[i].Caps() {
				continue
			}
			if v := a.verdict(name, &budgets[i], now); fullest.Budget == nil || v.Share > fullest.Share {
				fullest = v
			}
		}
		l.drop(name, a)
	}
	return fullest
}

// worse reports whether a verdict tells more: refusals first, those for longer before those that end
// soon, then the smaller remaining share.
func (v *Verdict) worse(than *Verdict) bool {
	rank := func(v *Verdict) int {
		switch {
		case !v.Refused:
			return 0
		case v.Reserved:
			return 1
		case v.Budget.Limits():
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(v), rank(than)), cmp.Compare(v.Share, than.Share)) > 0
}

// drop removes an account without spending: a stranger with an invalid key leaves nothing behind.
func (l *Spending) drop(name Account, a *account) {
	if a.idle() && l.accounts[name] == a {
		delete(l.accounts, name)
	}
}

// account returns an account. hash is the name of a user's account before the user had a name. The
// caller has the lock.
func (l *Spending) account(name Account, hash string, now time.Time) *account {
	if l.accounts == nil {
		l.accounts = map[Account]*account{}
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
	if name.Kind != User || hash == name.Name {
		return a
	}
	// The user may have got a name only now.
	unnamed := Account{User, hash}
	if before := l.accounts[unnamed]; before != nil {
		before.turnOver(now)
		a.join(before)
		delete(l.accounts, unnamed) // open reservations are released without effect
	}
	return a
}

// maxAccounts limits the accounts.
const maxAccounts = 1 << 16

// thin drops the eighth of the accounts of users and projects that spent the least this month.
func (l *Spending) thin(now time.Time) {
	names := make([]Account, 0, len(l.accounts))
	for name, a := range l.accounts {
		// A reservation must be released on its account. Groups and the site are few.
		if a.turnOver(now); a.open == 0 && (name.Kind == User || name.Kind == Project) {
			names = append(names, name)
		}
	}
	month := Month.index()
	slices.SortFunc(names, func(a, b Account) int {
		x, y := &l.accounts[a].windows[month].spent, &l.accounts[b].windows[month].spent
		return cmp.Or(cmp.Compare(x.Dollars, y.Dollars), cmp.Compare(x.Tokens, y.Tokens))
	})
	for _, name := range names[:min(len(names), maxAccounts/8)] {
		delete(l.accounts, name)
	}
}

// Add implements [Ledger]. A cost of zero makes no account.
func (l *Spending) Add(s Spender, at time.Time, amount Spent, now time.Time) {
	if amount == (Spent{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range s.accounts {
		l.account(name, s.Hash, now).spend(at, amount)
	}
}

// Join adds the sums of another Spending from the same periods.
func (l *Spending) Join(o *Spending, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, from := range o.accounts {
		// A period may have ended while the records were read.
		l.account(name, name.Name, now).join(from)
	}
}

// Standings implements [Ledger].
func (l *Spending) Standings(b *Budgets, now time.Time) (out []Standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, a := range l.accounts {
		budgets := b.For(name)
		if len(budgets) == 0 {
			continue
		}
		a.turnOver(now)
		for i := range budgets {
			if v := a.verdict(name, &budgets[i], now); v.Share > 0 {
				v.Refused, v.Reserved = v.Refused && !v.Reserved, false
				out = append(out, v)
			}
		}
	}
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Account.Kind, b.Account.Kind),
			cmp.Compare(a.Account.Name, b.Account.Name), cmp.Compare(a.Budget.Per, b.Budget.Per),
			cmp.Compare(a.Budget.unit(), b.Budget.unit()))
	})
	return out
}
