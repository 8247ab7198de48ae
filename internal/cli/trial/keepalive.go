// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/figure"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive/pinger"
)

// Ping is one ping of a conversation, and its result.
type Ping struct {
	// At is the time of the ping, in seconds from the first request.
	At float64 `json:"at"`
	// Number counts the pings of one pause from 1 on.
	Number int `json:"number"`
	// Outcome is the result of the ping.
	Outcome string `json:"outcome"`
	// Cost is the ping's cost. Net is its share of the next request's saving, less the cost: all
	// pings of a pause share equally.
	Cost float64 `json:"cost"`
	// Net: see Cost.
	Net float64 `json:"net"`
	// Tail reports that no request followed.
	Tail bool `json:"tail,omitempty"`
}

func (a *arm) abandon() {
	before := len(a.pings)
	a.clock.advance(a.clock.Now().AddDate(1, 0, 0))
	r := &a.result
	for i := range a.pings {
		p := &a.pings[i]
		if p.Tail = i >= before; p.Tail {
			r.TailPings++
			r.TailCost += p.Cost
			continue
		}
		r.Pings++
		r.PingCost += p.Cost
		r.Cost += p.Cost
	}
	r.PingList = a.pings
}

func (a *arm) answer(_ context.Context, v *wire.View) *simulator.Answer {
	if a.internal != 0 {
		return nil
	}
	return a.say(v)
}

// Pinged implements pinger.Watcher.
func (a *arm) Pinged(p pinger.Record) {
	cost := a.profile.Rules().Cost(p.Usage)
	a.pings = append(a.pings, Ping{
		At: p.At.Sub(defaultStart).Seconds(), Number: p.Number, Outcome: string(p.Outcome),
		Cost: cost, Net: -cost,
	})
}

// Resumed implements pinger.Watcher.
func (a *arm) Resumed(p pinger.Pause) {
	n := min(p.Pings, len(a.pings))
	for i := len(a.pings) - n; i < len(a.pings); i++ {
		a.pings[i].Net += p.Saved / float64(n)
	}
	a.result.PingSaved += p.Saved
}

func (r *Combination) writePings(w io.Writer) {
	if r.Total.Pings+r.Total.TailPings == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kept alive\tpings\tcost\tsaved\tnet\tpings after the end\tcost\t")
	row := func(c *Result) {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%d\t%s\t\n", c.Conversation, c.Pings, thousands(int64(c.PingCost)),
			thousands(int64(c.PingSaved)),
			thousands(int64(c.PingSaved-c.PingCost)), c.TailPings, thousands(int64(c.TailCost)))
	}
	for i := range r.Conversations {
		if c := &r.Conversations[i]; c.Pings+c.TailPings > 0 {
			// The JSON report lists single pings.
			row(c)
		}
	}
	row(&r.Total)
	_ = t.Flush() // to memory
	all, worst := r.withTail()
	fmt.Fprintf(w, "if nobody came back after the last request: in all %s, worst %s\n", figure.Change(all),
		figure.Change(worst))
}

// withTail returns the cost ratio of all conversations and the worst of any.
func (r *Combination) withTail() (all, worst float64) {
	t := &r.Total
	// The pings after the last requests count, too: no return ever pays for them.
	all = Ratio(t.Cost+t.TailCost, t.BaseCost)
	for i := range r.Conversations {
		c := &r.Conversations[i]
		worst = max(worst, Ratio(c.Cost+c.TailCost, c.BaseCost))
	}
	return all, worst
}
