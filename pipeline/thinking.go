// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// stripThinking removes the thinking of all assistant messages except the last.
func (r *request) stripThinking() {
	if !r.strips() || r.zones == (content.Zones{}) {
		return
	}
	end := r.LastAnswer()
	// Some providers want the thinking of an open run of tool calls back (Messages API, "Preserving
	// thinking blocks").
	if !r.View.Traits().ServersVary && r.run.loop {
		end = min(end, r.run.task)
	}
	for i := range r.Blocks[:end] {
		if !content.IsThinking(&r.Blocks[i]) || r.Removed(i) {
			continue
		}
		// Removed thinking is always a run from the first thinking on, never one in the middle.
		if !r.may(i) || !r.removable(i) || (r.o.StripThinking.Mode != stage.On && !r.free(i)) {
			return
		}
		r.set(i, stage.Thinking, wire.OpRemove, nil)
	}
}

// strips reports whether thinking may be removed at all.
func (r *request) strips() bool {
	return r.o.StripThinking.Mode == stage.On || r.o.StripThinking.Mode != stage.Off && !r.sealed
}

// removable reports whether a block can be removed without leaving an empty message.
func (r *request) removable(i int) bool {
	b := &r.Blocks[i]
	return b.Marker.Empty() && !b.Has(wire.FlagSigned) && !r.Alone(i)
}

// bindThinking upholds the guarantee of models with checked thinking: no block before a thinking
// block has changed since the model wrote it.
func (r *request) bindThinking() {
	if len(r.ledger.fresh) == 0 {
		return
	}
	r.bindReasoning()
	if !r.rules.BindsThinking || len(r.ledger.fresh) == 0 {
		return
	}
	for {
		// For each fresh edit before remaining thinking, either all later thinking is removed or
		// the edit is undone.
		first, last := r.firstFresh(), r.lastKept()
		if first > last {
			return
		}
		// Providers allow the removal of thinking between two tasks.
		if !r.run.loop && r.stripBehind(first) {
			return
		}
		// Edits before thinking that must stay are not possible.
		for i := range r.ledger.fresh {
			if i <= last && !content.IsThinking(&r.Blocks[i]) {
				r.undo(i)
			}
		}
		if r.run.loop {
			return
		}
	}
}

// bindReasoning reverts edits before the model's reasoning in the running task.
func (r *request) bindReasoning() {
	if !r.rules.BindsReasoning || !r.run.loop {
		return
	}
	// OpenAI's newer models silently drop reasoning items after a change of earlier blocks (guide
	// "Keep the prefix unchanged", autumn 2026). Between two tasks, this is no loss: clients of
	// other providers drop reasoning there, too.
	last := r.lastReasoning()
	for i := range r.ledger.fresh {
		if i < last {
			r.undo(i)
		}
	}
}

// lastReasoning returns the last reasoning item, -1 if there is none. Thinking that is sent as a
// reasoning item counts.
func (r *request) lastReasoning() int {
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if r.Blocks[i].Kind == wire.KindReasoning || r.sealed && content.IsThinking(&r.Blocks[i]) {
			return i
		}
	}
	return -1
}

// firstFresh returns the first block with a fresh edit.
func (r *request) firstFresh() int {
	first := len(r.Blocks)
	for i := range r.ledger.fresh {
		// Later thinking is not bound to earlier thinking, so a removal of thinking does not count.
		if i < first && !content.IsThinking(&r.Blocks[i]) {
			first = i
		}
	}
	return first
}

// lastKept returns the last thinking block that is sent, -1 if none.
func (r *request) lastKept() int {
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if content.IsThinking(&r.Blocks[i]) && !r.Removed(i) {
			return i
		}
	}
	return -1
}

// stripBehind removes all thinking after a block, or none if some of it must stay.
func (r *request) stripBehind(first int) bool {
	var done []int
	for i := first; i < len(r.Blocks); i++ {
		if !content.IsThinking(&r.Blocks[i]) || r.Removed(i) {
			continue
		}
		if !r.removable(i) {
			for _, j := range done {
				r.undo(j)
			}
			return false
		}
		r.set(i, stage.Thinking, wire.OpRemove, nil)
		done = append(done, i)
	}
	return true
}
