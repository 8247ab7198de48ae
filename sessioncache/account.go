// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Account keeps, for a conversation, what its provider holds of it, when that was
// used, what it has cost, and what has come of editing it.

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Held is what the provider holds of a conversation, so that a request need not
// carry it.
type Held struct {
	// Partial reports whether the requests hold the end of the conversation only:
	// the provider has the rest.
	Partial bool
	// Beyond reports whether the provider has been told more than the last whole
	// request, to which the ledger belongs: further requests held the end only.
	Beyond bool
	// Less is by how many tokens what the provider holds of the conversation is
	// shorter than what the client wrote.
	Less int
	// Reply is a hash of the id of the last answer where a request may go on from
	// it, see [wire.Conversation.Continues]; First is that of [wire.View.FirstAnswer]. Zero
	// for none.
	Reply, First wire.Hash
}

// Warmth is when the prefix of a conversation was last read or written upstream,
// and where entries of it end.
type Warmth struct {
	// Created and Started are the starts of the first and the last of the requests.
	// Cache lifetimes count from the start of a request.
	Created, Started time.Time
	// Warmed is the start of the last ping that found the prefix cached, zero
	// if there was none. It prolongs the lifetime as a request does.
	Warmed time.Time
	// Pauses counts the pauses longer than the lifetime that the conversation
	// has come back from.
	Pauses int
	// Kept is what pings in them have saved, less what all pings have cost, in
	// units of one uncached input token.
	Kept float64
	// TTL is the lifetime that the upstream gave the prefix, 0 if unknown.
	TTL time.Duration
	// Ends are the block counts at which the upstream is expected to hold a
	// cache entry, with the time at which it was last written or read.
	Ends Ends
}

// Warm reports whether the prefix is expected to be cached upstream at a time.
// Unknown lifetimes count as ttl.
func (w *Warmth) Warm(at time.Time, ttl time.Duration) bool {
	if w.TTL > 0 {
		ttl = w.TTL
	}
	return ttl == 0 || at.Sub(w.LastUse()) <= ttl
}

// LastUse is when the lifetime of the cached prefix last began anew: at the
// start of the last request, or of a ping since.
func (w *Warmth) LastUse() time.Time {
	if w.Warmed.After(w.Started) {
		return w.Warmed
	}
	return w.Started
}

// Spending is what the requests of a conversation have taken and cost.
type Spending struct {
	// Last is the usage of the last request, Total that of all of them.
	Last, Total wire.Usage
	// Cleared is what was left out of the last prompt because the client has ordered it,
	// by the provider as a rule.
	Cleared wire.Cleared
	// Estimate is what the last request was estimated at before its usage
	// was known; with Last it corrects the next estimate.
	Estimate int
	// OriginalTokens and SentTokens sum up the estimates of all requests.
	OriginalTokens, SentTokens int64
	// Cost is what all requests have cost.
	Cost CostSummary
	// Spent is what all prompts have cost by the usage reported, in units of one
	// uncached input token.
	Spent float64
	// Front is a hash of the client's last prompt up to its first message block.
	Front uint64
}

// Folding is what has come of the planner's decisions.
type Folding struct {
	// Decision says, in a form for people, why the last request was edited or
	// left alone.
	Decision string
	// Settled is the number of blocks that the last fold looked at: what it
	// left of them is expected to stay.
	Settled int
	// Staked is what folds of cached history were expected to cost at first, less
	// what they have saved since, in units of one uncached input token.
	Staked float64
	// Removed is the number of tokens that folds have taken out.
	Removed float64
	// Caution is how many times dearer than planned folds have turned out lately,
	// 0 or 1 where they cost what was planned.
	Caution float64
}

// Misses are the requests for which the upstream's cache held less than expected.
type Misses struct {
	// Break is the reason of the last of them.
	Break string
	// Breaks counts them by reason.
	Breaks map[string]int
}

// Broke notes that the upstream's cache held less than expected.
func (m *Misses) Broke(reason string) {
	if m.Breaks == nil {
		m.Breaks = make(map[string]int)
	}
	m.Break = reason
	m.Breaks[reason]++
}
