// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
)

// Budget limits what is spent in a period of the calendar of this machine.
type Budget struct {
	// Dollars is the limit in US dollars, at list prices. A model without a known price is
	// charged as the dearest model of its vendor, or as the dearest of all if the vendor is
	// unknown, too. Local engines with a preset cost nothing. One of Dollars, Tokens and Requests
	// must be given.
	Dollars float64 `json:"dollars,omitempty"`
	// Tokens is the limit in tokens of prompts and responses, including tokens read from a cache.
	Tokens int64 `json:"tokens,omitempty"`
	// Requests is the limit in requests of clients.
	Requests int64 `json:"requests,omitempty"`
	// Per is the period of the budget: `minute`, `hour`, `day`, `week` or `month`. Days begin at
	// midnight, weeks on Monday. Default: day.
	Per Period `json:"per,omitempty"`
	// Soft lets requests over the budget pass, with a warning in the header X-Llm-Cache-Budget and
	// in the log. Default: false, they get a 429.
	Soft bool `json:"soft,omitempty"`
}

// Validate checks the amount and the period.
func (b *Budget) Validate() error {
	given := 0
	for _, is := range [...]bool{b.Dollars != 0, b.Tokens != 0, b.Requests != 0} {
		if is {
			given++
		}
	}
	if b.Dollars < 0 || math.IsInf(b.Dollars, 0) || math.IsNaN(b.Dollars) || b.Tokens < 0 || b.Requests < 0 || given != 1 {
		return errors.New("one of dollars, tokens and requests must be given, above zero")
	}
	if b.Per != "" && !slices.Contains(periods[:], b.Per) {
		return fmt.Errorf("period must be minute, hour, day, week or month, got %q", b.Per)
	}
	return nil
}

// String returns the limit and its period, like "$5.00 a day".
func (b *Budget) String() string {
	article := " a "
	if b.Per == Hour {
		article = " an "
	}
	return b.Amount(Spent{Dollars: b.Dollars, Tokens: b.Tokens, Requests: b.Requests}) + article + b.Period()
}

// Amount formats an amount in the unit of the budget.
func (b *Budget) Amount(s Spent) string {
	about := ""
	if s.Estimated {
		about = "~"
	}
	switch b.unit() {
	case dollars:
		return about + figure.Cents(s.Dollars)
	case tokens:
		return about + humanize.Comma(s.Tokens) + " tokens"
	}
	if s.Requests == 1 {
		return "1 request"
	}
	return humanize.Comma(s.Requests) + " requests"
}

// Period is the name of the budget's period.
func (b *Budget) Period() string { return string(b.Per.orDay()) }

// Limits reports whether the budget limits the rate of requests rather than their cost in the long
// run: clients wait and try again.
func (b *Budget) Limits() bool { return b.Per == Minute }

// Caps reports whether the budget refuses requests for a day or longer once it is used up.
func (b *Budget) Caps() bool { return !b.Soft && b.Per != Minute && b.Per != Hour }

// The units of budgets.
const (
	dollars = iota
	tokens
	requests
	units
)

func (b *Budget) unit() int {
	switch {
	case b.Dollars > 0:
		return dollars
	case b.Tokens > 0:
		return tokens
	}
	return requests
}

func (b *Budget) share(s Spent) float64 {
	switch b.unit() {
	case dollars:
		return s.Dollars / b.Dollars
	case tokens:
		return float64(s.Tokens) / float64(b.Tokens)
	}
	return float64(s.Requests) / float64(b.Requests)
}

// Kind is the kind of an account.
type Kind string

// The kinds of accounts.
const (
	User    Kind = "user"
	Group   Kind = "group"
	Project Kind = "project"
	Site    Kind = "site" // all requests together
)

// Account names the account that a budget limits.
type Account struct {
	Kind Kind
	// Name is the name of the user, group or project, "" for the site.
	Name string
}

// String returns the account's name in a message: "anna", "group web", "project x", "this site".
func (a Account) String() string {
	switch a.Kind {
	case User:
		return a.Name
	case Site:
		return "this site"
	}
	return string(a.Kind) + " " + a.Name
}

// Each is the name of budgets for each account of a kind without budgets of its own.
const Each = "*"

// Budgets are the budgets of a configuration by account. The zero value has none.
type Budgets struct {
	of map[Account][]Budget
}

// Add adds budgets to an account, whose name may be [Each].
func (b *Budgets) Add(a Account, more ...Budget) {
	if len(more) == 0 {
		return
	}
	if b.of == nil {
		b.of = map[Account][]Budget{}
	}
	b.of[a] = append(b.of[a], more...)
}

// Any reports whether there is a budget.
func (b *Budgets) Any() bool { return b != nil && len(b.of) > 0 }

// InDollars reports whether a budget is in dollars.
func (b *Budgets) InDollars() bool {
	if b == nil {
		return false
	}
	for _, of := range b.of {
		if slices.ContainsFunc(of, func(b Budget) bool { return b.Dollars > 0 }) {
			return true
		}
	}
	return false
}

// For returns the budgets of an account: its own, or else those of each account of its kind.
func (b *Budgets) For(a Account) []Budget {
	if b == nil {
		return nil
	}
	if own, ok := b.of[a]; ok {
		return own
	}
	return b.of[Account{a.Kind, Each}]
}

// Named reports whether an account has budgets of its own.
func (b *Budgets) Named(a Account) bool {
	_, ok := b.of[a]
	return ok
}

// Spender is the user behind a request, with all else that the request is charged to.
type Spender struct {
	// Hash is the hash of the credential: the name of the user's account before the user had a name.
	Hash string
	// User is the user's name.
	User string
	// Groups are the user's groups.
	Groups []string
	// Project is the project, "" for none.
	Project string
}

// accounts yields the accounts of the spender.
func (s *Spender) accounts(yield func(Account) bool) {
	if !yield(Account{User, s.User}) {
		return
	}
	for _, g := range s.Groups {
		if !yield(Account{Group, g}) {
			return
		}
	}
	if s.Project != "" && !yield(Account{Project, s.Project}) {
		return
	}
	yield(Account{Kind: Site})
}

// Parse reads a budget in the words of a Caddyfile. Syntax:
//
//	$<dollars>|<count> tokens|<count> requests minute|hour|day|week|month [soft]
func Parse(words []string) (b Budget, err error) {
	if len(words) == 0 {
		return b, errors.New("amount and period are missing, such as $20 day")
	}
	amount, rest := words[0], words[1:]
	unit := ""
	if len(rest) > 0 && (rest[0] == "tokens" || rest[0] == "requests") {
		unit, rest = rest[0], rest[1:]
	}
	dollars, priced := strings.CutPrefix(amount, "$")
	switch {
	case priced && unit != "":
		return b, fmt.Errorf("%s %s: the unit is either $ or %s", amount, unit, unit)
	case priced:
		if b.Dollars, err = strconv.ParseFloat(dollars, 64); err != nil {
			return b, fmt.Errorf("%q is no amount of dollars, such as $20 or $0.50", amount)
		}
	case unit != "":
		n, err := strconv.ParseInt(amount, 10, 64)
		if err != nil {
			return b, fmt.Errorf("%q is no whole number of %s, such as 20000", amount, unit)
		}
		if unit == "tokens" {
			b.Tokens = n
		} else {
			b.Requests = n
		}
	default:
		if _, err := strconv.ParseFloat(amount, 64); err != nil {
			return b, fmt.Errorf("amount must be dollars, as $20, or a count, as 20000 tokens or 20 requests, got %q", amount)
		}
		return b, fmt.Errorf("%q has no unit: write $%s, %s tokens or %s requests", amount, amount, amount, amount)
	}
	switch {
	case len(rest) == 0:
		return b, errors.New("period is missing: minute, hour, day, week or month")
	case len(rest) > 2 || len(rest) == 2 && rest[1] != "soft":
		return b, fmt.Errorf("%q must be soft, or be left out", strings.Join(rest[1:], " "))
	}
	b.Per, b.Soft = Period(rest[0]), len(rest) == 2
	return b, b.Validate()
}
