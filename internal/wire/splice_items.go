// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// Removable reports whether a block may be taken out of its message, as far as
// the format goes: it is not one of a pair, nor signed, nor a part of an item that
// would be left empty, nor reasoning or what follows it, which the Responses API wants
// to find behind it.
func (v *View) Removable(block int) bool {
	switch b := &v.Blocks[block]; {
	case b.Message < 0 || b.Has(FlagPart) || b.Has(FlagSigned):
		return false
	case b.Kind.isPaired() || b.Kind == KindReasoning:
		return false
	default:
		return block == 0 || v.Blocks[block-1].Kind != KindReasoning || v.Blocks[block-1].Message != b.Message
	}
}

// adjoin reports whether two items stand side by side.
func (v *View) adjoin(a, b int) bool {
	i := rawjson.SkipSpace(v.Raw, int(v.Blocks[a].Span.End))
	return v.Raw[i] == ',' && rawjson.SkipSpace(v.Raw, i+1) == int(v.Blocks[b].Span.Start)
}

// items cuts whole items of an input out, with the comma behind or, at the end,
// before them. Another item is left in their message, so that there is one.
func (v *View) items(start, end int32) Cut {
	if i := rawjson.SkipSpace(v.Raw, int(end)); v.Raw[i] == ',' {
		return Cut{start, int32(rawjson.SkipSpace(v.Raw, i+1)), nil}
	}
	for v.Raw[start] != ',' {
		start--
	}
	return Cut{start, end, nil}
}
