// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

// Watcher is told of every ping when it is over, and of every pause with
// pings when it is. It must be quick.
type Watcher interface {
	// Pinged is told of a ping.
	Pinged(Record)
	// Resumed is told of a pause.
	Resumed(Pause)
}

// Record is one ping. Costs are in units of one uncached input token.
type Record struct {
	// Session and Lineage name the conversation, Tenant whose it is.
	Session string `json:"session"`
	// Lineage: see Session.
	Lineage int `json:"lineage"`
	// Tenant: see Session.
	Tenant [16]byte `json:"-"`
	// Number counts the pings of one pause from 1 on.
	Number int `json:"number"`
	// At is when it was sent.
	At time.Time `json:"at"`
	// Model is the model asked.
	Model string `json:"model"`
	// Outcome is what became of it.
	Outcome keepalive.Outcome `json:"outcome"`
	// Usage is what the upstream reported, and Cost what that costs.
	Usage wire.Usage `json:"usage"`
	// Cost: see Usage.
	Cost float64 `json:"cost"`
	// Dollars is the same in US dollars, 0 where the price is not known.
	Dollars float64 `json:"dollars"`
}

// Pause is one pause with pings, when the client is back and was answered.
type Pause struct {
	// Session and Lineage name the conversation.
	Session string `json:"session"`
	// Lineage: see Session.
	Lineage int `json:"lineage"`
	// At is when the client came back.
	At time.Time `json:"at"`
	// Age is how long the pause was, from the start of one request to that of
	// the next, in nanoseconds.
	Age time.Duration `json:"age"`
	// Pings is their number, Cost what they cost, and Saved what the next
	// request then did not pay.
	Pings int `json:"pings"`
	// Cost: see Pings.
	Cost float64 `json:"cost"`
	// Saved: see Pings.
	Saved float64 `json:"saved"`
}

// Sum is what all pings have come to.
type Sum struct {
	// Pings is their number, Cost what they cost and Saved what the requests
	// after them did not pay, in units of one uncached input token.
	Pings int `json:"pings"`
	// Cost: see Pings.
	Cost float64 `json:"cost"`
	// Saved: see Pings.
	Saved float64 `json:"saved"`
}

// Report is the operator's view of the pings of one session store.
type Report struct {
	// Schedule is what is held and was decided.
	Schedule keepalive.Stats `json:"schedule"`
	// NextSeconds is the time to the next decision, absent if none is due.
	NextSeconds *float64 `json:"next_seconds,omitempty"`
	// Sum is what all pings have come to.
	Sum Sum `json:"sum"`
	// Tiers reports whether the long lifetime would have been cheaper.
	Tiers keepalive.TierReport `json:"tiers"`
}

// Report returns it.
func (k *Keeper) Report() Report {
	now := k.now()
	r := Report{Schedule: k.Schedule.Stats(now), Tiers: k.Tiers.Report()}
	if due, ok := k.Schedule.Next(); ok {
		s := max(due-now.Mono, 0).Seconds()
		r.NextSeconds = &s
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	r.Sum = k.sum
	return r
}
