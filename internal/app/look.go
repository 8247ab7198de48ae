// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// shownSessions bounds the sessions on the page.
const shownSessions = 60

// Dashboard returns the live page of an instance.
func Dashboard(i *shared.Instance) *page.Page {
	return shared.Part(i, func() *page.Page {
		return page.New(page.Source{
			Look:    func() page.View { return look(i) },
			Today:   func() audit.Period { return turnsOf(i).today.Today() },
			Records: func() audit.Source { return records(i) },
			Recent:  func(f audit.Filter) []audit.Turn { return turnsOf(i).today.Recent(f) },
		})
	})
}

// records returns the first open audit store that can be read, nil without one.
func records(i *shared.Instance) audit.Source {
	for _, s := range sinksOf(i).All() {
		if s.store.reads.Load() {
			return s.store
		}
	}
	return nil
}

func look(i *shared.Instance) page.View {
	now := time.Now()
	v := page.View{
		Now: now, Today: turnsOf(i).today.Today(), Queues: []page.Queue{},
		Sessions: page.Sessions{List: []page.Session{}}, Stored: records(i) != nil,
	}
	states := state.Open(i)
	type used struct {
		listed
		at time.Time
	}
	var all []used
	for _, s := range states {
		v.Sessions.Total += s.Stats().Sessions
		for _, session := range s.Page(sessioncache.Newest, maxPage) {
			at, warm := session.Used()
			if warm(now) {
				v.Sessions.Warm++
			}
			all = append(all, used{listed{s, session}, at})
		}
		for p := range state.Parts[state.Viewer](s) {
			p.View(&v)
		}
	}
	// States come in no order, and the page compares views byte by byte.
	slices.SortFunc(v.Queues, func(a, b page.Queue) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(all, func(a, b used) int { return b.at.Compare(a.at) })
	for _, u := range all[:min(len(all), shownSessions)] {
		v.Sessions.List = append(v.Sessions.List, sessionOf(u.session.Report(now), turnsOf(i).today.Identity))
	}
	v.Budgets = standings(i, now)
	v.Windows = windows(i, now)
	v.Health = append(v.Health, Health(i)...)
	return v
}

// shownWindows bounds the windows on the page.
const shownWindows = 40

// windows returns the usage windows of subscriptions, the fullest first.
func windows(i *shared.Instance, now time.Time) []subscription.State {
	all := turnsOf(i).subscriptions.Current(now)
	slices.SortStableFunc(all, func(a, b subscription.State) int { return cmp.Compare(b.Used, a.Used) })
	return all[:min(len(all), shownWindows)]
}

// Health returns the state of an instance's stores.
func Health(i *shared.Instance) []page.Health {
	var all []page.Health
	now := time.Now()
	for _, s := range state.Open(i) {
		all = append(all, healthOf(s.Stats(), storeTrouble(s.Store, now)))
	}
	all = append(all, healthOfMemory(i))
	open := sinksOf(i).All()
	if len(open) == 0 {
		all = append(all, page.Health{Name: "Record", State: page.Off, Note: "no audit store: counts end with the process"})
	}
	for _, s := range open {
		all = append(all, healthOfRecord(s.queue.Stats(), s.store.trouble(), countersOf(i), now))
	}
	return all
}

// sessionOf converts a session's summary for the page. identify names the user of a session ID.
func sessionOf(r sessioncache.SessionSummary, identify func(session string) audit.Identity) page.Session {
	s := page.Session{ID: r.ID, Identity: identify(r.ID), Used: r.Created, Conversations: len(r.Conversations)}
	var read, prompt int64
	var cost sessioncache.CostSummary
	for i := range r.Conversations {
		l := &r.Conversations[i]
		s.Requests += l.Requests
		read, prompt = read+l.Total.Read, prompt+l.Total.Prompt()
		cost.Add(l.Cost.Units, l.Cost.ClientUnits, l.Cost.USD, l.Cost.ClientUSD)
		cost.WouldSave, cost.WouldSaveUSD = cost.WouldSave+l.Cost.WouldSave, cost.WouldSaveUSD+l.Cost.WouldSaveUSD
		for cause, n := range l.Breaks {
			s.Misses += n
			add(&s.Breaks, cause, n)
		}
		for stage, n := range l.Ledger {
			s.Edits += n
			add(&s.Stages, stage, n)
			if stage == "prune" || stage == "fold_inputs" || stage == "fold_replaced" {
				s.Folded += n
			}
		}
		s.FoldMisses += l.FoldMisses
	}
	if prompt > 0 {
		s.Read = float64(read) / float64(prompt)
	}
	cost.Units, cost.USD = cost.Units+s.Internal, cost.USD+s.InternalUSD
	// Without prices, savings are in units of an uncached token.
	if s.Priced = cost.ClientUSD > 0; s.Priced {
		s.Saved, s.Would = cost.ClientUSD-cost.USD, cost.WouldSaveUSD
	} else {
		s.Saved, s.Would = cost.ClientUnits-cost.Units, cost.WouldSave
	}
	if len(r.Conversations) == 0 {
		return s
	}
	// The most recently used conversation stands for the session.
	l := &r.Conversations[0]
	s.Model, s.Used, s.Warm, s.Observed, s.Miss, s.Decision = audit.Bounded(l.Model), l.Started, l.Warm, l.Observed,
		l.LastBreak, l.Decision
	s.Sent = l.Last.Prompt()
	s.Written = s.Sent + int64(l.Less)
	if l.TTLSeconds > 0 {
		from := l.Started
		if l.Warmed != nil && l.Warmed.After(from) {
			from = *l.Warmed
		}
		until := from.Add(time.Duration(l.TTLSeconds * float64(time.Second)))
		s.Until, s.Lifetime = &until, l.TTLSeconds
	}
	return s
}

func add(to *map[string]int, name string, n int) {
	if *to == nil {
		*to = map[string]int{}
	}
	(*to)[name] += n
}

// healthOf returns the state of a session store. trouble is the last failure of its backend.
func healthOf(s sessioncache.StoreStats, trouble string) page.Health {
	h := page.Health{
		Name: "Sessions", State: page.OK,
		Note: fmt.Sprintf("%s of %s in memory", humanize.IBytes(uint64(max(s.Bytes, 0))),
			humanize.IBytes(uint64(max(s.MaxBytes, 0)))),
	}
	if s.Kept > 0 {
		h.Note += fmt.Sprintf(", %d on disk", s.Kept)
	}
	// LRU eviction is normal, so the state stays OK.
	if s.Evicted > 0 {
		h.Note += fmt.Sprintf(", %d let go for want of room since the start", s.Evicted)
	}
	if trouble != "" {
		h.State = page.Failing
		h.Note += ", " + trouble
	}
	return h
}

// slowRecord is the lag from which a store counts as slow.
const slowRecord = 30 * time.Second

var troubles = map[string]string{
	audit.ReasonFull: "the disk is full", audit.ReasonDamaged: "the file is damaged",
	audit.ReasonForeign: "the file belongs to another program",
	audit.ReasonNewer:   "a later version of this program made it", audit.ReasonLocked: "another process has locked it",
	audit.ReasonDenied: "it may not be opened", audit.ReasonUnreachable: "it cannot be reached",
	audit.ReasonOther: "see the log",
}

// healthOfRecord returns the state of an audit store. trouble is the reason for its failure.
func healthOfRecord(s audit.Stats, trouble string, c *audit.Counters, now time.Time) page.Health {
	h := page.Health{Name: "Record", State: page.OK, Note: fmt.Sprintf("%d turns wait to be written", s.Waiting)}
	if trouble != "" {
		h.State = page.Failing
		h.Note += " in memory: the audit store fails, " + troubles[trouble]
	}
	if s.Lag > slowRecord {
		h.State = page.Slow
		h.Note += fmt.Sprintf(", the oldest for %s", s.Lag.Round(time.Second))
	}
	if n := c.Dropped.Load(); n > 0 {
		h.Note += fmt.Sprintf(", %d were lost since the start: the store did not take them", n)
		if now.Sub(time.Unix(0, c.DroppedAt.Load())) < troubleTime {
			h.State = page.Failing
		}
	}
	return h
}

// Totals returns the cost and the number of the requests of sessions in memory, and the number of requests that failed
// today.
func Totals(i *shared.Instance) (requests, failed int, cost sessioncache.CostSummary) {
	now := time.Now()
	for _, s := range state.Open(i) {
		for _, session := range s.Page(sessioncache.Newest, maxPage) {
			for _, c := range session.Report(now).Conversations {
				requests += c.Requests
				cost.Add(c.Cost.Units, c.Cost.ClientUnits, c.Cost.USD, c.Cost.ClientUSD)
			}
		}
	}
	return requests, int(turnsOf(i).today.Today().Total.Failed), cost
}
