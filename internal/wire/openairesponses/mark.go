// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// markPart adds a prompt_cache_breakpoint to a part of a message.
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
	// A plain string has no place for a member, so it becomes a list with one part.
	before, after := `[{"type":"input_text","text":`, `}]`
	if b.Span == v.Messages[b.Message].Span { // the whole input is a string
		before, after = `[{"role":"user","content":`+before, after+`}]`
	}
	return []wire.Cut{
		{Start: b.Span.Start, End: b.Span.Start, With: []byte(before)},
		{Start: b.Span.End, End: b.Span.End, With: append(member, after...)},
	}, nil
}

// Markable implements [wire.Marker]. It allows a text, image or file in a user or system message.
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
