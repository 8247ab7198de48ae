// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// minStub is a lower limit for the length of a stub.
const minStub = 80

// prune replaces tool results of the middle zone by stubs after K responses without a reference. A
// compacted result is pruned only if that saves more.
func (r *request) prune() {
	o := &r.o.Prune
	if o.Mode == stage.Off {
		return
	}
	after := *o.After
	for i := range r.Blocks {
		b := &r.Blocks[i]
		t := r.States[i].Trait
		if t == "" || r.States[i].Pinned || b.Kind != wire.KindToolResult || int(r.States[i].Unused) < after || b.Has(wire.FlagError) || !r.zones.Middle(b) || !r.may(i) {
			continue
		}
		if e := r.States[i].Edit; e != nil && e.Stage == stage.Prune || r.Size(i) < content.MinTrait || !r.pays(o.Mode, i, r.Size(i)-minStub) {
			continue
		}
		value := content.WithText(r.View, b, r.stub(i, *o.Preview))
		if saving := r.Size(i) - len(value); saving >= stage.MinGain && r.pays(o.Mode, i, saving) {
			r.set(i, stage.Prune, wire.OpReplace, value)
		}
	}
}
