// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// The operator's view of sessions.

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// SessionSummary is the operator's view of a session: ids, counters, sizes and warmth, no content.
type SessionSummary struct {
	// ID is the public id, as in the X-Llm-Cache header.
	ID string `json:"id"`
	// Upstream is the upstream of the session.
	Upstream string `json:"upstream"`
	// Created is when the session was first seen.
	Created time.Time `json:"created"`
	// Bytes is the memory of the session.
	Bytes int64 `json:"bytes"`
	// Conversations are its conversations, most recently used first.
	Conversations []ConversationSummary `json:"conversations"`
}

// ConversationSummary is the operator's view of one conversation.
type ConversationSummary struct {
	// ID numbers the conversations of a session.
	ID int `json:"id"`
	// Model is the model of the last request.
	Model string `json:"model"`
	// Requests counts successful requests.
	Requests int `json:"requests"`
	// Blocks is the number of message blocks of the last request.
	Blocks int `json:"blocks"`
	// Created is the start of the first request.
	Created time.Time `json:"created"`
	// Started is the start of the last request.
	Started time.Time `json:"started"`
	// Warmed is the start of the last ping that found the prefix cached.
	Warmed *time.Time `json:"warmed,omitempty"`
	// Pauses and Kept: see [Warmth].
	Pauses int     `json:"pauses"`
	Kept   float64 `json:"kept"`
	// TTLSeconds is the lifetime that the upstream gave the prefix, 0 if unknown.
	TTLSeconds float64 `json:"ttl_seconds"`
	// Warm reports whether the prefix is expected to be cached upstream now.
	Warm bool `json:"warm"`
	// Observed: see [Ledger.Observed]. Frozen reports whether the upstream has refused some edits.
	Observed bool `json:"observed"`
	Frozen   bool `json:"frozen"`
	// Less is the estimated number of tokens by which the last prompt was shorter than the client's
	// own.
	Less int `json:"less,omitempty"`
	// Decision is the reason why the history in the last request was folded or left alone.
	Decision string `json:"decision,omitempty"`
	// Breaks counts the requests for which the upstream's cache had less than expected, by reason:
	// expired, model, tools, system, messages, edit, unknown.
	Breaks map[string]int `json:"cache_breaks,omitempty"`
	// LastBreak is the reason of the last miss.
	LastBreak string `json:"last_cache_break,omitempty"`
	// Caution is the factor by which recent folds cost more than planned.
	Caution float64 `json:"caution,omitempty"`
	// Expanded counts the folded blocks that the model has asked for again, by the class of their
	// tool.
	Expanded map[string]int `json:"expanded,omitempty"`
	// FoldMisses counts the signs of missed folded text: blocks requested again, files read again,
	// edits with an old text that was not found.
	FoldMisses int `json:"fold_misses,omitempty"`
	// OriginalTokens and SentTokens sum up the estimated prompts as the client sent them and as
	// they went upstream.
	OriginalTokens int64 `json:"original_tokens"`
	SentTokens     int64 `json:"sent_tokens"`
	// Last is the usage of the last request, Total that of all of them.
	Last  wire.Usage `json:"last_usage"`
	Total wire.Usage `json:"total_usage"`
	// Cost is the cost of all requests, against the client's own bytes.
	Cost CostSummary `json:"cost"`
	// Ledger counts the edits in force by stage. LedgerBytes is the size of their replacements.
	Ledger      map[string]int `json:"ledger"`
	LedgerBytes int            `json:"ledger_bytes"`
	// Unused counts prunable blocks by the number of answers in a row that did not refer to them.
	// The last entry counts all higher numbers.
	Unused []int `json:"unused"`
}

// Count counts the states of the blocks, and the blocks of each class that the model has asked for
// again.
func (l *ConversationSummary) Count(states []BlockState, expanded []uint16) {
	l.Ledger, l.Unused = map[string]int{}, make([]int, 8)
	for class, n := range expanded {
		l.FoldMisses += int(n)
		if n > 0 {
			if l.Expanded == nil {
				l.Expanded = make(map[string]int)
			}
			l.Expanded[Class(class).String()] = int(n)
		}
	}
	for i := range states {
		st := &states[i]
		if st.Missed {
			l.FoldMisses++
		}
		if st.Edit != nil {
			l.Ledger[st.Edit.Stage]++
			l.LedgerBytes += len(st.Edit.Value)
		}
		if st.Trait != "" || st.Unused > 0 { // blocks that are never referred to have no trait
			l.Unused[min(int(st.Unused), len(l.Unused)-1)]++
		}
	}
}

// StoreStats are the counters of a store.
type StoreStats struct {
	// Sessions and Bytes are the present contents.
	Sessions int   `json:"sessions"`
	Bytes    int64 `json:"bytes"`
	// MaxBytes is the bound.
	MaxBytes int64 `json:"max_bytes"`
	// Kept and KeptBytes are the number and the size of the sessions in the backend; 0 without one.
	Kept      int   `json:"kept,omitempty"`
	KeptBytes int64 `json:"kept_bytes,omitempty"`
	// Created, Evicted and Expired count sessions that were accepted, evicted for want of room, and
	// dropped after their idle time.
	Created uint64 `json:"created"`
	Evicted uint64 `json:"evicted"`
	Expired uint64 `json:"expired"`
	// Since is the time from which on sessions were dropped only for idleness: the start, or the
	// last eviction.
	Since time.Time `json:"since"`
}
