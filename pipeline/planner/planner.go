// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package planner decides which blocks of a conversation to fold, and when.
//
// Folding removes ΔT tokens from every further request, which the upstream would have read from its
// cache. The cached blocks after the first fold must be written to the cache again. The expected
// gain of all worthwhile folds from depth d on is therefore
//
//	Σ value(i ≥ d) − S(d)·(w−r)   with   value(i) = ΔT(i)·r·R − need(i)·refetch(i)
//
// R is the expected number of further requests. S(d) is the number of kept tokens between the last
// cache entry before d and the end of the cached prefix. S is zero if nothing is cached: after
// expiry, for another model, or for history that the client rewrote.
//
// The package knows no requests, edits or sessions: its input is numbers and its output a decision.
package planner

import (
	"cmp"
	"strconv"
)

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
	// TooManyMisses reports whether too many folds were missed.
	TooManyMisses bool
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
	// Lapsed reports that the entry before the first message block has expired, or that there is none. A fold without
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
	// Spent is the cost of the requests. Staked is the expected cost of all folds and restored texts
	// less the savings since.
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

// Epoch is a moment at which blocks forwarded before may be edited.
type Epoch string

// The epochs.
const (
	// NoEpoch: forwarded blocks stay unchanged.
	NoEpoch Epoch = "none"
	// Cold: the upstream's cache has certainly expired.
	Cold Epoch = "cold"
	// Diverged: the client rewrote its history. Only blocks after the first difference are edited.
	Diverged Epoch = "diverged"
	// ModelChanged: the new model has a cache of its own.
	ModelChanged Epoch = "model"
	// PrefixChanged: the client changed the tools or the system prompt.
	PrefixChanged Epoch = "prefix"
	// WindowNear: the prompt is close to the model's context window.
	WindowNear Epoch = "window"
	// TaskBoundary: a human prompt, with a positive expected net gain.
	TaskBoundary Epoch = "boundary"
	// InLoop: within a run of tool calls, with little need of the folded text.
	InLoop Epoch = "loop"
)

// Decision says why a request was edited or left alone. Sizes are estimated tokens; the gain is in
// uncached input tokens.
type Decision struct {
	// Epoch is the moment, NoEpoch if history was left alone.
	Epoch Epoch `json:"epoch"`
	// Reason says in a few words why history was left alone, "" if it was not.
	Reason string `json:"reason,omitempty"`
	// Candidates is the number of blocks worth folding.
	Candidates int `json:"candidates"`
	// Folded is the number of blocks folded in this request.
	Folded int `json:"folded"`
	// Removed is the number of tokens saved by the folds (ΔT).
	Removed int `json:"removed"`
	// Rewritten is the number of tokens after the first fold that must be written to the cache
	// again (S).
	Rewritten int `json:"rewritten"`
	// Further is the expected number of further requests (R).
	Further float64 `json:"further"`
	// Gain is the expected gain of the folds, net of the tokens written again and of text fetched
	// again.
	Gain float64 `json:"gain"`
}

// String formats the decision for the X-Llm-Cache-Decision header.
func (d *Decision) String() string { return d.Update("") }

// Update returns the same as String. It returns before itself if the two are equal, which saves the
// allocation.
func (d *Decision) Update(before string) string {
	var few [192]byte
	b := append(append(few[:0], "epoch="...), d.Epoch...)
	for _, n := range [...]struct {
		name  string
		value int
	}{{"; candidates=", d.Candidates}, {"; folded=", d.Folded}, {"; removed=", d.Removed}, {"; rewritten=", d.Rewritten}} {
		b = strconv.AppendInt(append(b, n.name...), int64(n.value), 10)
	}
	b = strconv.AppendFloat(append(b, "; further="...), d.Further, 'f', 0, 64)
	b = strconv.AppendFloat(append(b, "; gain="...), d.Gain, 'f', 0, 64)
	if d.Reason != "" {
		b = strconv.AppendQuote(append(b, "; reason="...), d.Reason)
	}
	if string(b) == before {
		return before
	}
	return string(b)
}

// NothingToFold is the reason if no block is worth folding.
const NothingToFold = "nothing to fold"

// Refuses says why the moment forbids every fold, "" if it does not.
func (m *Moment) Refuses() string {
	switch {
	case m.TooManyMisses:
		return "what was folded was missed"
	case m.Loop && m.Bound && m.Begun && m.Epoch == NoEpoch:
		return "the run of calls is open"
	}
	return ""
}

// Make decides which blocks to fold now.
func Make(in *Input, s *Scratch) Plan {
	p := Plan{Decision: Decision{Epoch: in.Epoch, Further: in.Further}}
	if reason := in.Refuses(); reason != "" {
		return p.nothing(reason)
	}
	if p.Candidates = in.appraise(s); p.Candidates == 0 {
		return p.nothing(NothingToFold)
	}
	best, unaffordable := in.best(s)
	if best.gain == 0 && unaffordable.gain > 0 {
		p.Gain, p.Rewritten = unaffordable.gain, int(unaffordable.rewritten)
		return p.nothing(cmp.Or(in.forbids(unaffordable), "too much at stake so early"))
	}
	p.Gain, p.Rewritten = best.gain, int(best.rewritten)
	if best.gain == 0 {
		if in.Warm > 0 && in.Write-in.Read > longPayback*in.Read {
			return p.nothing(ReadsCheap)
		}
		return p.nothing("no gain")
	}
	if best.rewritten > 0 {
		if reason := in.forbids(best); reason != "" {
			return p.nothing(reason)
		}
		p.Epoch, p.Entry = in.epoch(), in.entry(best.from)
	}
	p.Folds = s.list(best.from)
	return p
}

func (p Plan) nothing(reason string) Plan {
	p.Epoch, p.Reason = NoEpoch, reason
	return p
}

// epoch names the moment of a fold that invalidates cached history.
func (in *Input) epoch() Epoch {
	switch {
	case in.full():
		return WindowNear
	case in.Epoch != NoEpoch && in.Epoch != Diverged:
		return in.Epoch
	case in.Loop:
		return InLoop
	}
	return TaskBoundary
}

// Gain returns the expected gain of folding now, 0 if a fold is forbidden.
func Gain(in *Input, s *Scratch) float64 {
	if in.TooManyMisses {
		return 0
	}
	in.appraise(s)
	best, _ := in.best(s)
	if best.rewritten > 0 && in.forbids(best) != "" {
		return 0
	}
	return best.gain
}

// list returns the worthwhile folds from a block on.
func (s *Scratch) list(from int) []Fold {
	s.folds = s.folds[:0]
	for i := from; i < len(s.value); i++ {
		if s.value[i] > 0 {
			s.folds = append(s.folds, Fold{i, s.saving[i], s.part[i]})
		}
	}
	return s.folds
}

// ReadsCheap is the reason of a plan that leaves history alone where a fold takes more than
// longPayback requests to pay back what it writes anew.
const (
	ReadsCheap  = "no gain: reads are too cheap for a fold of warm history"
	longPayback = 40
)

// minReturn is the minimum gain of a fold that breaks a warm cache, as a share of its cost.
const minReturn = 0.1

// maxStake bounds the cost of folds that have not paid back yet, as a share of the cost of the
// conversation so far: so much a conversation loses that ends right after a fold.
const maxStake = 0.02

// forbids says why a fold must not break a warm cache, "" if it may.
func (in *Input) forbids(d depth) string {
	// Near the context window, the client would otherwise summarize, at a higher cost.
	if in.full() {
		return ""
	}
	if in.Loop && in.Bound {
		return "thinking is bound and the run of calls is open"
	}
	if d.gain < d.rewritten*(in.Write-in.Read)*minReturn {
		return "the gain is small"
	}
	return ""
}

// affords reports whether a fold that writes so many tokens again costs little enough beside the conversation so far.
func (in *Input) affords(rewritten float64) bool {
	// Where writing costs no more than reading, the tokens after the fold cost nothing more.
	if in.full() || in.Write <= in.Read {
		return true
	}
	return in.Begun && rewritten*(in.Write-in.Read) <= in.Affordable()
}

// Affordable returns the maximum cost of further folds and restored texts: the share [maxStake] of the cost so far,
// less the present stakes. The conversation may end with this request, before they have paid back.
func (p *Past) Affordable() float64 {
	return maxStake*p.Spent - max(p.Staked, -p.Spent)
}

// nearWindow is the share of the context window from which a prompt counts as near it.
const nearWindow = 0.85

// full reports whether the prompt is so near the context window that a fold is better than the
// client's own summary of the conversation.
func (in *Input) full() bool {
	return in.Window > 0 && in.Total > nearWindow*float64(in.Window) && !(in.Loop && in.Bound)
}

// turnCost is the cost of one more response besides its prompt, in uncached input tokens: a call of
// a hundred tokens at five times the input price, and the time.
const turnCost = 1000

// needReplaced is the need of text that an edit has replaced. Only undoing the edit would quote it.
const needReplaced = 0.001

// appraise values every block and returns the number of blocks worth folding.
func (in *Input) appraise(s *Scratch) (candidates int) {
	n := len(in.Blocks)
	s.value, s.saving, s.part = zeroed(s.value, n), zeroed(s.saving, n), zeroed(s.part, n)
	for i := range in.Blocks {
		b := &in.Blocks[i]
		if b.Whole <= 0 && b.Part <= 0 {
			continue // most blocks
		}
		value := func(tokens, need float64) float64 {
			v := tokens * in.Read * in.Further
			if i >= in.Warm {
				v += tokens * (in.Write - in.Read) // never forwarded, so the fold saves the write
			}
			return v - in.Care*need*(in.Total*in.Read+tokens*in.Write+turnCost+in.Harm.of(tokens, max(in.Read, minReadPrice)))
		}
		if s.choose(i, b, value) {
			candidates++
		}
	}
	return candidates
}

// Returns reports whether a folded text should be shown again at the end of the prompt, given the
// probability of its need.
func Returns(tokens, chance, further float64, p Prices, h Harm) bool {
	// The end of the prompt is written anyway; from then on the text is read.
	return chance*(turnCost+h.of(tokens, max(p.Read, minReadPrice))) > tokens*(p.Write+p.Read*further)
}

// choose stores the value of the better fold of a block, whole or part, and reports whether it is
// positive.
func (s *Scratch) choose(i int, b *Block, value func(tokens, need float64) float64) bool {
	if b.Whole > 0 {
		if v := value(b.Whole, b.Need); v > 0 {
			s.value[i], s.saving[i] = v, b.Whole
		}
	}
	if b.Part > 0 {
		if v := value(b.Part, needReplaced); v > s.value[i] {
			s.value[i], s.saving[i], s.part[i] = v, b.Part, true
		}
	}
	return s.value[i] > 0
}

// atLeast is the factor by which a prompt must exceed the minimum cacheable prefix after a fold.
const atLeast = 1.25

// patience keeps folds apart: a fold is made once the reads of its blocks have cost this share of
// the fold's cost.
const patience = 0.3

// depth is where folds begin: the first block to fold, the tokens to write again, and the gain, 0 for no fold.
type depth struct {
	from            int
	rewritten, gain float64
}

// best finds the depth with the largest gain among those that the conversation affords, and among the unaffordable ones.
func (in *Input) best(s *Scratch) (best, unaffordable depth) {
	n := len(in.Blocks)
	s.kept = zeroed(s.kept, n+1) // tokens that stay, from a block to the end of the cached prefix
	for i := n - 1; i >= 0; i-- {
		s.kept[i] = s.kept[i+1]
		if i < in.Warm {
			s.kept[i] += in.Blocks[i].Tokens - s.saving[i]
		}
	}
	// s.again[i] is the number of tokens to write again if the fold begins at block i: all tokens
	// after the last cache entry before i. Foldable blocks before i stay unfolded.
	s.again = zeroed(s.again, n+1)
	sum, tokens, pace := 0.0, 0.0, in.pace(s)
	entry := n + 1
	for i := n - 1; i >= 0; i-- {
		if s.value[i] <= 0 {
			continue
		}
		sum += s.value[i]
		lost := 0.0
		if i < in.Warm {
			if entry > i {
				entry = in.entry(i)
				s.rewrite(in, entry, i)
			}
			lost = s.again[i] * in.Caution
		}
		tokens += s.saving[i]
		// A prompt below the minimum would not be cached any more.
		if i < in.Forwarded && in.Total-tokens < atLeast*float64(in.MinTokens) {
			continue
		}
		// Blocks that pile up at an even pace have been read tokens²/(2·pace) times. Earlier folds
		// would write the same later blocks over and over; later folds would read too much.
		g, to := sum-lost*(in.Write-in.Read), &best
		if lost > 0 && !in.affords(lost) {
			to = &unaffordable
		}
		if g > to.gain && tokens*tokens/(2*pace)*in.Read >= patience*lost*(in.Write-in.Read) {
			*to = depth{i, lost, g}
		}
	}
	return best, unaffordable
}

// rewrite computes s.again for the folds that begin between an entry and a block.
func (s *Scratch) rewrite(in *Input, entry, block int) {
	s.again[entry] = s.kept[entry]
	if before := in.Base + s.kept[0] - s.kept[entry]; before < float64(in.MinTokens) || entry == 0 && in.Lapsed {
		s.again[entry] += before // below the minimum, or expired: the part before the entry is written, too
	}
	for j := entry; j < block; j++ {
		s.again[j+1] = s.again[j] + s.saving[j]
	}
}

// pace is the average number of tokens per request that become ready to fold.
func (in *Input) pace(s *Scratch) float64 {
	// The pace is a divisor, so it must not be zero.
	sum := 1.0
	for _, tokens := range s.saving {
		sum += tokens
	}
	if in.Begun {
		sum = (sum + in.Removed) / float64(max(1, in.Requests))
	}
	return sum
}

// entry returns the end of the last cache entry before block i, in blocks.
func (in *Input) entry(i int) int {
	if in.Anywhere {
		return i
	}
	deepest := 0
	for _, end := range in.Entries {
		if end <= i {
			deepest = max(deepest, end)
		}
	}
	return deepest
}

// Harm is the price of folding a text that the agent then needs. It exceeds the price of fetching
// the text again, because an agent that does not notice the loss works worse.
type Harm struct {
	// Price is the price in tokens read from the cache. The unit makes the limit for the need the
	// same for every upstream where a fold saves reads.
	Price float64 `json:"price"`
	// Long is the length in tokens at which the price doubles, 0 for never. The stub of a long text
	// does not tell that it contains the needed part.
	Long float64 `json:"long"`
}

// of returns the price for a text of so many tokens, given the price of reading a token.
func (h *Harm) of(tokens, read float64) float64 {
	price := h.Price * read
	if h.Long > 0 {
		price *= 1 + tokens/h.Long
	}
	return price
}

// minReadPrice is the minimum price of reading used for harm. A local server reads for free, but harm
// still costs.
const minReadPrice = 0.025

// DefaultHarm was chosen by go run ./lab/price on recorded conversations. The conversations of each
// repository owner were valued by a need model fitted without them. It is the lowest tested price
// at which harm stayed within limits: one edit in a hundred in all, one in fifty for each agent,
// and one in two hundred on local servers. See docs/numbers/replay.md and docs/concepts/planner.md.
var DefaultHarm = Harm{2e6, 4000}

// idleRead is the cost of a token in the prompt for a local server at each request after its first
// reading: attention and memory.
const idleRead = 0.1

// idleHarm multiplies the price of harm at an idle fold: if the next request interrupts the fold, a
// user waits for the discarded cache. Reading while a user waits, over 284 conversations at 500
// tokens a second: -3.8 % with factor 1, -8.1 % with factor 4 (go run ./lab/price -profiles kv
// -background 500).
const idleHarm = 4

// Idle decides which blocks to fold between requests, for an upstream that reads for free but takes
// time. It returns the largest fold for which the upstream reads at most limit tokens, 0 for no
// limit. Results are the folds, their first block (the number of blocks for none), and the tokens
// to read.
func Idle(in *Input, s *Scratch, limit int) (folds []Fold, from, process int) {
	n := len(in.Blocks)
	if in.TooManyMisses {
		return nil, n, 0
	}
	s.value, s.saving, s.part = zeroed(s.value, n), zeroed(s.saving, n), zeroed(s.part, n)
	for i := range in.Blocks {
		b := &in.Blocks[i]
		s.choose(i, b, func(tokens, need float64) float64 {
			// If the agent needs the text, it fetches the text in one more turn, or works worse
			// without.
			return tokens*idleRead*in.Further - in.Care*need*(in.Total*idleRead+tokens+turnCost+
				idleHarm*in.Harm.of(tokens, idleRead))
		})
	}
	from = n
	kept := 0.0
	for i := n - 1; i >= 0; i-- {
		kept += in.Blocks[i].Tokens - s.saving[i]
		if limit > 0 && kept > float64(limit) {
			break
		}
		if s.value[i] > 0 {
			from, process = i, int(kept)
		}
	}
	return s.list(from), from, process
}
