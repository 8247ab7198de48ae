// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package optimum computes the minimum cost of conversations with hindsight.
package optimum

import (
	"bytes"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/harm"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// stubTokens is the length of a folded block's stub, in tokens.
const stubTokens = 40

// Hindsight collects the data for the optimum of a conversation.
type Hindsight struct {
	rules     pricing.Rules
	o         Options
	stretches []*stretch
}

// New returns an empty hindsight for a conversation.
func New(rules pricing.Rules, o Options) *Hindsight {
	return &Hindsight{rules: rules, o: o}
}

// stretch is a run of requests that each extend the previous one. A compaction begins a new
// stretch.
type stretch struct {
	asks  []ask
	items []item // the blocks of the last request
	turns []int  // the turn of each item
}

// ask is one request of a stretch.
type ask struct {
	cost   float64 // of the client's own bytes
	items  int     // the number of its items
	read   int     // the number of items read from the cache
	warm   float64 // the price of a cached token
	rest   float64 // the price of an uncached token
	prompt bool    // a user's prompt is the last message
	cold   bool    // no message was read from the cache, or the first request
}

// item is one block.
type item struct {
	tokens  int64
	saves   int64 // tokens removed by folding it, 0 if it must not be folded
	ripe    int   // the first request in which it may be folded, or never
	thought bool
	says    []byte
}

// never is after any request.
const never = 1 << 30

// Add adds the next request.
func (h *Hindsight) Add(r *trial.Asked) {
	if !r.Continued || len(h.stretches) == 0 {
		h.stretches = append(h.stretches, new(stretch))
	}
	s := h.stretches[len(h.stretches)-1]
	system := r.View.System
	for i := len(s.items); i < len(r.View.Blocks); i++ {
		it := h.item(r.View, &r.View.Blocks[i], len(s.asks))
		if i == r.View.Tools && h.rules.OmitsAttribution(r.View) {
			it.tokens = 0
		}
		s.add(it, turn(r.View, &r.View.Blocks[i]))
	}
	a := ask{cost: r.Cost, items: len(s.items), prompt: trial.Prompted(r.View)}
	left := r.Billed.Read
	for left > 0 && a.read < len(s.items) && s.items[a.read].tokens <= left {
		left -= s.items[a.read].tokens
		a.read++
	}
	if prompt := r.Billed.Prompt(); prompt > 0 {
		a.warm = h.rules.Cost(wire.Usage{Read: prompt}) / float64(prompt) // price tiers included
		a.rest = a.warm
		if rest := prompt - r.Billed.Read; rest > 0 {
			a.rest = (a.cost - a.warm*float64(r.Billed.Read)) / float64(rest)
		}
	}
	a.cold = len(s.asks) == 0 || a.read <= system
	s.asks = append(s.asks, a)
	s.ripen(h.o.Hot)
	for _, lines := range r.Edits {
		for _, line := range lines {
			s.need([]byte(line))
		}
	}
}

func (s *stretch) add(it item, turn int) {
	s.items, s.turns = append(s.items, it), append(s.turns, turn)
}

// item describes a block that is new in a request.
func (h *Hindsight) item(v *wire.View, b *wire.Block, born int) item {
	it := item{tokens: int64(pricing.Tokens(v, b)), ripe: never, says: harm.Texts(v.Bytes(b.Span))}
	switch {
	case b.Kind == wire.KindThinking || b.Kind == wire.KindRedactedThinking:
		it.thought = true
		if h.rules.BindsThinking { // it is lost with an edit of its context
			it.saves, it.ripe = it.tokens, born
		}
	case b.Kind == wire.KindToolResult && !b.Has(wire.FlagMedia), b.Kind == wire.KindToolUse && h.o.Inputs:
		if utf8.RuneCount(harm.Texts(v.Bytes(b.Body))) > h.o.Over {
			it.saves = max(0, it.tokens-stubTokens)
		}
	}
	return it
}

// turn returns the number of answers up to and including a block's message.
func turn(v *wire.View, b *wire.Block) int {
	n := 0
	for m := 0; m <= int(b.Message); m++ {
		if v.Messages[m].Role == wire.RoleAssistant && (m == 0 || v.Messages[m-1].Role != wire.RoleAssistant) {
			n++
		}
	}
	return n
}

// ripen marks the blocks that left the hot turns with the last request as foldable.
func (s *stretch) ripen(hot int) {
	now := len(s.asks) - 1
	end := s.turns[len(s.turns)-1]
	for i := len(s.items) - 1; i >= 0; i-- {
		it := &s.items[i]
		if it.saves == 0 || it.thought || s.turns[i] > end-hot {
			continue
		}
		if it.ripe != never {
			return // earlier items are ripe already
		}
		it.ripe = now
	}
}

// need keeps a line available that an edit in the last answer quotes: the last block with the line
// is not folded before the next request.
func (s *stretch) need(line []byte) {
	now := len(s.asks) - 1
	last := -1
	for i := len(s.items) - 1; i >= 0; i-- {
		it := &s.items[i]
		if it.thought && it.saves > 0 || !bytes.Contains(it.says, line) {
			continue
		}
		if it.saves == 0 || it.ripe > now {
			// A block that cannot be folded, or not yet, shows the line anyway.
			return
		}
		if last < 0 {
			last = i
		}
	}
	if last >= 0 {
		s.items[last].ripe = now + 1
	}
}
