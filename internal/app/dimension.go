// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/page"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
)

// dimension is a label by which metrics tell turns apart. Clients choose keys, names of models and
// Host headers, so only the first names get their own counters. Later ones are counted together.
type dimension struct {
	most                int
	cost, tokens, turns *prometheus.CounterVec

	mu  sync.RWMutex
	met map[string]*dimensionCounters
}

// dimensionCounters are the counters of one name. They are stored because a lookup by labels costs
// more than counting.
type dimensionCounters struct {
	name                        string
	turns, prompt, read, output prometheus.Counter

	// The cost in dollars is nil until a turn has one: unknown prices are not zero.
	cost atomic.Pointer[costCounters]
}

// costCounters are the cost counters of a name with known prices.
type costCounters struct{ actual, client, would prometheus.Counter }

// longestName bounds names that clients choose, in bytes.
const longestName = 128

func newDimension(name string, most int) *dimension {
	return &dimension{
		most: most, met: map[string]*dimensionCounters{},
		cost: metric.NewCounterVec(name+"_cost_usd_total", fmt.Sprintf("Cost of turns in US dollars where prices are known, by %s, of which the first %d are told apart: "+
			"actual; client, of the clients' own bytes; would, of the turns as the policy observe would have them, and of the others as they were.", name, most), name, "kind"),
		tokens: metric.NewCounterVec(name+"_tokens_total", fmt.Sprintf("Tokens by %s: prompt, read (the part of it that came from a cache) and output.", name), name, "bucket"),
		turns:  metric.NewCounterVec(name+"_turns_total", fmt.Sprintf("Turns, which are requests of clients, by %s.", name), name),
	}
}

// countersOf returns the counters of a name, or those of page.Others beyond the maximum.
func (d *dimension) countersOf(name string, most int) *dimensionCounters {
	d.mu.RLock()
	c := d.met[name]
	d.mu.RUnlock()
	if c != nil {
		return c
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	name = label(name)
	if len(d.met) >= most && d.met[name] == nil {
		name = page.Others // Others comes on top of the maximum
	}
	if c = d.met[name]; c == nil {
		c = &dimensionCounters{
			name:   name,
			turns:  d.turns.WithLabelValues(name),
			prompt: d.tokens.WithLabelValues(name, "prompt"),
			read:   d.tokens.WithLabelValues(name, "read"),
			output: d.tokens.WithLabelValues(name, "output"),
		}
		d.met[name] = c
	}
	return c
}

// label makes a client's name fit for a metric: unprintable characters become U+FFFD, for they
// could steer a terminal.
func label(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
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

// count counts a turn.
func (d *dimension) count(name string, r *audit.Record) {
	if len(name) > longestName {
		name = name[:longestName]
	}
	most := d.most
	if !r.Spent() {
		most /= 2 // requests without usage leave room for real users
	}
	c := d.countersOf(name, most)
	if r.IsTurn() {
		c.turns.Add(float64(r.Turns))
	}
	if r.USD > 0 || r.ClientUSD > 0 {
		d.countCost(c, r)
	}
	c.prompt.Add(float64(max(0, r.Billed.Prompt())))
	c.read.Add(float64(max(0, r.Billed.Read)))
	c.output.Add(float64(max(0, r.Billed.Output)))
}

// countCost counts the costs of a turn in dollars.
func (d *dimension) countCost(c *dimensionCounters, r *audit.Record) {
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
