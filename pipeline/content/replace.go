// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package content

import (
	"cmp"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// WithText returns a tool result's new content: the text, followed by the non-text parts in the
// client's own bytes.
func WithText(v *wire.View, b *wire.Block, text string) []byte {
	if !b.Has(wire.FlagMedia) || v.Traits().MediaBesideResult {
		// In some formats, the other parts are not in the result but beside it.
		return Quote(text)
	}
	out := append([]byte(`[{"type":"`), cmp.Or(v.Traits().TextType, "text")...)
	out = append(append(append(out, `","text":`...), Quote(text)...), '}')
	gjson.ParseBytes(v.Bytes(b.Body)).ForEach(func(_, part gjson.Result) bool {
		if !IsText(part) {
			out = append(append(out, ','), part.Raw...)
		}
		return true
	})
	return append(out, ']')
}
