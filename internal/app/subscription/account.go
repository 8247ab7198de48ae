// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package subscription

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
)

const (
	// maxAccounts bounds the accounts. The least recently used one gives way.
	maxAccounts = 1000
	// minGrowth is the growth of a window from which an estimate is made: providers round to points.
	minGrowth = 0.02
)

// Key identifies an account: a credential, used in one API.
type Key struct{ Tenant, Format string }

// Turn is the part of a turn, or of an internal request, that concerns an account.
type Turn struct {
	// User is the name of the user.
	User string
	// At is the arrival of the request.
	At time.Time
	// Windows are those of the response.
	Windows Windows
	// Spent is the cost of the request and its response in US dollars at list prices, Saved the net saving.
	Spent, Saved float64
}

// State is the newest state of a window.
type State struct {
	Window
	// User is the name of the user.
	User string `json:"user"`
	// SavedPoints estimates the points of the window, in percent of it, that edits have saved since the
	// first response in it, net. Within the window, it is
	//
	//	growth of Used × 100 / dollars spent × dollars saved
	//
	// with all three counted between the window's first response and its latest: a dollar at list prices
	// stands for the provider's own weights of models and tokens, which are not published. It is nil
	// until Used has grown by 2 points. Use of the plan elsewhere makes it too large. No live
	// subscription has verified it.
	SavedPoints *float64 `json:"saved_points,omitempty"`
	// At is the arrival of the request that the state is of.
	At time.Time `json:"at"`
}

// Accounts are the windows of tenants, at most 1,000. The zero value is not usable, see [New].
type Accounts struct {
	all *lru.Cache[Key, struct{}, *account]
}

// New returns an empty set of accounts.
func New() *Accounts {
	return &Accounts{lru.New(lru.Options[Key, struct{}, *account]{Pool: lru.NewPool[struct{}](maxAccounts)})}
}

// account is guarded by the lock of [Accounts].
type account struct {
	user    string
	windows []tracked
	// spent and saved are the sums of all turns of the account, in US dollars.
	spent, saved float64
}

// tracked is a window since its first response.
type tracked struct {
	Window
	at    time.Time // of the latest response
	first moment
	last  moment
}

// moment is the state of a window and of its account at a response.
type moment struct{ used, spent, saved float64 }

// Count counts a turn that has ended. Accounts begin with their first windows.
func (a *Accounts) Count(k Key, t *Turn) {
	a.all.Lock()
	defer a.all.Unlock()
	e := a.all.Get(k)
	switch {
	case e != nil:
		a.all.Use(e)
	case len(t.Windows) == 0:
		return
	default:
		e = a.all.Put(k, struct{}{}, new(account), 1)
	}
	c := e.Value
	c.user = t.User
	// The provider has stated the windows before it knew the cost of this turn.
	for _, w := range t.Windows {
		c.see(w, t.At)
	}
	c.spent, c.saved = c.spent+t.Spent, c.saved+t.Saved
}

// see records the state of a window at a time.
func (c *account) see(w Window, at time.Time) {
	now := moment{w.Used, c.spent, c.saved}
	for i := range c.windows {
		t := &c.windows[i]
		switch {
		case t.Name != w.Name:
			continue
		case at.Before(t.at): // a long turn ends after later ones
		case w.Used < t.Used, !t.Resets.IsZero() && !at.Before(t.Resets): // the window began anew
			*t = tracked{w, at, now, now}
		default:
			t.Window, t.at, t.last = w, at, now
		}
		return
	}
	if len(c.windows) < 2*maxWindows { // names are the upstream's
		c.windows = append(c.windows, tracked{w, at, now, now})
	}
}

func (t *tracked) savedPoints() *float64 {
	growth, spent := t.last.used-t.first.used, t.last.spent-t.first.spent
	if growth < minGrowth-1e-9 || spent <= 0 {
		return nil
	}
	points := 100 * growth / spent * (t.last.saved - t.first.saved)
	return &points
}

// States returns the newest state of each window, by users and names. A user whose token was renewed is
// another tenant: of equal names the latest counts.
func (a *Accounts) States() []State {
	a.all.Lock()
	all := []State{}
	for e := range a.all.Oldest() {
		for i := range e.Value.windows {
			t := &e.Value.windows[i]
			all = append(all, State{Window: t.Window, User: e.Value.user, SavedPoints: t.savedPoints(), At: t.at})
		}
	}
	a.all.Unlock()
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Name, b.Name), b.At.Compare(a.At))
	})
	return slices.CompactFunc(all, func(a, b State) bool { return a.User == b.User && a.Name == b.Name })
}

// Current returns the states that hold at a time, without windows that have begun anew since.
func (a *Accounts) Current(now time.Time) []State {
	return slices.DeleteFunc(a.States(), func(s State) bool { return !s.Resets.IsZero() && s.Resets.Before(now) })
}

// Text says in words how much of the window is used, when it begins anew, and what edits have saved:
// `claude 5h 42 % until 17:20 (~6 points saved)`.
func (s *State) Text(now time.Time) string {
	text := fmt.Sprintf("%s %.0f %%", s.Name, 100*s.Used)
	if !s.Resets.IsZero() {
		layout := "15:04"
		if s.Resets.Sub(now) > 20*time.Hour {
			layout = "2 Jan 15:04"
		}
		text += " until " + s.Resets.Local().Format(layout)
	}
	if s.Status != "" && s.Status != "allowed" {
		text += ", " + s.Status
	}
	if s.SavedPoints != nil {
		text += fmt.Sprintf(" (~%.0f points saved)", math.Round(*s.SavedPoints)+0) // never -0
	}
	return text
}
