// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/subscription"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

// turns counts the turns of an instance, recorded or not.
type turns struct {
	today                              *audit.Tally
	byUser, byProject, byModel, bySite *dimension
	subscriptions                      *subscription.Accounts
	controlled                         atomic.Bool // there is a control group
	seeded                             atomic.Bool // the turns on record before the process began are counted
}

func turnsOf(i *shared.Instance) *turns {
	return shared.Part(i, func() *turns {
		return &turns{
			today: audit.NewTally(time.Now), byUser: newDimension("person", 200),
			byProject: newDimension("project", 100), byModel: newDimension("model", 100), bySite: newDimension("site", 100),
			subscriptions: subscription.New(),
		}
	})
}

func init() { // a variable would put these into the initialization order
	metric.Each(func(i *shared.Instance) (all []prometheus.Collector) {
		t := turnsOf(i)
		for _, d := range [...]*dimension{t.byUser, t.byProject, t.byModel, t.bySite} {
			all = append(all, d.cost, d.tokens, d.turns)
		}
		return all
	})
}

func init() { // as above
	metric.GaugesFunc("holdout",
		"Edited sessions of today beside those of the control group, by measure: the values of both groups, the change, "+
			"and the bounds of its 95 % interval. Only measures with an interval.",
		[]string{"measure", "value"}, func(i *shared.Instance, add func(float64, ...string)) {
			h := turnsOf(i).today.Holdout()
			if h == nil {
				return
			}
			for _, m := range h.Measures {
				if !m.Known {
					continue
				}
				add(m.Edited, m.Name, "edited")
				add(m.Control, m.Name, "control")
				add(m.Change, m.Name, "change")
				add(m.Low, m.Name, "low")
				add(m.High, m.Name, "high")
			}
		})
}

var holdoutTotals = metric.Known(metric.CounterVec("holdout_total",
	"Sums of turns since the first one of the control group, by group: turns, cost_usd, output_tokens, rereads and "+
		"failed_edits, which in the control group are of text that would have been folded.", "group", "of"),
	[]string{"edited", "control"}, []string{"turns", "cost_usd", "output_tokens", "rereads", "failed_edits"})

// countHoldout counts a record in the sums of its group, once there is a control group.
func (t *turns) countHoldout(r *audit.Record) {
	group := "edited"
	if r.Holdout {
		group = "control"
		t.controlled.Store(true)
	}
	if !t.controlled.Load() {
		return
	}
	add := func(of string, v float64) {
		if v > 0 {
			holdoutTotals.WithLabelValues(group, of).Add(v)
		}
	}
	add("cost_usd", r.USD)
	if r.IsTurn() {
		add("turns", float64(r.Turns))
		add("output_tokens", float64(r.Billed.Output))
		add("rereads", float64(r.Rereads))
		add("failed_edits", float64(r.FailedEdits))
	}
}

var costs = metric.CounterOf("cost_usd_total",
	"Cost of turns in US dollars where prices are known: actual; client, of the clients' own bytes; would, of the "+
		"turns as the policy observe would have them, and of the others as they were.", "kind",
	"actual", "client", "would")

var costActual, costClient, costWould = costs.WithLabelValues("actual"), costs.WithLabelValues("client"),
	costs.WithLabelValues("would")

var assumedTurns = metric.CounterOf("assumed_turns_total",
	"Turns of models that the models file does not know: rules, of the nearest sibling; prices, of the dearest model "+
		"of the family or vendor; unpriced, in no sum of dollars.", "what",
	"rules", "prices", "unpriced")

var assumedRules, assumedPrices, unpricedTurns = assumedTurns.WithLabelValues("rules"),
	assumedTurns.WithLabelValues("prices"), assumedTurns.WithLabelValues("unpriced")

// Count counts a finished turn or internal request, by the host that it was sent to.
func Count(i *shared.Instance, r *audit.Record, host string) {
	t := turnsOf(i)
	if r.Outcome == audit.Refused { // requests_total counts it
		t.today.Add(r)
		return
	}
	client := r.ClientUSD
	if !r.IsTurn() {
		client = 0 // no client has sent this request
	}
	if would := r.USD - r.WouldSaveUSD; would > 0 {
		costWould.Add(would)
	}
	if r.USD > 0 {
		costActual.Add(r.USD)
	}
	if client > 0 {
		costClient.Add(client)
	}
	if r.IsTurn() { // other models may stand in for the turn's
		if r.AssumedFrom != "" {
			assumedRules.Add(float64(r.Turns))
		}
		if r.PricesOf != "" && r.USD > 0 {
			assumedPrices.Add(float64(r.Turns))
		}
		if r.Unpriced() {
			unpricedTurns.Add(float64(r.Turns))
		}
	}
	t.byUser.count(r.User, r)
	t.byProject.count(r.ProjectName(), r)
	t.byModel.count(r.ModelName(), r)
	t.bySite.count(siteOf(host), r)
	t.countHoldout(r)
	t.today.Add(r)
	r.CountWindows(t.subscriptions)
}

// seed counts the turns on record before the process began, once and in the background.
func (a *App) seed() {
	t := turnsOf(a.instance)
	source, err := a.auditShare.Of.store.source()
	// A store that only writes cannot be read again.
	if err != nil || source == nil || !t.seeded.CompareAndSwap(false, true) {
		return
	}
	go httpx.Background("reading today's turns", func() {
		ctx, cancel := context.WithTimeout(context.Background(), learnTime)
		defer cancel()
		if err := t.today.Seed(ctx, source); err != nil && !errors.Is(err, context.Canceled) {
			a.logger.Warn("reading today's turns from the audit store", zap.Error(err))
		}
	})
}

// dimension is a label by which metrics tell turns apart.
type dimension struct {
	maxNames            int
	cost, tokens, turns *prometheus.CounterVec

	mu  sync.RWMutex
	met map[string]*dimensionCounters
}

// dimensionCounters are the counters of one name.
type dimensionCounters struct {
	name                        string
	turns, prompt, read, output prometheus.Counter

	// The cost in dollars is nil until a turn has one: unknown prices are not zero.
	cost atomic.Pointer[costCounters]
}

type costCounters struct{ actual, client, would prometheus.Counter }

// maxName bounds names that clients choose, in bytes.
const maxName = 128

func newDimension(name string, maxNames int) *dimension {
	return &dimension{
		maxNames: maxNames, met: map[string]*dimensionCounters{},
		cost: metric.NewCounterVec(name+"_cost_usd_total",
			fmt.Sprintf("Cost of turns in US dollars where prices are known, by %s, of which the first %d are told apart: "+
				"actual; client, of the clients' own bytes; would, of the turns as the policy observe would have them, and of "+
				"the others as they were.", name, maxNames), name, "kind"),
		tokens: metric.NewCounterVec(name+"_tokens_total",
			fmt.Sprintf("Tokens by %s: prompt, read (the part of it that came from a cache) and output.", name), name, "bucket"),
		turns: metric.NewCounterVec(name+"_turns_total",
			fmt.Sprintf("Turns, which are requests of clients, by %s.", name), name),
	}
}

// countersOf returns the counters of a name, or those of audit.Others beyond the maximum.
func (d *dimension) countersOf(name string, maxNames int) *dimensionCounters {
	d.mu.RLock()
	c := d.met[name]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name = label(name)
	// Clients choose keys, model names and Host headers: only the first names get counters of their own.
	if len(d.met) >= maxNames && d.met[name] == nil {
		name = audit.Others // Others comes on top of the maximum
	}
	if c = d.met[name]; c == nil {
		c = &dimensionCounters{
			name:   name,
			turns:  d.turns.WithLabelValues(name),
			prompt: d.tokens.WithLabelValues(name, "prompt"),
			read:   d.tokens.WithLabelValues(name, "read"),
			output: d.tokens.WithLabelValues(name, "output"),
		}
		// A lookup by labels costs more than counting, so the counters are stored.
		d.met[name] = c
	}
	return c
}

func (d *dimension) count(name string, r *audit.Record) {
	if len(name) > maxName {
		name = name[:maxName]
	}
	maxNames := d.maxNames
	if !r.Spent() {
		maxNames /= 2 // requests without usage leave room for real users
	}
	c := d.countersOf(name, maxNames)
	if r.IsTurn() {
		c.turns.Add(float64(r.Turns))
	}
	if r.USD > 0 || r.ClientUSD > 0 {
		cost := c.cost.Load()
		if cost == nil { // a concurrent turn may store the same counters, too
			of := func(kind string) prometheus.Counter { return d.cost.WithLabelValues(c.name, kind) }
			cost = &costCounters{of("actual"), of("client"), of("would")}
			c.cost.Store(cost)
		}
		cost.actual.Add(max(0, r.USD))
		cost.client.Add(max(0, r.ClientUSD))
		cost.would.Add(max(0, r.USD-r.WouldSaveUSD))
	}
	c.prompt.Add(float64(max(0, r.Billed.Prompt())))
	c.read.Add(float64(max(0, r.Billed.Read)))
	c.output.Add(float64(max(0, r.Billed.Output)))
}

// label replaces the unprintable characters of a client's name.
func label(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			// They could steer a terminal.
			return unicode.ReplacementChar
		}
		return r
	}, strings.Clone(name)) // the name may be a part of a long text
}

// siteOf returns the host name of a Host header, without port.
func siteOf(host string) string {
	if port := strings.LastIndexByte(host, ':'); port > strings.LastIndexByte(host, ']') {
		host = host[:port]
	}
	return strings.ToLower(host)
}
