// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

// Clearing does to a history what its client has asked the provider to do, where
// the upstream is another one: the results of old calls give way to a placeholder, and the
// thinking of old tasks goes.
//
// What is cleared stays cleared, in the same bytes, for as long as the conversation lasts:
// a request is looked at as it would go out, with all that was cleared before. So nothing
// is cleared anew until the prompt has grown beyond the trigger again, and in between all
// of it is found in the upstream's cache.

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

var placeholder, noInput = content.Quote(content.ClearedPlaceholder), []byte("{}")

// estimateTokens says how many tokens some bytes of a kind of block take.
type estimateTokens func(k wire.Kind, bytes int) float64

// enterEdit puts an edit of a block into the ledger.
type enterEdit func(i int, op wire.Op, value []byte)

// use is a call and its result.
type use struct{ call, result int }

// editCleared clears what is to be cleared in a request.
func editCleared(h *content.History, m *wire.Management, tokens estimateTokens, enter enterEdit) {
	if m.Thinking > 0 {
		clearThinking(h, m.Thinking, enter)
	}
	if m.Results != nil {
		clearResults(h, m.Results, tokens, enter)
	}
}

func clearResults(h *content.History, c *wire.Clearing, tokens estimateTokens, enter enterEdit) {
	uses := usesOf(h)
	if !triggered(h, c, uses, tokens) {
		return
	}
	old := uses[:max(len(uses)-c.Keep, 0)]
	type edit struct {
		block int
		value []byte
	}
	var edits []edit
	gain := 0.0
	propose := func(i int, value []byte) {
		if less := h.Size(i) - len(value); less > 0 {
			edits = append(edits, edit{i, value})
			gain += tokens(h.Blocks[i].Kind, less)
		}
	}
	unread := h.LastSaid() // what stands behind, the model has not read
	for _, u := range old {
		tool := ""
		if u.call >= 0 {
			tool = h.View.Text(h.Blocks[u.call].Name)
		}
		if u.result > unread || c.Excludes(tool) || u.call < 0 && len(c.Exclude) > 0 {
			continue
		}
		if !isCleared(h, u.result) {
			propose(u.result, placeholder)
		}
		if u.call >= 0 && c.ClearsInput(tool) && !h.Blocks[u.call].Has(wire.FlagSigned) && !isCleared(h, u.call) {
			propose(u.call, noInput)
		}
	}
	if gain <= 0 || gain < float64(c.AtLeast) {
		return
	}
	for _, e := range edits {
		enter(e.block, wire.OpReplace, e.value)
	}
}

// triggered reports whether the prompt, as it would go out, is so long that results are
// to be cleared. Calls count whose results are still there.
func triggered(h *content.History, c *wire.Clearing, uses []use, tokens estimateTokens) bool {
	if c.Calls > 0 {
		n := int64(0)
		for _, u := range uses {
			if !isCleared(h, u.result) {
				n++
			}
		}
		return n > c.Calls
	}
	sum := 0.0
	for i := range h.View.Blocks[:h.View.System] {
		b := &h.View.Blocks[i]
		sum += tokens(b.Kind, b.Span.Len())
	}
	for i := range h.Blocks {
		sum += tokens(h.Blocks[i].Kind, h.Sent(i))
	}
	return sum > float64(c.Tokens)
}

// usesOf lists the results and the calls that they answer.
func usesOf(h *content.History) (uses []use) {
	for i := range h.Blocks {
		if b := &h.Blocks[i]; b.Kind == wire.KindToolResult && !h.Removed(i) {
			uses = append(uses, use{h.Call(i), i})
		}
	}
	return uses
}

// clearThinking removes the thinking of all tasks but the last that have any. A task is
// what a person asks for, with all calls that it takes.
func clearThinking(h *content.History, keep int, enter enterEdit) {
	task, tasks := uint16(0), 0
	for i := len(h.Blocks) - 1; i >= 0; i-- {
		if !content.IsThinking(&h.Blocks[i]) {
			continue
		}
		if t := h.States[i].Task; tasks == 0 || t != task {
			task, tasks = t, tasks+1
		}
		if b := &h.Blocks[i]; tasks > keep && !h.Removed(i) && b.Marker.Empty() && !b.Has(wire.FlagSigned) && !h.Alone(i) {
			enter(i, wire.OpRemove, nil)
		}
	}
}

// isCleared reports whether a block was cleared before.
func isCleared(h *content.History, i int) bool {
	e := h.States[i].Edit
	return e != nil && e.Stage == stage.Clearing
}

// sumCleared says what is cleared in a request, in the words of an answer's applied edits.
func sumCleared(h *content.History, tokens estimateTokens) (c wire.Cleared) {
	task, some := uint16(0), false
	for i := range h.Blocks {
		if !isCleared(h, i) {
			continue
		}
		b := &h.Blocks[i]
		n := int64(tokens(b.Kind, b.Span.Len()-h.Sent(i)))
		c.Tokens += n
		switch {
		case b.Kind == wire.KindToolResult:
			c.ToolUses++
		case content.IsThinking(b):
			c.ThinkingTokens += n
			if t := h.States[i].Task; !some || t != task {
				task, some = t, true
				c.Thinking++
			}
		}
	}
	return c
}
