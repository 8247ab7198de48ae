// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// markPart gives a part of a message a prompt_cache_breakpoint. A text becomes
// the one part that it means.
func markPart(v *wire.View, b *wire.Block, value []byte) ([]wire.Cut, error) {
	switch {
	case !b.Marker.Empty():
		return nil, fmt.Errorf("%w: a %s has a marker already", wire.ErrEdit, b.Kind)
	case !Codec{}.Markable(b):
		return nil, fmt.Errorf("%w: this %s cannot carry a marker", wire.ErrEdit, b.Kind)
	}
	if there := v.NullMember(b, "prompt_cache_breakpoint"); !there.Empty() {
		return []wire.Cut{{Start: there.Start, End: there.End, With: value}}, nil
	}
	member := make([]byte, 0, len(value)+32)
	member = append(member, `,"prompt_cache_breakpoint":`...)
	member = append(member, value...)
	if !b.Has(wire.FlagString) {
		return []wire.Cut{{Start: b.Span.End - 1, End: b.Span.End - 1, With: member}}, nil
	}
	before, after := `[{"type":"input_text","text":`, `}]`
	if b.Span == v.Messages[b.Message].Span { // the input is a text
		before, after = `[{"role":"user","content":`+before, after+`}]`
	}
	return []wire.Cut{
		{Start: b.Span.Start, End: b.Span.Start, With: []byte(before)},
		{Start: b.Span.End, End: b.Span.End, With: append(member, after...)},
	}, nil
}

// Markable allows a text, image or file in a message that is not the model's.
func (Codec) Markable(b *wire.Block) bool {
	if b.Section != wire.SectionMessages || b.Role != wire.RoleUser && b.Role != wire.RoleSystem {
		return false
	}
	switch b.Kind {
	case wire.KindText:
		return !b.Has(wire.FlagEmpty)
	case wire.KindImage, wire.KindDocument:
		return true
	}
	return false
}
