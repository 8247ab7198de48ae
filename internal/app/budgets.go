// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// spending sums up the costs of users, for the sinks of consecutive configurations.
type spending struct {
	allowance.Spending
	began time.Time

	seed sync.Mutex
	read map[string]bool // stores with counted earlier records
}

func newSpending() *spending { return &spending{began: time.Now(), read: map[string]bool{}} }

// spentSoFar returns the costs under the configuration in force, nil if it has no audit store.
func spentSoFar(i *shared.Instance) *spending {
	running := runningOf(i)
	running.Lock()
	defer running.Unlock()
	if len(running.apps) == 0 || running.apps[0].auditShare == nil {
		return nil
	}
	return running.apps[0].auditShare.Of.Spending
}

// Spend charges a turn or an internal request to the budgets of its user.
func (s *Sink) Spend(r *audit.Record) {
	s.Spending.Add(r.Tenant, r.User, r.At, spent(r), time.Now())
}

func spent(r *audit.Record) allowance.Spent {
	return allowance.Spent{Dollars: r.USD, Tokens: r.Billed.Prompt() + r.Billed.Output, Estimated: r.Estimated > 0}
}

var errForgets = errors.New("budgets: they need an audit store that can be read again, by which they outlive a " +
	"restart: audit sqlite or audit postgres")

// keepsBudgets returns an error if the budgets would not outlive a restart.
func (a *App) keepsBudgets() error {
	if len(a.Budgets) == 0 {
		return nil
	}
	// Validation opens no store, so the type tells.
	if _, writesOnly := a.audit.(*AuditJSONL); writesOnly || a.audit == nil {
		return errForgets
	}
	return nil
}

// openBudgets reads the costs of this month.
func (a *App) openBudgets() error {
	if len(a.Budgets) == 0 {
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

// spentBefore reads the costs of this month from before the process began. It returns nil if they
// are already known.
func (a *App) spentBefore(ctx context.Context) (*allowance.Spending, error) {
	s := a.auditShare.Of.Spending
	s.seed.Lock()
	known := s.read[a.auditShare.Key]
	s.seed.Unlock()
	if known {
		return nil, nil
	}
	now := time.Now()
	before := new(allowance.Spending)
	err := a.auditShare.Of.store.Each(ctx, allowance.MonthOf(now), func(r *audit.Record) error {
		if r.At.Before(s.began) {
			before.Add(r.Tenant, r.User, r.At, spent(r), now)
		}
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

func (a *App) adjustBudgets() {
	a.auditShare.Of.budgets.Store(&a.Budgets)
	a.join(a.spent)
	a.spent = nil
}

func (a *App) readSpent(ctx context.Context) error {
	if len(a.Budgets) == 0 {
		return nil
	}
	before, err := a.spentBefore(ctx)
	a.join(before)
	return err
}

func (a *App) join(before *allowance.Spending) {
	s := a.auditShare.Of.Spending
	s.seed.Lock()
	defer s.seed.Unlock()
	// A change of the store must not refill the budgets, and a reload must not count them twice.
	if before != nil && !s.read[a.auditShare.Key] {
		s.Join(before, time.Now())
		s.read[a.auditShare.Key] = true
	}
}

func standings(i *shared.Instance, now time.Time) []page.Budget {
	out := []page.Budget{}
	for _, s := range sinksOf(i).All() {
		all := s.budgets.Load()
		if all == nil || len(*all) == 0 {
			continue
		}
		for _, p := range s.Spending.Standings(*all, now) {
			out = append(out, page.Budget{
				Name: p.User, Spent: p.String(), Share: p.Share, Ends: p.Ends, Soft: p.Budget.Soft, Refused: p.Refused,
			})
			if len(out) == shownBudgets {
				return out
			}
		}
	}
	return out
}

// shownBudgets limits the budgets on the page.
const shownBudgets = 60

// parseBudget parses a budget. The amount must have a unit. Syntax:
//
//	budget <user>|* $<dollars>|<count> tokens day|month [soft]
func (a *App) parseBudget(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.ArgErr()
	}
	b, amount, rest := allowance.Budget{User: args[0]}, args[1], args[2:]
	dollars, priced := strings.CutPrefix(amount, "$")
	counted := len(rest) > 0 && rest[0] == "tokens"
	var err error
	switch {
	case priced && !counted:
		if b.Dollars, err = strconv.ParseFloat(dollars, 64); err != nil {
			return d.Errf("budget: %q is no amount of dollars, such as $20 or $0.50", amount)
		}
	case counted && !priced:
		if b.Tokens, err = strconv.ParseInt(amount, 10, 64); err != nil {
			return d.Errf("budget: %q is no whole number of tokens, such as 20000", amount)
		}
		rest = rest[1:]
	case counted:
		return d.Errf("budget: %s tokens: the unit is either $ or tokens", amount)
	default:
		if _, err := strconv.ParseFloat(amount, 64); err != nil {
			return d.Errf("budget must be dollars, as $20, or tokens, as 20000 tokens, got %q", amount)
		}
		return d.Errf("budget: %q has no unit: write $%s or %s tokens", amount, amount, amount)
	}
	if len(rest) < 1 || len(rest) > 2 {
		return d.ArgErr()
	}
	b.Per = rest[0]
	if len(rest) == 2 {
		if b.Soft = rest[1] == "soft"; !b.Soft {
			return d.Errf("budget: %q is not soft", rest[1])
		}
	}
	if err := b.Validate(); err != nil {
		return d.Errf("budget: %v", err)
	}
	a.Budgets = append(a.Budgets, b)
	return nil
}
