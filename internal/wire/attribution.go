// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "bytes"

// AttributionLine is the prefix of Claude Code's attribution text: the client's version, the
// previous request and a checksum of this one. The text is the first entry of the system prompt.
// Anthropic's API removes the entry from the prompt.
const AttributionLine = "x-anthropic-billing-header:"

// Attributed reports whether the first entry of the system prompt is an [AttributionLine]. The
// entry's text changes with each request; its hash does not.
func (v *View) Attributed() bool {
	return v.Traits().Attribution && v.System > v.Tools && attributes(v.Raw, &v.Blocks[v.Tools])
}

func attributes(raw []byte, b *Block) bool {
	text := b.Body.Of(raw)
	// An entry of several lines has other content, too.
	return b.Kind == KindText && !b.Has(FlagString) && len(text) > 0 &&
		bytes.HasPrefix(text[1:], []byte(AttributionLine)) &&
		!bytes.Contains(text, []byte(`\n`))
}

// attribute sets the hash of an attribution block.
func (p *Parser) attribute(b *Block) {
	if !p.traits.Attribution || !attributes(p.Body, b) {
		return
	}
	// The text changes with each request, so only its prefix is hashed.
	p.Hasher.Begin(b.Section, b.Role, b.Kind)
	p.Hasher.Member(keyText, []byte(AttributionLine))
	b.Hash = p.Hasher.Sum()
}
