// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// admit runs admission over the new blocks.
func (r *request) admit() {
	short := beyondMinimum(r.View, r.rules.MinTokens)
	r.o.Admission.Edit(&r.History, max(r.Known, r.cached.held), short, r.rules.Regime == pricing.KV, r.admitted)
}

// admitted enters the shortened value of a block into the ledger.
func (r *request) admitted(i int, value []byte) {
	if r.presumed(i) {
		r.States[i].Edit = &sessioncache.Edit{Stage: stage.Admission, Op: wire.OpReplace, Value: value}
		return
	}
	r.set(i, stage.Admission, wire.OpReplace, value)
}

// presumed reports whether a block was probably forwarded before, with the same edit, by another
// process. In a run of tool calls, the thinking may be bound to that edit.
func (r *request) presumed(i int) bool { return r.Known == 0 && i < r.cached.forwarded && r.run.loop }

// beyondMinimum returns the first message block that has at least the minimum cacheable prefix
// before it, by a low estimate.
func beyondMinimum(v *wire.View, minTokens int) int {
	const bytesPerToken = 4
	left := bytesPerToken * minTokens
	for i := range v.Blocks {
		if left <= 0 {
			// Blocks before it are not shortened: a prompt below the minimum would not be cached,
			// and cost more than before.
			return max(0, i-v.System)
		}
		if v.Blocks[i].Kind != wire.KindProgram { // not part of the prompt
			left -= v.Blocks[i].Span.Len()
		}
	}
	return len(v.MessageBlocks())
}
