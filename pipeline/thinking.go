// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package pipeline

import "github.com/caddy-llm-cache/caddy-llm-cache/wire"

const stageThinking = "strip_thinking"

func isThinking(b *wire.Block) bool {
	return b.Kind == wire.KindThinking || b.Kind == wire.KindRedactedThinking
}

// stripThinking removes the thinking of all assistant messages but the last.
// What it removes is always a run from the first thinking on, never one in the
// middle, and never in an open run of tool calls where the provider wants the
// thinking of that run back (Messages API, "Preserving thinking blocks").
func (f *frame) stripThinking() {
	if !f.strips() || f.zones == (zones{}) {
		return
	}
	end := f.lastAnswer()
	if f.view.Format != wire.OpenAIChat && f.loop {
		end = min(end, f.task)
	}
	for i := range f.blocks[:end] {
		if !isThinking(&f.blocks[i]) || f.removed(i) {
			continue
		}
		if !f.may(i) || !f.removable(i) || (f.o.StripThinking.Mode != On && !f.free(i)) {
			return
		}
		f.set(i, stageThinking, wire.OpRemove, nil)
	}
}

// strips tells whether thinking may be removed at all.
func (f *frame) strips() bool {
	return f.o.StripThinking.Mode == On || f.o.StripThinking.Mode != Disabled && !f.sealed
}

// lastAnswer returns the first block of the last assistant message.
func (f *frame) lastAnswer() int {
	for i := len(f.view.Messages) - 1; i >= 0; i-- {
		if m := &f.view.Messages[i]; m.Role == wire.RoleAssistant {
			return int(m.First) - f.view.System
		}
	}
	return 0
}

// removable tells whether a block can go without leaving an empty message.
func (f *frame) removable(i int) bool {
	b := &f.blocks[i]
	return b.Marker.Empty() && !b.Has(wire.FlagSigned) && !f.alone(i)
}

// bindThinking keeps the promise that models which check it make of thinking:
// nothing in front of a thinking block has changed since the model wrote it.
// Every fresh edit in front of thinking that stays either takes all thinking
// behind it along, which providers allow between two tasks, or is taken back.
func (f *frame) bindThinking() {
	f.bindReasoning()
	if !f.rules.BindsThinking || len(f.fresh) == 0 {
		return
	}
	for {
		first, last := f.firstFresh(), f.lastKept()
		if first > last {
			return
		}
		if !f.loop && f.stripBehind(first) {
			return
		}
		// The edits before the last thinking that has to stay cannot be made.
		for i := range f.fresh {
			if i <= last && !isThinking(&f.blocks[i]) {
				f.undo(i)
			}
		}
		if f.loop {
			return
		}
	}
}

// bindReasoning keeps edits from what the model has reasoned in the running task.
// OpenAI's newer models leave reasoning items out, without a word, when what
// stood before them has changed (guide "Keep the prefix unchanged", autumn
// 2026). Between two tasks that is what other providers' clients do themselves;
// in a run of tool calls the edits are taken back.
func (f *frame) bindReasoning() {
	if !f.rules.BindsReasoning || !f.loop || len(f.fresh) == 0 {
		return
	}
	last := f.lastReasoning()
	for i := range f.fresh {
		if i < last {
			f.undo(i)
		}
	}
}

// lastReasoning returns the last reasoning item, -1 if there is none.
func (f *frame) lastReasoning() int {
	for i := len(f.blocks) - 1; i >= 0; i-- {
		if b := &f.blocks[i]; b.Kind == wire.KindReasoning || f.sealed && isThinking(b) {
			return i
		}
	}
	return -1
}

// firstFresh returns the first block with a fresh edit. Removed thinking does
// not count: it is not part of what later thinking is bound to.
func (f *frame) firstFresh() int {
	first := len(f.blocks)
	for i := range f.fresh {
		if i < first && !isThinking(&f.blocks[i]) {
			first = i
		}
	}
	return first
}

// lastKept returns the last thinking block that would go out, -1 if none.
func (f *frame) lastKept() int {
	for i := len(f.blocks) - 1; i >= 0; i-- {
		if isThinking(&f.blocks[i]) && !f.removed(i) {
			return i
		}
	}
	return -1
}

// stripBehind removes all thinking behind a block, or nothing if some of it
// has to stay.
func (f *frame) stripBehind(first int) bool {
	var done []int
	for i := first; i < len(f.blocks); i++ {
		if !isThinking(&f.blocks[i]) || f.removed(i) {
			continue
		}
		if !f.removable(i) {
			for _, j := range done {
				f.undo(j)
			}
			return false
		}
		f.set(i, stageThinking, wire.OpRemove, nil)
		done = append(done, i)
	}
	return true
}
