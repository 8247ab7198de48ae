// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pinger

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

// Watcher receives every ping when it is over, and every pause with pings when the client has
// returned. Its methods must not block.
type Watcher interface {
	// Pinged receives a ping.
	Pinged(Record)
	// Resumed receives a pause.
	Resumed(Pause)
}

// Record is one ping. Costs are in units of one uncached input token.
type Record struct {
	// Session is the session's id.
	Session string `json:"session"`
	// Conversation is the number of the conversation in its session.
	Conversation int `json:"conversation"`
	// Tenant is the tenant of the session.
	Tenant [16]byte `json:"-"`
	// Number counts the pings of one pause from 1 on.
	Number int `json:"number"`
	// At is the time of sending.
	At time.Time `json:"at"`
	// Model is the requested model.
	Model string `json:"model"`
	// Outcome is the result of the ping.
	Outcome keepalive.Outcome `json:"outcome"`
	// Usage is the reported usage.
	Usage wire.Usage `json:"usage"`
	// Cost is the cost of the usage.
	Cost float64 `json:"cost"`
	// Dollars is the cost in US dollars, 0 if the price is unknown.
	Dollars float64 `json:"dollars"`
}

// Pause is one pause with pings, after the client has returned and got its response.
type Pause struct {
	// Session is the session's id.
	Session string `json:"session"`
	// Conversation is the number of the conversation in its session.
	Conversation int `json:"conversation"`
	// At is the time of the return.
	At time.Time `json:"at"`
	// Age is the length of the pause, from the start of one request to the start of the next, in nanoseconds.
	Age time.Duration `json:"age"`
	// Pings is the number of pings.
	Pings int `json:"pings"`
	// Cost is the cost of the pings.
	Cost float64 `json:"cost"`
	// Saved is the amount that the next request did not pay thanks to the pings.
	Saved float64 `json:"saved"`
}

// Sum is the total of all pings, in units of one uncached input token.
type Sum struct {
	// Pings is the number of pings.
	Pings int `json:"pings"`
	// Cost is the cost of the pings.
	Cost float64 `json:"cost"`
	// Saved is the amount that the requests after the pings did not pay.
	Saved float64 `json:"saved"`
}

// Report is the operator's view of the pings of one session store.
type Report struct {
	// Schedule counts the scheduled conversations and past decisions.
	Schedule keepalive.Stats `json:"schedule"`
	// NextSeconds is the time to the next decision, absent if none is due.
	NextSeconds *float64 `json:"next_seconds,omitempty"`
	// Sum is the total of all pings.
	Sum Sum `json:"sum"`
	// Tiers compares the cache's lifetimes.
	Tiers keepalive.TierReport `json:"tiers"`
}

// Report returns the operator's view of the keeper.
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
