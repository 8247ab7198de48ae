// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
)

// Clearing carries out context management for upstreams without it. A placeholder replaces the
// results of old calls, and the thinking of old tasks is removed.
//
// Cleared blocks stay cleared, in the same bytes, for the whole conversation. The trigger applies
// to the edited prompt, so no further block is cleared until that prompt has grown beyond the
// trigger again. Meanwhile the upstream's cache finds the whole prefix.

// clear carries out the client's orders if the upstream does not.
func (r *request) clear() {
	if r.orders.ours {
		editCleared(&r.History, &r.orders.given, newEstimator(&r.session.Calibration, r.match.Lineage).Tokens, func(i int, op wire.Op, value []byte) {
			r.set(i, stage.Clearing, op, value)
		})
		if r.rules.BindsThinking {
			r.bindThinking()
		}
	}
	if r.mode == ordered {
		r.decision = planner.Decision{Epoch: planner.NoEpoch, Reason: "the client says what is cleared", Folded: len(r.ledger.fresh)}
	}
}

// applied sums up the blocks cleared on the client's order, nil if the client expects no report.
// The session is locked.
func (r *request) applied() *wire.Cleared {
	if r.orders.given.Results == nil && r.orders.given.Thinking == 0 || r.o.Policy == Observe {
		return nil
	}
	c := sumCleared(&r.History, newEstimator(&r.session.Calibration, r.match.Lineage).Tokens)
	return &c
}

var placeholder, noInput = content.Quote(content.ClearedPlaceholder), []byte("{}")

// estimateTokens returns the estimated tokens of some bytes in a kind of block.
type estimateTokens func(k wire.Kind, bytes int) float64

// enterEdit enters an edit of a block into the ledger.
type enterEdit func(i int, op wire.Op, value []byte)

// use is a call and its result.
type use struct{ call, result int }

// editCleared clears the blocks that the orders name.
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
	unread := h.LastSaid() // the model has not read the results after it
	for _, u := range old {
		tool := ""
		if u.call >= 0 {
			tool = h.View.Text(h.Blocks[u.call].Name)
		}
		// Without its call, the tool of a result is unknown and may be an excluded one.
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
	// Clearing invalidates cached bytes, so the client can demand a minimum gain (clear_at_least).
	if gain <= 0 || gain < float64(c.AtLeast) {
		return
	}
	for _, e := range edits {
		enter(e.block, wire.OpReplace, e.value)
	}
}

// triggered reports whether the edited prompt exceeds the trigger. Only calls with an uncleared
// result count.
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

// usesOf lists the results with their calls.
func usesOf(h *content.History) (uses []use) {
	for i := range h.Blocks {
		if b := &h.Blocks[i]; b.Kind == wire.KindToolResult && !h.Removed(i) {
			uses = append(uses, use{h.Call(i), i})
		}
	}
	return uses
}

// clearThinking removes the thinking of all tasks except the last keep tasks with thinking. A task
// is a human prompt with all its calls.
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

// sumCleared sums up the cleared blocks in the form of a response's applied edits.
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
