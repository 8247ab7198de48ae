// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	// defaultLease is how long reservations of a killed process stay.
	defaultLease = 2 * time.Minute
	// renewals is the number of times that a lease is renewed before it would end.
	renewals = 4
	// countTime bounds a call in the background.
	countTime = 2 * time.Second
	// retryCharge is the pause before charges are sent again.
	retryCharge = time.Second
	// gatherCharges is how long a charge waits for others: for the release of its reservation first of all.
	gatherCharges = time.Millisecond
	// maxBatch bounds the charges of one call, maxReserved its renewed reservations, and maxRead the
	// accounts that one call reads.
	maxBatch, maxReserved, maxRead = 64, 256, 128
	// maxQueue bounds the waiting charges. Those beyond it reach the counters with the floors of later calls.
	maxQueue = 1 << 16
	// freshTime is how long the read sums of an account count as its present ones.
	freshTime = time.Second
	// maxGrace bounds the time that a sum is kept after its period.
	maxGrace = time.Hour
)

// estimated is the index of the number of estimates in a [sessioncache.Amount]. The others are the units
// of budgets, dollars in billionths.
const (
	estimated = units
	nano      = 1e9
	maxCount  = 1 << 62
)

// Options configure a [Shared] ledger.
type Options struct {
	// Counters returns the counters, nil while there are none. Then the process counts by itself.
	Counters func() sessioncache.Counters
	// Key hashes the names of accounts. It is the same in all processes.
	Key secret.Key
	// Timeout bounds the time that a request waits for the counters.
	Timeout time.Duration
	// Strict reports whether requests are refused while the counters fail. By default the process counts
	// by itself then. Optional.
	Strict func() bool
	// Failed receives each failure. Optional.
	Failed func(what string, err error)
	// Lease is how long the reservations of a killed process stay. Default: 2 minutes.
	Lease time.Duration
}

// Shared is a [Ledger] of several processes that share counters. A request is allowed by the counters,
// which check the budgets and add its reservation in one step. What a request has cost is sent after
// its end, without a wait.
//
// A [Spending] counts what this process spends, and what it has read of the others. It allows requests
// while the counters cannot be reached, and restores their sums after a loss: each call raises them to
// what this process knows.
//
// Reservations belong to a process, which sends the sum of those that are open. The sum of a killed
// process ends with its lease.
type Shared struct {
	*Spending
	process uint64
	use     atomic.Pointer[use]

	// The lock of the Spending guards the following.
	budgets *Budgets // of the last request
	number  uint64   // of the last call
	queue   map[charge]Spent
	batch   []charged // being sent
	batches uint64
	open    map[*account]Account // with reservations at the counters
	changed map[*account]Account // with reservations to be sent
	sending bool
	renewal *time.Timer
	reading bool
	read    time.Time // when all accounts were last read
}

var _ Ledger = (*Shared)(nil)

type use struct {
	Options
	breaker *sessioncache.Breaker
}

// charge identifies the sums that an amount is added to.
type charge struct {
	*account
	name   Account
	begins [len(periods)]int64 // in Unix seconds, 0 for periods that are left out
}

type charged struct {
	charge
	amount Spent
}

// NewShared returns a ledger over the sums of this process.
func NewShared(of *Spending, o Options) *Shared {
	l := &Shared{
		Spending: of, process: rand.Uint64() | 1, //nolint:gosec // no secret
		queue: map[charge]Spent{}, open: map[*account]Account{}, changed: map[*account]Account{},
	}
	l.Use(o)
	return l
}

// Use changes the options.
func (l *Shared) Use(o Options) {
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Strict == nil {
		o.Strict = func() bool { return false }
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	l.use.Store(&use{o, sessioncache.NewBreaker(o.Timeout, retryCharge, o.Failed)})
}

// hash names an account at the counters.
func (u *use) hash(name Account) (h [16]byte) {
	mac := hmac.New(sha256.New, u.Key[:])
	mac.Write([]byte(name.Kind))
	mac.Write([]byte{0})
	mac.Write([]byte(name.Name))
	return [16]byte(mac.Sum(nil))
}

// amountOf converts an amount for the counters.
func amountOf(s Spent) (a sessioncache.Amount) {
	a[dollars] = int64(math.Round(min(s.Dollars*nano, maxCount)))
	a[tokens], a[requests] = s.Tokens, s.Requests
	if s.Estimated {
		a[estimated] = 1
	}
	return a
}

func spentOf(a sessioncache.Amount) Spent {
	return Spent{
		Dollars: float64(a[dollars]) / nano, Tokens: a[tokens], Requests: a[requests], Estimated: a[estimated] > 0,
	}
}

// limit is the budget's limit in its unit.
func (b *Budget) limit() int64 {
	return max(1, amountOf(Spent{Dollars: b.Dollars, Tokens: b.Tokens, Requests: b.Requests})[b.unit()])
}

// sub subtracts an amount that was added before.
func (s *Spent) sub(o Spent) {
	s.Dollars, s.Tokens, s.Requests = s.Dollars-o.Dollars, s.Tokens-o.Tokens, s.Requests-o.Requests
	if s.Tokens == 0 && s.Requests == 0 && math.Abs(s.Dollars) < 1/nano { // no rounding errors stay
		*s = Spent{}
	}
}

// known is what a sum at the counters has reached at least.
func (w *window) known() Spent {
	s := w.sum()
	s.sub(w.unsent)
	s.Dollars = max(0, s.Dollars)
	return s
}

// learn takes in a sum at the counters. What exceeds all that this process has spent is of the others,
// who may have spent more: a part of this process's spending may not be in the sum yet.
func (w *window) learn(now sessioncache.Amount) {
	all := spentOf(now)
	if more := all.Dollars - w.spent.Dollars; more > 2/nano { // not rounded
		w.others.Dollars = max(w.others.Dollars, more)
	}
	w.others.Tokens = max(w.others.Tokens, all.Tokens-w.spent.Tokens)
	w.others.Requests = max(w.others.Requests, all.Requests-w.spent.Requests)
	w.others.Estimated = w.others.Estimated || all.Estimated
}

// sum returns a sum of the account for a call. Its requests are left out unless they count.
func (u *use) sum(of Account, w *window, period int, counts bool) sessioncache.Sum {
	s := sessioncache.Sum{
		Account: u.hash(of), Period: byte(period), Begins: w.begins.Unix(), Ends: keptUntil(period, w.begins),
	}
	known := w.known()
	if !counts {
		known.Requests = 0
	}
	s.Floor = amountOf(known)
	return s
}

// keptUntil is when a sum may be forgotten: a while after its period, for clocks that lag.
func keptUntil(period int, begins time.Time) time.Time {
	ends := periods[period].ends(begins)
	return ends.Add(min(ends.Sub(begins), maxGrace))
}

// claim is a request that the counters are asked about.
type claim struct {
	parts  []claimed
	checks []check
	amount Spent // reserved
	count  Spent // the request itself
	call   sessioncache.Count

	// The lock of the ledger guards the following.
	asked, answered bool
	late            bool // the request has not waited for the answer
	undone          bool
	err             error
}

// claimed is an account of the request.
type claimed struct {
	*account
	name    Account
	before  Spent                   // reserved before this request
	unsent  Spent                   // see account
	counted [len(periods)]time.Time // the beginnings of the periods in which the request counts, others zero
}

// check is a budget that applies to the request.
type check struct {
	*Budget
	part, sum int
	begins    time.Time
}

// Reserve implements [Ledger].
func (l *Shared) Reserve(b *Budgets, s Spender, amount Spent, now time.Time) (*Reservation, Verdict) {
	u := l.use.Load()
	counters := u.Counters()
	if counters == nil {
		return l.Spending.Reserve(b, s, amount, now)
	}
	c := l.claim(u, b, s, amount, now)
	if c == nil {
		return l.Spending.Reserve(b, s, amount, now)
	}
	u.breaker.Within(context.Background(), sessioncache.BreakerAt{}, "reserve", func(context.Context) error {
		l.mu.Lock()
		c.asked = true
		l.mu.Unlock()
		// A late answer counts, too: the request goes on meanwhile.
		ctx, cancel := context.WithTimeout(context.Background(), max(countTime, u.Timeout))
		defer cancel()
		err := counters.Count(ctx, &c.call)
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.answered, c.err = true, err; c.late {
			l.lateAnswer(c, now)
		}
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	var v Verdict
	switch {
	case c.answered && c.err == nil:
		l.learn(c, now)
		v = c.judge(now, func(k *check) (Spent, Spent) {
			p := &c.parts[k.part]
			spent, reserved := spentOf(c.call.Sums[k.sum].Now), p.before
			spent.add(p.unsent)
			reserved.add(spentOf(c.call.Reserved[k.part].Others))
			return spent, reserved
		})
		if v.Refused != c.call.Refused { // by a rounding error
			v.Refused, v.Reserved = c.call.Refused, c.call.Refused
		}
	case u.Strict():
		v = Verdict{Uncounted: true, Refused: true}
	default:
		v = c.judge(now, func(k *check) (Spent, Spent) {
			p := &c.parts[k.part]
			return p.windows[k.Per.index()].sum(), p.before
		})
		if !v.Refused {
			l.uncounted(c)
		}
	}
	if c.late = !c.answered && c.asked; v.Refused {
		l.undo(c, now)
		return nil, v
	}
	return &Reservation{func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.release(c)
	}}, v
}

// claim reserves the request in memory and prepares the call. It returns nil if no budget applies, or if
// the memory is fresh enough to decide: for a refusal, and for a request that reserves nothing.
func (l *Shared) claim(u *use, b *Budgets, s Spender, amount Spent, now time.Time) *claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budgets = b
	c := &claim{amount: amount, count: Spent{Requests: amount.Requests}}
	c.amount.Requests = 0
	fresh, refused, counts := true, false, false
	for name := range s.accounts {
		budgets := b.For(name)
		if len(budgets) == 0 {
			continue
		}
		a := l.account(name, s.Hash, now)
		part := claimed{account: a, name: name, before: a.reserved, unsent: a.unsent}
		for i := range budgets {
			budget, period := &budgets[i], budgets[i].Per.index()
			if budget.unit() == requests {
				a.counts = true
				if amount.Requests == 0 {
					continue
				}
				counts, part.counted[period] = true, a.windows[period].begins
			}
			c.checks = append(c.checks, check{Budget: budget, part: len(c.parts), begins: a.windows[period].begins})
			v := a.verdict(name, budget, now)
			refused = refused || v.Refused
		}
		age := now.Sub(a.asOf)
		fresh = fresh && age >= 0 && age < freshTime
		c.parts = append(c.parts, part)
	}
	reserves := c.amount.Dollars != 0 || c.amount.Tokens != 0
	if len(c.checks) == 0 || fresh && (refused || !reserves && !counts) {
		return nil
	}
	c.prepare(u, l)
	for i := range c.parts {
		p := &c.parts[i]
		p.spend(now, c.count)
		p.each(func(w *window) { w.unsent.add(c.count) })
		p.reserved.add(c.amount)
		if p.open++; reserves {
			l.open[p.account] = p.name
		}
	}
	l.renew(u)
	return c
}

// prepare makes the call.
func (c *claim) prepare(u *use, l *Shared) {
	l.number++
	c.call = sessioncache.Count{Process: l.process, Number: l.number, Lease: u.Lease}
	for i := range c.checks {
		k := &c.checks[i]
		p, period := &c.parts[k.part], k.Per.index()
		k.sum = slices.IndexFunc(c.checks[:i], func(o check) bool { return o.part == k.part && o.Per.index() == period })
		if k.sum >= 0 {
			k.sum = c.checks[k.sum].sum
		} else {
			k.sum = len(c.call.Sums)
			sum := u.sum(p.name, &p.windows[period], period, !p.counted[period].IsZero())
			if !p.counted[period].IsZero() {
				sum.Add = amountOf(c.count)
			}
			c.call.Sums = append(c.call.Sums, sum)
		}
		if !k.Soft {
			c.call.Limits = append(c.call.Limits, sessioncache.Limit{
				Sum: k.sum, Reserved: k.part, Unit: k.unit(), Max: k.limit(),
			})
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		c.call.Reserved = append(c.call.Reserved, sessioncache.Reserved{
			Account: u.hash(p.name), Open: p.outstanding(Spent{}), Add: amountOf(c.amount),
		})
	}
}

// outstanding is what the account's sums may yet grow by, but for what is sent now.
func (a *account) outstanding(sent Spent) sessioncache.Amount {
	s := a.reserved
	s.add(a.unsent)
	s.sub(sent)
	s.Requests, s.Estimated, s.Dollars = 0, false, max(0, s.Dollars)
	return amountOf(s)
}

// judge returns the verdict that tells most, by what is spent and reserved of each budget.
func (c *claim) judge(now time.Time, of func(*check) (spent, reserved Spent)) (worst Verdict) {
	var warnings []Verdict
	for i := range c.checks {
		k := &c.checks[i]
		p := &c.parts[k.part]
		spent, reserved := of(k)
		v := verdict(p.name, k.Budget, k.begins, spent, reserved, now)
		if p.warns(k.Budget, v.Share) && !k.Limits() {
			warnings = append(warnings, v)
		}
		if worst.Budget == nil || v.worse(&worst) {
			worst = v
		}
	}
	worst.Warnings = warnings
	return worst
}

// learn takes in the result of a claim. The caller has the lock, as for all that follow.
func (l *Shared) learn(c *claim, now time.Time) {
	for i := range c.checks {
		k := &c.checks[i]
		p, period := &c.parts[k.part], k.Per.index()
		now := c.call.Sums[k.sum].Now
		if !p.counted[period].IsZero() {
			now[requests] += c.count.Requests // is in the window already
		}
		if w := &p.windows[period]; w.begins.Equal(k.begins) {
			w.learn(now)
		}
	}
	for i := range c.parts {
		p := &c.parts[i]
		p.asOf = now
		if c.call.Refused {
			continue
		}
		p.each(func(w *window) { w.unsent.sub(c.count) })
	}
}

// each calls f for the periods in which the request counts, but for those that have ended.
func (p *claimed) each(f func(*window)) {
	for i, begins := range p.counted {
		if w := &p.windows[i]; !begins.IsZero() && w.begins.Equal(begins) {
			f(w)
		}
	}
}

// uncounted has the request counted later, if the counters have not answered at all.
func (l *Shared) uncounted(c *claim) {
	if c.asked && !c.answered {
		return // lateAnswer will tell
	}
	for i := range c.parts {
		p := &c.parts[i]
		l.changed[p.account] = p.name
		if c.count == (Spent{}) {
			continue
		}
		at := charge{account: p.account, name: p.name}
		for j, begins := range p.counted {
			if !begins.IsZero() {
				at.begins[j] = begins.Unix()
			}
		}
		if at.begins != (charge{}).begins {
			l.enqueue(at, c.count)
		}
	}
	l.send(gatherCharges)
}

// lateAnswer takes in the answer about a request that did not wait for it.
func (l *Shared) lateAnswer(c *claim, now time.Time) {
	switch {
	case c.err == nil && !c.call.Refused:
		if !c.undone {
			l.learn(c, now)
		}
		for i := range c.parts { // it may have ended
			l.changed[c.parts[i].account] = c.parts[i].name
		}
		l.send(gatherCharges)
	case !c.undone:
		l.uncounted(c)
	}
}

// undo removes a refused request.
func (l *Shared) undo(c *claim, now time.Time) {
	c.undone = true
	for i := range c.parts {
		p := &c.parts[i]
		for j := range p.windows {
			if w := &p.windows[j]; !now.Before(w.begins) {
				w.spent.sub(c.count)
			}
		}
		p.each(func(w *window) { w.unsent.sub(c.count) })
	}
	l.release(c)
}

// release ends the reservations of a request.
func (l *Shared) release(c *claim) {
	for i := range c.parts {
		p := &c.parts[i]
		p.reserved.sub(c.amount)
		p.open--
		if c.amount != (Spent{}) {
			l.changed[p.account] = p.name
		}
		l.drop(p.name, p.account)
	}
	if c.amount != (Spent{}) {
		l.send(gatherCharges)
	}
}

// Add implements [Ledger].
func (l *Shared) Add(s Spender, at time.Time, amount Spent, now time.Time) {
	if amount == (Spent{}) {
		return
	}
	counters := l.use.Load().Counters()
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range s.accounts {
		a := l.account(name, s.Hash, now)
		a.spend(at, amount)
		budgets := l.budgets.For(name)
		if counters == nil || len(budgets) == 0 {
			continue
		}
		to := charge{account: a, name: name}
		for i := range a.windows {
			// A configuration may add budgets by the day, week or month later.
			short := i < Day.index() && !slices.ContainsFunc(budgets, func(b Budget) bool { return b.Per.index() == i })
			if w := &a.windows[i]; !short && !at.Before(w.begins) {
				to.begins[i] = w.begins.Unix()
				w.unsent.add(amount)
			}
		}
		l.enqueue(to, amount)
	}
	l.send(gatherCharges)
}

// enqueue has an amount sent that is part of the windows' unsent ones already.
func (l *Shared) enqueue(to charge, amount Spent) {
	if _, known := l.queue[to]; !known && len(l.queue) >= maxQueue {
		for other, of := range l.queue {
			delete(l.queue, other)
			other.account.delivered(charged{other, of})
			break
		}
	}
	all := l.queue[to]
	all.add(amount)
	l.queue[to] = all
	to.account.unsent.add(amount)
}

// delivered removes a charge from those that are not at the counters.
func (a *account) delivered(x charged) {
	a.unsent.sub(x.amount)
	for i := range a.windows {
		if w := &a.windows[i]; x.begins[i] != 0 && w.begins.Unix() == x.begins[i] {
			w.unsent.sub(x.amount)
		}
	}
}

// send has charges and changed reservations sent after a pause.
func (l *Shared) send(after time.Duration) {
	if l.sending || len(l.queue) == 0 && len(l.batch) == 0 && len(l.changed) == 0 {
		return
	}
	l.sending = true
	time.AfterFunc(after, l.sendAll)
}

// sendAll sends charges and reservations until there are none, or until a failure.
func (l *Shared) sendAll() {
	l.guard(func() {
		for l.sendBatch() {
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sending = false
	l.send(retryCharge)
}

// sendBatch makes one call, and returns false if there was nothing to send, or after a failure.
func (l *Shared) sendBatch() bool {
	u := l.use.Load()
	counters := u.Counters()
	call, reserved := l.next(u, counters != nil)
	if call == nil {
		return false
	}
	err := l.count(u, counters, call)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		maps.Copy(l.changed, reserved)
		return false
	}
	l.taken()
	return true
}

// next makes the next call, nil if there is nothing to send. A batch that failed is sent again first.
func (l *Shared) next(u *use, counted bool) (*sessioncache.Count, map[*account]Account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !counted { // the store has changed
		for to, amount := range l.queue {
			l.batch = append(l.batch, charged{to, amount})
		}
		l.taken()
		clear(l.queue)
		clear(l.changed)
		clear(l.open)
		return nil, nil
	}
	if len(l.batch) == 0 {
		l.batches++
		for to, amount := range l.queue {
			l.batch = append(l.batch, charged{to, amount})
			if delete(l.queue, to); len(l.batch) == maxBatch {
				break
			}
		}
	}
	if len(l.batch) == 0 && len(l.changed) == 0 {
		return nil, nil
	}
	return l.batchCall(u)
}

// taken removes the charges of the batch from those that are not at the counters.
func (l *Shared) taken() {
	for _, x := range l.batch {
		x.account.delivered(x)
	}
	l.batch = nil
}

// guard runs f in the background: a panic must not end the process.
func (l *Shared) guard(f func()) {
	defer func() {
		if p := recover(); p != nil {
			l.use.Load().Failed("charge", fmt.Errorf("%w: %T", sessioncache.ErrPanicked, p))
		}
	}()
	f()
}

// count makes a call in the background.
func (*Shared) count(u *use, counters sessioncache.Counters, call *sessioncache.Count) error {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	err := counters.Count(ctx, call)
	if err != nil {
		u.breaker.Failed(sessioncache.BreakerAt{}, "charge", err)
	}
	return err
}

// batchCall makes the call that sends the batch, with the reservations of its accounts and of others.
func (l *Shared) batchCall(u *use) (*sessioncache.Count, map[*account]Account) {
	l.number++
	call := &sessioncache.Count{Process: l.process, Number: l.number, Lease: u.Lease}
	type key struct {
		*account
		period int
		begins int64
	}
	sums, adds, sent := map[key]int{}, []Spent(nil), map[*account]Spent{}
	reserved := map[*account]Account{}
	if len(l.batch) > 0 {
		call.Once = l.batches
	}
	for _, x := range l.batch {
		for i, begins := range x.begins {
			if begins == 0 {
				continue
			}
			k := key{x.account, i, begins}
			n, known := sums[k]
			if !known {
				w := &window{begins: time.Unix(begins, 0)}
				if now := &x.windows[i]; now.begins.Unix() == begins {
					w = now
				}
				n = len(call.Sums)
				sums[k], adds = n, append(adds, Spent{})
				call.Sums = append(call.Sums, u.sum(x.name, w, i, false))
			}
			adds[n].add(x.amount)
		}
		all := sent[x.account]
		all.add(x.amount)
		sent[x.account], reserved[x.account] = all, x.name
	}
	for i, add := range adds {
		call.Sums[i].Add = amountOf(add)
	}
	for a, name := range l.changed {
		if len(reserved) == maxReserved {
			break
		}
		reserved[a] = name
	}
	for a, name := range reserved {
		delete(l.changed, a)
		open := a.outstanding(sent[a])
		call.Reserved = append(call.Reserved, sessioncache.Reserved{Account: u.hash(name), Open: open})
		if open == (sessioncache.Amount{}) {
			delete(l.open, a)
		} else {
			l.open[a] = name
		}
	}
	l.renew(u)
	return call, reserved
}

// renew has the leases of open reservations renewed.
func (l *Shared) renew(u *use) {
	if l.renewal != nil || len(l.open) == 0 {
		return
	}
	l.renewal = time.AfterFunc(u.Lease/renewals, func() {
		l.guard(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.renewal = nil
			maps.Copy(l.changed, l.open)
			l.send(0)
			l.renew(l.use.Load())
		})
	})
}

// Cap implements [Ledger]. It makes no call: sums that are not fresh are read in the background.
func (l *Shared) Cap(b *Budgets, s Spender, now time.Time) Verdict {
	l.look(b, now, func() (names []Account) {
		for name := range s.accounts {
			if a := l.accounts[name]; len(b.For(name)) > 0 && (a == nil || now.Sub(a.asOf) >= freshTime) {
				names = append(names, name)
			}
		}
		return names
	})
	return l.Spending.Cap(b, s, now)
}

// Standings implements [Ledger]. It makes no call: the sums are read in the background, those of the
// accounts that this process knows.
func (l *Shared) Standings(b *Budgets, now time.Time) []Standing {
	l.look(b, now, func() (names []Account) {
		if now.Sub(l.read) < freshTime {
			return nil
		}
		l.read = now
		for name := range l.accounts {
			if len(b.For(name)) > 0 {
				names = append(names, name)
			}
		}
		for name := range b.of {
			if l.accounts[name] == nil && name.Name != Each {
				names = append(names, name)
			}
		}
		return names
	})
	return l.Spending.Standings(b, now)
}

// look reads the sums of accounts in the background, unless it does so already.
func (l *Shared) look(b *Budgets, now time.Time, names func() []Account) {
	u := l.use.Load()
	counters := u.Counters()
	if counters == nil || u.breaker.Rests(sessioncache.BreakerAt{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reading {
		return
	}
	all := names()
	if len(all) == 0 {
		return
	}
	l.reading = true
	go func() {
		l.guard(func() {
			for part := range slices.Chunk(all, maxRead) {
				if l.readSums(u, counters, b, part, now) != nil {
					return
				}
			}
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reading = false
	}()
}

// readSums reads the sums of some accounts.
func (l *Shared) readSums(u *use, counters sessioncache.Counters, b *Budgets, names []Account, now time.Time) error {
	call, of := l.readCall(u, b, names, now)
	if err := l.count(u, counters, call); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, name := range of {
		s := &call.Sums[i]
		if s.Now == (sessioncache.Amount{}) && l.accounts[name] == nil {
			continue
		}
		a := l.account(name, name.Name, now)
		if w := &a.windows[s.Period]; w.begins.Unix() == s.Begins {
			w.learn(s.Now)
		}
		a.asOf = now
	}
	return nil
}

// readCall makes a call that reads the sums of accounts with budgets, and names the account of each sum.
func (l *Shared) readCall(u *use, b *Budgets, names []Account, now time.Time) (*sessioncache.Count, []Account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	call := &sessioncache.Count{Process: l.process, Number: l.number, Lease: u.Lease}
	var of []Account
	for _, name := range names {
		var has, counts [len(periods)]bool
		budgets := b.For(name)
		for i := range budgets {
			period := budgets[i].Per.index()
			has[period] = true
			counts[period] = counts[period] || budgets[i].unit() == requests
		}
		a := l.accounts[name]
		if a == nil {
			a = new(account) // kept once there is a sum
		}
		a.turnOver(now)
		for period := range periods {
			if has[period] {
				of = append(of, name)
				call.Sums = append(call.Sums, u.sum(name, &a.windows[period], period, counts[period]))
			}
		}
	}
	return call, of
}

// Flush waits until all charges are at the counters, or for the end of ctx.
func (l *Shared) Flush(ctx context.Context) error {
	isSending := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.sending
	}
	for isSending() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(gatherCharges):
		}
	}
	return nil
}
