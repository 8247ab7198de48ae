// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// Removable reports whether the format allows removing a block from its message.
func (v *View) Removable(block int) bool {
	switch b := &v.Blocks[block]; {
	case b.Message < 0 || b.Has(FlagPart) || b.Has(FlagSigned):
		// Signed blocks must come back unchanged, and an item must not lose a part.
		return false
	case b.Kind.isPaired() || b.Kind == KindReasoning:
		return false
	default:
		// The Responses API requires the item after a reasoning item.
		return block == 0 || v.Blocks[block-1].Kind != KindReasoning || v.Blocks[block-1].Message != b.Message
	}
}

// adjoin reports whether two items are separated by a comma only.
func (v *View) adjoin(a, b int) bool {
	i := rawjson.SkipSpace(v.Raw, int(v.Blocks[a].Span.End))
	return v.Raw[i] == ',' && rawjson.SkipSpace(v.Raw, i+1) == int(v.Blocks[b].Span.Start)
}

// items returns the cut that removes whole items of an input, with the comma after them or, at the
// end, before them.
func (v *View) items(start, end int32) Cut {
	if i := rawjson.SkipSpace(v.Raw, int(end)); v.Raw[i] == ',' {
		return Cut{start, int32(rawjson.SkipSpace(v.Raw, i+1)), nil}
	}
	// There is a comma before: another item of the message always stays.
	for v.Raw[start] != ',' {
		start--
	}
	return Cut{start, end, nil}
}
