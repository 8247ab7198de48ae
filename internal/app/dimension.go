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

// dimension is one thing by which metrics tell turns apart. Whoever sends another key,
// another name of a model or another Host makes up another name, so that only the first are
// told apart; what comes later is counted together.
type dimension struct {
	most                int
	cost, tokens, turns *prometheus.CounterVec

	mu  sync.RWMutex
	met map[string]*dimensionCounters
}

// dimensionCounters are what belongs to one name. Finding a counter by its labels costs more
// than counting.
type dimensionCounters struct {
	name                        string
	turns, prompt, read, output prometheus.Counter

	// The cost in dollars is nil until a turn has one: what has no price is not free.
	cost atomic.Pointer[costCounters]
}

// costCounters are those of a name whose turns have prices.
type costCounters struct{ actual, client, would prometheus.Counter }

// longestName bounds what clients make up.
const longestName = 128

var (
	byPerson = newDimension("person", 200)
	byModel  = newDimension("model", 100)
	bySite   = newDimension("site", 100)
)

func newDimension(name string, most int) *dimension {
	return &dimension{
		most: most, met: map[string]*dimensionCounters{},
		cost: metric.CounterVec(name+"_cost_usd_total", fmt.Sprintf("Cost of turns in US dollars where prices are known, by %s, of which the first %d are told apart: "+
			"actual; client, of the clients' own bytes; would, of the turns as the policy observe would have them, and of the others as they were.", name, most), name, "kind"),
		tokens: metric.CounterVec(name+"_tokens_total", fmt.Sprintf("Tokens by %s: prompt, read (the part of it that came from a cache) and output.", name), name, "bucket"),
		turns:  metric.CounterVec(name+"_turns_total", fmt.Sprintf("Turns, which are requests of clients, by %s.", name), name),
	}
}

// countersOf returns the counters of a name, or of all others where so many are told apart.
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
		name = page.Others // it is one more than the most
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

// label makes a name that a client has chosen fit for a metric: what would steer a
// terminal, or is no text, is a question mark in a diamond.
func label(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Clone(name)) // it may be a part of something long
}

// siteOf returns the name of the site that a Host header asks for.
func siteOf(host string) string {
	if port := strings.LastIndexByte(host, ':'); port > strings.LastIndexByte(host, ']') {
		host = host[:port]
	}
	return strings.ToLower(host)
}

// count counts a turn. All that belongs to a name is there from its first turn on.
func (d *dimension) count(name string, r *audit.Record) {
	if len(name) > longestName {
		name = name[:longestName]
	}
	most := d.most
	if !r.Spent() {
		most /= 2 // strangers leave room for those who are answered
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

// countCost counts what a turn cost in dollars.
func (d *dimension) countCost(c *dimensionCounters, r *audit.Record) {
	cost := c.cost.Load()
	if cost == nil { // another turn may do so at once, and finds the same ones
		of := func(kind string) prometheus.Counter { return d.cost.WithLabelValues(c.name, kind) }
		cost = &costCounters{of("actual"), of("client"), of("would")}
		c.cost.Store(cost)
	}
	cost.actual.Add(max(0, r.USD))
	cost.client.Add(max(0, r.ClientUSD))
	cost.would.Add(max(0, r.USD-r.WouldSaveUSD))
}
