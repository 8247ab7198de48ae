// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package planner

// Input is all that a decision depends on. Sizes are estimated tokens.
type Input struct {
	Moment
	Cache
	Prices
	Past
	// Blocks are the message blocks, in order.
	Blocks []Block
	// Base is what stands in front of them, Total the whole prompt as the client
	// wrote it.
	Base, Total float64
	// Further is the number of further requests expected (R).
	Further float64
	// Care is how many times its price the need of a folded text counts, Harm what
	// it costs that it is not there.
	Care float64
	// Harm: see Care.
	Harm Harm
}

// Moment is where in a conversation a request stands.
type Moment struct {
	// Epoch is what makes it free to edit history, NoEpoch if nothing does.
	Epoch Epoch
	// Loop reports whether the model is in the middle of a run of tool calls.
	Loop bool
	// Bound reports whether what the model has thought is bound to what stood
	// before it.
	Bound bool
	// Begun reports whether anything is known of the conversation.
	Begun bool
	// Regretted reports whether too much of what was folded was missed.
	Regretted bool
}

// Cache is what the upstream holds of the prompt.
type Cache struct {
	// Warm is the number of blocks that are cached as they were sent.
	Warm int
	// Forwarded is the number of blocks that went out before.
	Forwarded int
	// Entries are the numbers of blocks in front of the live cache entries.
	// Anywhere reports that every prefix of what is cached is found instead.
	Entries  []int
	Anywhere bool
	// Lapsed reports that the entry in front of the first message block is not alive:
	// a fold with no other entry in front of it has tools and system text written, too.
	Lapsed bool
}

// Prices are what a token costs, in uncached input tokens, and what bounds a prompt.
type Prices struct {
	// Write is the price of a token written to the cache, Read of one read from it.
	Write, Read float64
	// MinTokens is the shortest prefix that is cached.
	MinTokens int
	// Window is the model's context window, 0 if unknown.
	Window int
}

// Past is what a conversation has been so far.
type Past struct {
	// Requests is the number of its requests.
	Requests int
	// Spent is what they have cost, Staked what folds were expected to cost at
	// first, less what they have saved since.
	Spent, Staked float64
	// Removed is the number of tokens that folds have taken out.
	Removed float64
	// Caution is how many times dearer than planned folds have turned out
	// lately, at least 1.
	Caution float64
}

// Block is one message block.
type Block struct {
	// Tokens is what it goes out with as it stands.
	Tokens float64
	// Whole is what folding it saves, Part what folding only the text that it has
	// replaced saves: 0 where it is not to be folded so.
	Whole, Part float64
	// Need is the chance that the agent will need its text again.
	Need float64
}

// Fold is one block to fold.
type Fold struct {
	// Block is its index.
	Block int
	// Tokens is what that saves.
	Tokens float64
	// Part reports that only what it has replaced is folded.
	Part bool
}

// Plan is a decision and what follows from it.
type Plan struct {
	Decision
	// Folds are the blocks to fold, in order. They are good until the scratch
	// memory is used again.
	Folds []Fold
	// Entry is the number of blocks in front of the cache entry that the folds
	// build on, 0 for none.
	Entry int
}

// Scratch is memory that plans are made in, to be used again.
type Scratch struct {
	value, saving, kept, again []float64

	part  []bool
	folds []Fold
}

// zeroed returns n zero values, in the memory of s if they fit.
func zeroed[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4+16)
	}
	s = s[:n]
	clear(s)
	return s
}
