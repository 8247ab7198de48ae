// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The account of a conversation: the part that the provider retains, cache warmth, usage, cost, and
// the results of editing it.

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Held is the part of a conversation that the provider retains, so that a request need not carry
// it.
type Held struct {
	// Partial reports whether the requests carry only the end of the conversation, because the
	// provider has the rest.
	Partial bool
	// Beyond reports whether the provider has received turns after the last whole request. Those
	// turns carried only the end of the conversation; the edit ledger belongs to the whole request.
	Beyond bool
	// Less is the number of tokens by which the history at the provider is shorter than the
	// client's own.
	Less int
	// Reply is a hash of the id of the last response where a request may continue from it, see
	// [wire.Conversation.Continues]. First is the hash of [wire.View.FirstAnswer]. Zero for none.
	Reply, First wire.Hash
}

// Warmth tells when the prefix of a conversation was last read or written upstream, and where its
// cache entries end.
type Warmth struct {
	// Created and Started are the starts of the first and the last request. Cache lifetimes count
	// from the start of a request.
	Created, Started time.Time
	// Warmed is the start of the last ping that found the prefix cached, zero if there was none.
	// Such a ping prolongs the lifetime as a request does.
	Warmed time.Time
	// Pauses counts the pauses longer than the cache lifetime after which the conversation went on.
	Pauses int
	// Kept is the saving from pings in those pauses, less the cost of all pings, in units of one
	// uncached input token.
	Kept float64
	// TTL is the lifetime that the upstream gave the prefix, 0 if unknown.
	TTL time.Duration
	// Ends are the block counts at which the upstream is expected to have a cache entry, with the
	// time at which the entry was last written or read.
	Ends Ends
}

// Warm reports whether the prefix is expected to be cached upstream at a time. An unknown lifetime
// counts as ttl.
func (w *Warmth) Warm(at time.Time, ttl time.Duration) bool {
	if w.TTL > 0 {
		ttl = w.TTL
	}
	return ttl == 0 || at.Sub(w.LastUse()) <= ttl
}

// LastUse returns when the lifetime of the cached prefix last restarted: the start of the last
// request, or of a later ping.
func (w *Warmth) LastUse() time.Time {
	if w.Warmed.After(w.Started) {
		return w.Warmed
	}
	return w.Started
}

// Spending is the usage and the cost of a conversation's requests.
type Spending struct {
	// Last is the usage of the last request, Total that of all of them.
	Last, Total wire.Usage
	// Cleared is the part of the last prompt that was left out on the client's order, usually by
	// the provider.
	Cleared wire.Cleared
	// Estimate is the estimated size of the last request, made before its usage was known. Together
	// with Last it corrects the next estimate.
	Estimate int
	// OriginalTokens and SentTokens sum up the estimates of all requests.
	OriginalTokens, SentTokens int64
	// Cost is the cost of all requests.
	Cost CostSummary
	// Spent is the cost of all prompts by reported usage, in units of one uncached input token.
	Spent float64
	// Front is a hash of the client's last prompt up to its first message block.
	Front uint64
}

// Folding is the outcome of the planner's decisions.
type Folding struct {
	// Decision is a readable reason why the last request was edited or left alone.
	Decision string
	// Settled is the number of blocks that the last fold examined. Blocks that it left are expected
	// to stay.
	Settled int
	// Staked is the expected initial cost of folds of cached history, less their savings so far, in
	// units of one uncached input token.
	Staked float64
	// Removed is the number of tokens that folds have removed.
	Removed float64
	// Caution is the factor by which recent folds cost more than planned, 0 or 1 where they cost no
	// more.
	Caution float64
}

// Misses are the requests for which the upstream's cache had less than expected.
type Misses struct {
	// Break is the reason of the last miss.
	Break string
	// Breaks counts misses by reason.
	Breaks map[string]int
}

// Broke records a request for which the upstream's cache had less than expected.
func (m *Misses) Broke(reason string) {
	if m.Breaks == nil {
		m.Breaks = make(map[string]int)
	}
	m.Break = reason
	m.Breaks[reason]++
}
