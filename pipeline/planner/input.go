// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// Input is the complete input of a decision. Sizes are estimated tokens.
type Input struct {
	Moment
	Cache
	Prices
	Past
	// Blocks are the message blocks, in order.
	Blocks []Block
	// Base is the size of the prompt before the message blocks. Total is the size of the client's
	// whole prompt.
	Base, Total float64
	// Further is the expected number of further requests (R).
	Further float64
	// Care multiplies the cost of a needed fold.
	Care float64
	// Harm is the price of a needed text that is folded.
	Harm Harm
}

// Moment is the state of the conversation at a request.
type Moment struct {
	// Epoch is a reason that makes edits of history free, NoEpoch if there is none.
	Epoch Epoch
	// Loop reports whether the request is in the middle of a run of tool calls.
	Loop bool
	// Bound reports whether the model's thinking is bound to the blocks before it.
	Bound bool
	// Begun reports whether the conversation is known.
	Begun bool
	// Regretted reports whether too many folds were missed.
	Regretted bool
}

// Cache describes the upstream's cache of the prompt.
type Cache struct {
	// Warm is the number of blocks cached as they were sent.
	Warm int
	// Forwarded is the number of blocks sent before.
	Forwarded int
	// Entries are the live cache entries, each as the number of blocks before its end. With
	// Anywhere, the cache finds every prefix instead.
	Entries  []int
	Anywhere bool
	// Lapsed reports that the entry before the first message block has expired. A fold without
	// another entry before it then writes tools and system text again.
	Lapsed bool
}

// Prices are the prices of tokens, in uncached input tokens, and the limits of a prompt.
type Prices struct {
	// Write is the price of a token written to the cache, Read of a token read from it.
	Write, Read float64
	// MinTokens is the minimum length of a cached prefix.
	MinTokens int
	// Window is the model's context window in tokens, 0 if unknown.
	Window int
}

// Past is the history of costs of a conversation.
type Past struct {
	// Requests is the number of requests.
	Requests int
	// Spent is the cost of the requests. Staked is the expected cost of all folds less their
	// savings since.
	Spent, Staked float64
	// Removed is the number of tokens removed by folds.
	Removed float64
	// Caution is the ratio of actual to planned costs of recent folds, at least 1.
	Caution float64
}

// Block is one message block.
type Block struct {
	// Tokens is the current size of the block in the sent request.
	Tokens float64
	// Whole is the saving of a complete fold. Part is the saving of folding only the text that the
	// block's edit replaced. 0 means no such fold.
	Whole, Part float64
	// Need is the probability that the agent will need the text again.
	Need float64
}

// Fold is one block to fold.
type Fold struct {
	// Block is the block's index.
	Block int
	// Tokens is the saving.
	Tokens float64
	// Part reports that only the replaced text is folded.
	Part bool
}

// Plan is a decision with its folds.
type Plan struct {
	Decision
	// Folds are the blocks to fold, in order. They are valid until the scratch memory is used
	// again.
	Folds []Fold
	// Entry is the number of blocks before the cache entry that the folds keep, 0 for none.
	Entry int
}

// Scratch is reusable memory for plans.
type Scratch struct {
	value, saving, kept, again []float64

	part  []bool
	folds []Fold
}

// zeroed returns n zero values, in the memory of s if it is large enough.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	s = s[:n]
	clear(s)
	return s
}
