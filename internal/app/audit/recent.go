// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"slices"
	"time"
)

// Turn is what the page shows of a record: counts, times and reasons.
type Turn struct {
	At           time.Time `json:"at"`
	Kind         string    `json:"kind"`
	User         string    `json:"user"`
	Session      string    `json:"session"`
	Conversation int       `json:"conversation"`
	Client       string    `json:"client"`
	Model        string    `json:"model"`
	// Policy is the policy in force.
	Policy string `json:"policy"`
	// Prompt, Read and Output are the billed tokens.
	Prompt int64 `json:"prompt"`
	Read   int64 `json:"read"`
	Output int64 `json:"output"`
	// Cost, ClientCost, USD and ClientUSD are those of the record.
	Cost       float64 `json:"cost"`
	ClientCost float64 `json:"client_cost"`
	USD        float64 `json:"usd"`
	ClientUSD  float64 `json:"client_usd"`
	// Folded counts the blocks that were folded in this turn, and Removed their tokens. Epoch is the
	// moment, and Reason the reason of the decision.
	Folded  int64  `json:"folded"`
	Removed int64  `json:"removed"`
	Epoch   string `json:"epoch"`
	Reason  string `json:"reason"`
	// Break is the reason of a cache miss. FoldMisses counts the misses of folded text.
	Break      string `json:"break"`
	FoldMisses int64  `json:"fold_misses"`
	// FirstToken and Added are the time to the first token and the time that the request waited here, in milliseconds.
	FirstToken float64 `json:"first_token_ms"`
	Added      float64 `json:"added_ms"`
	// Status and Outcome are the end of the turn.
	Status  int    `json:"status"`
	Outcome string `json:"outcome"`
}

// turn returns what the page shows of the record. own copies a text that may be a part of a request.
func (r *Record) turn(own func(string) string) Turn {
	milliseconds := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Turn{
		At: r.At, Kind: r.Kind, User: own(r.User), Session: r.Session, Conversation: r.Conversation,
		Client: own(r.Client), Model: own(r.ModelName()), Policy: r.Policy,
		Prompt: r.Billed.Prompt(), Read: r.Billed.Read, Output: r.Billed.Output,
		Cost: r.Cost, ClientCost: r.ClientCost, USD: r.USD, ClientUSD: r.ClientUSD,
		Folded: r.Folded, Removed: r.Removed, Epoch: r.Epoch, Reason: own(r.Reason), Break: r.Break,
		FoldMisses: int64(r.FoldMisses), FirstToken: milliseconds(r.FirstToken), Added: milliseconds(r.Queue), Status: r.Status,
		Outcome: r.Outcome,
	}
}

// whole is the identity of texts that are copies already.
func whole(s string) string { return s }

// Filter selects turns.
type Filter struct {
	// Since is the time of the first turn.
	Since time.Time
	// User and Session select the turns of one. Empty ones select all.
	User    string
	Session string
	// Limit is the maximum number of turns: the latest ones.
	Limit int
}

func (f *Filter) selects(t *Turn) bool {
	return !t.At.Before(f.Since) && (f.User == "" || t.User == f.User) && (f.Session == "" || t.Session == f.Session)
}

// where returns the filter as an SQL condition and its arguments. The database has since as a time of
// its own, and parameter returns the name of the nth parameter.
func (f *Filter) where(since any, parameter func(n int) string) (condition string, args []any) {
	args = []any{since}
	condition = "at >= " + parameter(1) + " AND turns = 1"
	for _, c := range [...]struct{ column, value string }{{"user_id", f.User}, {"session", f.Session}} {
		if c.value != "" {
			args = append(args, c.value)
			condition += " AND " + c.column + " = " + parameter(len(args))
		}
	}
	args = append(args, f.Limit)
	return condition + " ORDER BY at DESC LIMIT " + parameter(len(args)), args
}

// RecentSource is a source that finds the latest turns without reading all records.
type RecentSource interface {
	// Recent returns the turns that a filter selects, the latest first.
	Recent(ctx context.Context, f Filter) ([]Turn, error)
}

// Recent returns the turns of a source that a filter selects, the latest first.
func Recent(ctx context.Context, from Source, f Filter) ([]Turn, error) {
	if r, ok := from.(RecentSource); ok {
		return r.Recent(ctx, f)
	}
	turns := []Turn{}
	err := from.Each(ctx, f.Since, func(r *Record) error {
		if t := r.turn(whole); r.Turns == 1 && f.selects(&t) {
			if len(turns) >= 2*f.Limit { // the older half is of no use any more
				turns = append(turns[:0], turns[len(turns)-f.Limit:]...)
			}
			turns = append(turns, t)
		}
		return nil
	})
	slices.Reverse(turns)
	return turns[:min(len(turns), f.Limit)], err
}
