// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// stripThinking removes the thinking of all assistant messages but the last.
// What it removes is always a run from the first thinking on, never one in the
// middle, and never in an open run of tool calls where the provider wants the
// thinking of that run back (Messages API, "Preserving thinking blocks").
func (r *request) stripThinking() {
	if !r.strips() || r.zones == (content.Zones{}) {
		return
	}
	end := r.LastAnswer()
	if !r.View.Traits().ServersVary && r.run.loop {
		end = min(end, r.run.task)
	}
	for i := range r.Blocks[:end] {
		if !content.IsThinking(&r.Blocks[i]) || r.Removed(i) {
			continue
		}
		if !r.may(i) || !r.removable(i) || (r.o.StripThinking.Mode != stage.On && !r.free(i)) {
			return
		}
		r.set(i, stage.Thinking, wire.OpRemove, nil)
	}
}

// strips reports whether thinking may be removed at all.
func (r *request) strips() bool {
	return r.o.StripThinking.Mode == stage.On || r.o.StripThinking.Mode != stage.Off && !r.thoughts.sealed
}

// removable reports whether a block can go without leaving an empty message.
func (r *request) removable(i int) bool {
	b := &r.Blocks[i]
	return b.Marker.Empty() && !b.Has(wire.FlagSigned) && !r.Alone(i)
}

// bindThinking keeps the promise that models which check it make of thinking:
// nothing in front of a thinking block has changed since the model wrote it.
// Every fresh edit in front of thinking that stays either takes all thinking
// behind it along, which providers allow between two tasks, or is taken back.
func (r *request) bindThinking() {
	r.bindReasoning()
	if !r.rules.BindsThinking || len(r.ledger.fresh) == 0 {
		return
	}
	for {
		first, last := r.firstFresh(), r.lastKept()
		if first > last {
			return
		}
		if !r.run.loop && r.stripBehind(first) {
			return
		}
		// The edits before the last thinking that has to stay cannot be made.
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

// bindReasoning keeps edits from what the model has reasoned in the running task.
// OpenAI's newer models leave reasoning items out, without a word, when what
// stood before them has changed (guide "Keep the prefix unchanged", autumn
// 2026). Between two tasks that is what other providers' clients do themselves;
// in a run of tool calls the edits are taken back.
func (r *request) bindReasoning() {
	if !r.rules.BindsReasoning || !r.run.loop || len(r.ledger.fresh) == 0 {
		return
	}
	last := r.lastReasoning()
	for i := range r.ledger.fresh {
		if i < last {
			r.undo(i)
		}
	}
}

// lastReasoning returns the last reasoning item, -1 if there is none. Thinking that
// becomes one is one.
func (r *request) lastReasoning() int {
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if r.Blocks[i].Kind == wire.KindReasoning || r.thoughts.sealed && content.IsThinking(&r.Blocks[i]) {
			return i
		}
	}
	return -1
}

// firstFresh returns the first block with a fresh edit. Removed thinking does
// not count: it is not part of what later thinking is bound to.
func (r *request) firstFresh() int {
	first := len(r.Blocks)
	for i := range r.ledger.fresh {
		if i < first && !content.IsThinking(&r.Blocks[i]) {
			first = i
		}
	}
	return first
}

// lastKept returns the last thinking block that would go out, -1 if none.
func (r *request) lastKept() int {
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if content.IsThinking(&r.Blocks[i]) && !r.Removed(i) {
			return i
		}
	}
	return -1
}

// stripBehind removes all thinking behind a block, or nothing if some of it
// has to stay.
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
