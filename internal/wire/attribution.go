// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "bytes"

// AttributionLine begins the text in which Claude Code tells its version, which
// request went before this one, and a sum over this one. Anthropic's API takes that
// text out of the prompt, where it is the first entry of the system prompt and all
// that is in it.
const AttributionLine = "x-anthropic-billing-header:"

// Attributed reports whether the system prompt begins with an [AttributionLine] in an
// entry of its own. That entry is no part of the prompt at Anthropic.
// What stands in it may be another in each request: it has the same hash nevertheless.
func (v *View) Attributed() bool {
	return v.Traits().Attribution && v.System > v.Tools && attributes(v.Raw, &v.Blocks[v.Tools])
}

func attributes(raw []byte, b *Block) bool {
	text := b.Body.Of(raw)
	return b.Kind == KindText && !b.Has(FlagString) && len(text) > 0 && bytes.HasPrefix(text[1:], []byte(AttributionLine)) &&
		!bytes.Contains(text, []byte(`\n`))
}

// attribute gives the block its hash if it is an attribution.
func (p *Parser) attribute(b *Block) {
	if !p.traits.Attribution || !attributes(p.Body, b) {
		return
	}
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.Hasher.Member(keyText, []byte(AttributionLine))
	b.Hash = p.Hasher.Sum()
}
