// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

// Summary says what an operator may see of sessions.

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// SessionSummary is what an operator may see of a session: ids, counters, sizes
// and warmth, no content.
type SessionSummary struct {
	// ID is the public id, as in the X-Llm-Cache header.
	ID string `json:"id"`
	// Upstream is the upstream of the session.
	Upstream string `json:"upstream"`
	// Created is when the session was first seen.
	Created time.Time `json:"created"`
	// Bytes is the memory that it holds.
	Bytes int64 `json:"bytes"`
	// Lineages are its conversations, most recently used first.
	Lineages []LineageSummary `json:"lineages"`
}

// LineageSummary is what an operator may see of one conversation.
type LineageSummary struct {
	// ID numbers the conversations of a session.
	ID int `json:"id"`
	// Model is the model of the last request.
	Model string `json:"model"`
	// Requests counts requests that ended well.
	Requests int `json:"requests"`
	// Blocks is the number of message blocks of the last request.
	Blocks int `json:"blocks"`
	// Created is the start of the first request.
	Created time.Time `json:"created"`
	// Started is the start of the last request.
	Started time.Time `json:"started"`
	// Warmed is the start of the last ping that found the prefix cached.
	Warmed *time.Time `json:"warmed,omitempty"`
	// Pauses and Kept: see the lineage in package sessioncache.
	Pauses int     `json:"pauses"`
	Kept   float64 `json:"kept"`
	// TTLSeconds is the lifetime that the upstream gave the prefix, 0 if unknown.
	TTLSeconds float64 `json:"ttl_seconds"`
	// Warm reports whether the prefix is expected to be cached upstream now.
	Warm bool `json:"warm"`
	// Observed and Frozen: see the lineage in package sessioncache.
	Observed bool `json:"observed"`
	Frozen   bool `json:"frozen"`
	// Less is by how many tokens the last prompt was shorter than the client wrote
	// it, estimated.
	Less int `json:"less,omitempty"`
	// Decision says why the history in the last request was folded or left alone.
	Decision string `json:"decision,omitempty"`
	// Breaks counts the requests for which the upstream's cache held less than
	// expected, by reason: expired, model, tools, system, messages, edit, unknown.
	Breaks map[string]int `json:"cache_breaks,omitempty"`
	// LastBreak is the reason of the last of them.
	LastBreak string `json:"last_cache_break,omitempty"`
	// Caution is how many times dearer than planned folds have turned out lately.
	Caution float64 `json:"caution,omitempty"`
	// Expanded counts the folded blocks that the model has asked for again, by
	// the class of the tool whose text it was.
	Expanded map[string]int `json:"expanded,omitempty"`
	// Regret counts the signs that the model has missed folded text: what it asked for
	// again, read again, or did not find the place of in an edit.
	Regret int `json:"regret,omitempty"`
	// OriginalTokens and SentTokens sum up the prompts as the client sent
	// them and as they went upstream, estimated.
	OriginalTokens int64 `json:"original_tokens"`
	SentTokens     int64 `json:"sent_tokens"`
	// Last is the usage of the last request, Total that of all of them.
	Last  wire.Usage `json:"last_usage"`
	Total wire.Usage `json:"total_usage"`
	// CostSummary is what all requests have cost, against the client's own bytes.
	Cost CostSummary `json:"cost"`
	// Ledger counts the edits in force by stage, and the bytes that stand in
	// for what was edited.
	Ledger      map[string]int `json:"ledger"`
	LedgerBytes int            `json:"ledger_bytes"`
	// Unused counts prunable blocks by the number of answers in a row that
	// did not refer to them; the last entry holds all above.
	Unused []int `json:"unused"`
}

// Count counts what is remembered of the blocks, and how often the model has asked for those
// of each class.
func (l *LineageSummary) Count(states []BlockState, expanded []uint16) {
	l.Ledger, l.Unused = map[string]int{}, make([]int, 8)
	for class, n := range expanded {
		l.Regret += int(n)
		if n > 0 {
			if l.Expanded == nil {
				l.Expanded = make(map[string]int)
			}
			l.Expanded[Class(class).String()] = int(n)
		}
	}
	for i := range states {
		st := &states[i]
		if st.Regret {
			l.Regret++
		}
		if st.Edit != nil {
			l.Ledger[st.Edit.Stage]++
			l.LedgerBytes += len(st.Edit.Value)
		}
		if st.Trait != "" || st.Unused > 0 { // which it has is not kept of those that nobody uses
			l.Unused[min(int(st.Unused), len(l.Unused)-1)]++
		}
	}
}

// CostSummary is what requests have cost, and what the client's own bytes would have
// cost in their place, answers included.
type CostSummary struct {
	// Units and ClientUnits are in units of one uncached input token.
	Units       float64 `json:"units"`
	ClientUnits float64 `json:"client_units"`
	// USD and ClientUSD are in US dollars, 0 where prices are not known.
	USD       float64 `json:"usd"`
	ClientUSD float64 `json:"client_usd"`
	// WouldSave and WouldSaveUSD are what edits that were only computed would
	// have saved, net, since the process began.
	WouldSave float64 `json:"would_save,omitempty"`
	// WouldSaveUSD: see WouldSave.
	WouldSaveUSD float64 `json:"would_save_usd,omitempty"`
}

// Add adds the cost of a request.
func (c *CostSummary) Add(units, clientUnits, usd, clientUSD float64) {
	c.Units += units
	c.ClientUnits += clientUnits
	c.USD += usd
	c.ClientUSD += clientUSD
}

// StoreStats are the counters of a store.
type StoreStats struct {
	// Sessions and Bytes are what is held now.
	Sessions int   `json:"sessions"`
	Bytes    int64 `json:"bytes"`
	// MaxBytes is the bound.
	MaxBytes int64 `json:"max_bytes"`
	// Kept and KeptBytes are the sessions that outlive the process, and what they take
	// where they are kept; 0 in a store that keeps none.
	Kept      int   `json:"kept,omitempty"`
	KeptBytes int64 `json:"kept_bytes,omitempty"`
	// Created, Evicted and Expired count sessions that were accepted, pushed out
	// for want of room, and forgotten for idleness.
	Created uint64 `json:"created"`
	Evicted uint64 `json:"evicted"`
	Expired uint64 `json:"expired"`
	// Since is the moment from which on nothing was forgotten but for
	// idleness: the start, or the last eviction.
	Since time.Time `json:"since"`
}
