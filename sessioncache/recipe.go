// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// minDescribed is the size in bytes from which a recipe, which takes time, is made for less memory of idle sessions.
const minDescribed = 1 << 8

// describeLong makes the missing recipes of edits with long values.
func describeLong(v *wire.View, states []BlockState) {
	blocks := v.MessageBlocks()
	for i := range states[:min(len(states), len(blocks))] {
		if e := states[i].Edit; e != nil && e.Recipe == nil && len(e.Value) >= minDescribed {
			e.Recipe = MakeRecipe(e.Value, v.Bytes(blocks[i].Body))
		}
	}
}

// DescribeBlocks makes the missing recipes of edits and insertions from the blocks of a request.
func DescribeBlocks(v *wire.View, states []BlockState) {
	from := RecipeFrom(v)
	for i := range states[:min(len(states), from.Len())] {
		if e := states[i].Edit; e != nil && e.Recipe == nil && len(e.Value) > 0 {
			// A value longer than its block repeats earlier blocks.
			if len(e.Value) > len(from.Body(i)) {
				e.Recipe = MakeRecipe(e.Value, from.All(i))
			} else {
				e.Recipe = MakeRecipe(e.Value, from.Body(i))
			}
		}
		if w := states[i].Inserted; w != nil {
			for j := range w.Inserts {
				if in := &w.Inserts[j]; in.Recipe == nil {
					in.Recipe = MakeRecipe(in.Value, from.All(i))
				}
			}
		}
	}
}

// ResolveEdits makes the values of restored edits and insertions from the blocks of a request.
// Values that cannot be made are dropped with their edits.
func ResolveEdits(v *wire.View, states []BlockState) {
	from := RecipeFrom(v)
	for i := range states {
		s := &states[i]
		if e := s.Edit; e != nil && e.Value == nil && e.Recipe != nil {
			s.Edit = nil
			value, ok := CookRecipe(e.Recipe, from.Body(i))
			if !ok {
				value, ok = CookRecipe(e.Recipe, from.All(i))
			}
			if ok {
				s.Edit = &Edit{Stage: e.Stage, Op: e.Op, Value: value, Recipe: e.Recipe}
			}
		}
		if w := s.Inserted; w != nil && w.Inserts[0].Value == nil {
			s.Inserted = w.resolve(from.All(i))
		}
	}
}

func (w *Inserted) resolve(body []byte) *Inserted {
	out := &Inserted{Inserts: make([]Insert, len(w.Inserts))}
	for j, in := range w.Inserts {
		value, ok := CookRecipe(in.Recipe, body)
		if !ok {
			return nil
		}
		out.Inserts[j] = Insert{Op: in.Op, Value: value, Recipe: in.Recipe}
	}
	return out
}
