// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// spending sums up the costs of users, for the sinks of consecutive configurations.
type spending struct {
	allowance.Spending
	shared atomic.Pointer[allowance.Shared] // nil without counters that several processes share
	began  time.Time

	seed sync.Mutex
	read map[string]bool // stores with counted earlier records
}

func newSpending() *spending { return &spending{began: time.Now(), read: map[string]bool{}} }

// ledger returns the ledger in use.
func (s *spending) ledger() allowance.Ledger {
	if l := s.shared.Load(); l != nil {
		return l
	}
	return &s.Spending
}

// spentSoFar returns the costs under the configuration in force, nil if it has no audit store.
func spentSoFar(i *shared.Instance) *spending {
	running := runningOf(i)
	running.Lock()
	defer running.Unlock()
	if len(running.apps) == 0 || running.apps[0].auditShare == nil {
		return nil
	}
	return running.apps[0].auditShare.Of.spending
}

// Spend charges a turn or an internal request to its user, groups and project, and to the site.
func (s *Sink) Spend(r *audit.Record) {
	s.Ledger().Add(spenderOf(r), r.At.Add(r.Total), spent(r), time.Now())
}

// spenderOf returns the accounts that a record is charged to.
func spenderOf(r *audit.Record) allowance.Spender {
	return allowance.Spender{Hash: r.Tenant, User: r.User, Groups: r.Groups, Project: r.Project}
}

// spent returns the cost of a record. Requests are counted when they begin.
func spent(r *audit.Record) allowance.Spent {
	return allowance.Spent{Dollars: r.USD, Tokens: r.Billed.Prompt() + r.Billed.Output, Estimated: r.Estimated > 0}
}

var errForgets = errors.New("budgets: they need an audit store that can be read again, by which they outlive a " +
	"restart: audit sqlite or audit postgres")

// keepsBudgets returns an error if the budgets would not outlive a restart.
func (a *App) keepsBudgets(d *Directory) error {
	if d.Budgets.Any() && !a.remembers() {
		return errForgets
	}
	return nil
}

// remembers reports whether the audit store can be read again.
func (a *App) remembers() bool {
	// Validation opens no store, so the type tells.
	_, writesOnly := a.audit.(*AuditJSONL)
	return a.audit != nil && !writesOnly
}

// limits reports whether there are budgets, or a users file that may add some.
func (a *App) limits() bool {
	return a.users.Load().Budgets.Any() || a.usersPath != "" && a.remembers()
}

// openBudgets reads the costs of this month and this week.
func (a *App) openBudgets() error {
	if !a.limits() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	before, err := a.spentBefore(ctx)
	if errors.Is(err, errForgets) || err != nil && a.refuses() {
		return fmt.Errorf("budgets: reading what was spent this month: %w", err)
	}
	if err != nil {
		a.logger.Error("budgets begin with what this process knows: audit store cannot be read", zap.Error(err))
	}
	// The costs count only once the configuration is in force, so a refused one changes nothing.
	// readSpent tries a failed store again.
	a.spent = before
	return nil
}

// spentBefore reads the costs of this month and this week from before the process began. It returns nil
// if they are already known.
func (a *App) spentBefore(ctx context.Context) (*allowance.Spending, error) {
	s := a.auditShare.Of.spending
	s.seed.Lock()
	known := s.read[a.auditShare.Key]
	s.seed.Unlock()
	if known {
		return nil, nil
	}
	now := time.Now()
	before := new(allowance.Spending)
	err := a.auditShare.Of.store.Each(ctx, allowance.Since(now), func(r *audit.Record) error {
		if !r.At.Before(s.began) {
			return nil
		}
		cost := spent(r)
		if r.IsTurn() && r.Outcome != audit.Refused {
			cost.Requests = r.Turns
		}
		before.Add(spenderOf(r), r.At.Add(r.Total), cost, now)
		return nil
	})
	if _, damaged := errors.AsType[*audit.DamagedError](err); damaged && !a.refuses() {
		return before, nil // the readable part counts
	}
	if err != nil {
		return nil, err // a part must not count, because the store is read again
	}
	return before, nil
}

// adjustBudgets puts the users of this configuration in force.
func (a *App) adjustBudgets() {
	a.useDirectory()
	a.join(a.spent)
	a.spent = nil
}

// shareBudgets keeps budgets in the session store's counters, if it has some. Otherwise, or while they
// cannot be reached, this process counts by itself.
func (a *App) shareBudgets() {
	s, store := a.auditShare.Of, a.share.Of.Store
	l := s.spending.shared.Load()
	if store.Counters() == nil {
		if l != nil {
			l.Use(allowance.Options{Counters: func() sessioncache.Counters { return nil }})
			s.spending.shared.Store(nil)
		}
		return
	}
	t := &trouble{
		logger: a.logger, where: store.Persister().Name(), store: store,
		message: "budgets are not counted with those of other processes",
	}
	o := allowance.Options{
		Counters: store.Counters, Key: a.share.Of.Secret.Derive("budgets"), Timeout: store.Budget(),
		Strict: s.store.strict.Load, Failed: t.failed,
	}
	if l != nil {
		l.Use(o)
		return
	}
	s.spending.shared.Store(allowance.NewShared(&s.spending.Spending, o))
}

// useDirectory shows the users in force to the audit sink.
func (a *App) useDirectory() { a.auditShare.Of.users.Store(a.users.Load()) }

// useReread puts users that were read again in force, if the configuration is.
func (a *App) useReread() {
	running := runningOf(a.instance)
	running.Lock()
	defer running.Unlock()
	if a.auditShare != nil && len(running.apps) > 0 && running.apps[0] == a {
		a.useDirectory()
	}
}

func (a *App) readSpent(ctx context.Context) error {
	if !a.limits() {
		return nil
	}
	before, err := a.spentBefore(ctx)
	a.join(before)
	return err
}

func (a *App) join(before *allowance.Spending) {
	s := a.auditShare.Of.spending
	s.seed.Lock()
	defer s.seed.Unlock()
	// A change of the store must not refill the budgets, and a reload must not count them twice.
	if before != nil && !s.read[a.auditShare.Key] {
		s.Join(before, time.Now())
		s.read[a.auditShare.Key] = true
	}
}

// shownBudgets limits the budgets on the page, and those of users without budgets by name in metrics.
const shownBudgets = 60

// standings returns the budgets in use, the smallest remaining share first.
func standings(i *shared.Instance, now time.Time) []page.Budget {
	out := []page.Budget{}
	for _, s := range sinksOf(i).All() {
		d := s.users.Load()
		if d == nil || !d.Budgets.Any() {
			continue
		}
		for _, v := range s.Ledger().Standings(&d.Budgets, now) {
			b := page.Budget{
				Kind: string(v.Account.Kind), Name: v.Account.Name, Spent: v.String(), Share: v.Share, Ends: v.Ends,
				Soft: v.Budget.Soft, Refused: v.Refused,
			}
			if at := v.RunsOut(now); !at.IsZero() {
				b.RunsOut = &at
			}
			out = append(out, b)
			if len(out) == shownBudgets {
				return out
			}
		}
	}
	return out
}

func init() { // a variable would put these into the initialization order
	gauges := func(name, help string, value func(v *allowance.Standing, now time.Time) float64) {
		metric.GaugesFunc(name, help, []string{"kind", "name", "period"},
			func(i *shared.Instance, add func(float64, ...string)) { gaugeBudgets(i, value, add) })
	}
	gauges("budget_used_ratio", fmt.Sprintf("Share of each budget in use that is spent in its present period; of those that "+
		"each user, group or project gets, the %d most used ones.", shownBudgets),
		func(v *allowance.Standing, _ time.Time) float64 { return v.Share })
	gauges("budget_forecast_ratio", "Share of each budget that is spent at the end of its period if spending goes on at "+
		"its present rate, 0 until a tenth of the period is over.",
		func(v *allowance.Standing, now time.Time) float64 { return v.Forecast(now) })
}

// gaugeBudgets adds a value for each budget. Of several budgets of one account and period, the most used
// one counts.
func gaugeBudgets(
	i *shared.Instance, value func(*allowance.Standing, time.Time) float64, add func(float64, ...string),
) {
	now := time.Now()
	type key struct {
		allowance.Account
		period string
	}
	seen := map[key]bool{}
	unnamed := 0
	for _, s := range sinksOf(i).All() {
		d := s.users.Load()
		if d == nil || !d.Budgets.Any() {
			continue
		}
		for _, v := range s.Ledger().Standings(&d.Budgets, now) {
			k := key{v.Account, v.Budget.Period()}
			if seen[k] {
				continue
			}
			if !d.Budgets.Named(v.Account) {
				if unnamed++; unnamed > shownBudgets {
					continue
				}
			}
			seen[k] = true
			add(value(&v, now), string(v.Account.Kind), label(v.Account.Name), k.period)
		}
	}
}
