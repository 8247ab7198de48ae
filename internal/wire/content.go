// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// The member names in the hashes of texts and results, the same for all formats.
var (
	keyText    = []byte("text")
	keyID      = []byte("id")
	keyContent = []byte("content")
)

// HashResult adds a tool result to the current hash. A lone text hashes the same as a string and as
// an array.
func (p *Parser) HashResult(b *Block, content rawjson.Span) {
	p.Hasher.Member(keyID, b.ID.Of(p.Body))
	p.Hasher.Member(keyContent, p.Lone(content).Of(p.Body))
}

// Plain returns the text block for a string content.
func (p *Parser) Plain(span rawjson.Span, section Section, role Role, message int32) Block {
	b := Block{Kind: KindText, Section: section, Role: role, Message: message, Span: span, Body: span, Flags: FlagString}
	if span.Len() == 2 {
		b.Flags |= FlagEmpty
	}
	p.Hasher.Begin(section, role, KindText)
	p.Hasher.Member(keyText, span.Of(p.Body))
	b.Hash = p.Hasher.Sum()
	return b
}

// Lone returns the text of a content that is an array of one plain text block, and any other
// content unchanged.
func (p *Parser) Lone(content rawjson.Span) rawjson.Span {
	if content.Empty() || p.Body[content.Start] != '[' {
		return content
	}
	e := p.Elements(int(content.Start))
	var text rawjson.Span
	for n := 0; e.Next(); n++ {
		if n > 0 {
			return content
		}
		m := rawjson.Walk(p.Body, e.At)
		for m.Next() {
			key := string(m.Key)
			value := m.Skip()
			switch {
			case key == "text":
				text = value
			case key == "type" && isTextType(value.Of(p.Body)), key == "cache_control", key == "prompt_cache_breakpoint":
				// Cache markers do not count.
			default:
				return content
			}
		}
		e.At = m.End
	}
	if text.Empty() {
		return content
	}
	return text
}

// isTextType reports whether a part's type is a text. The Responses API calls it input_text.
func isTextType(kind []byte) bool { return string(kind) == `"text"` || string(kind) == `"input_text"` }

// AllText reports whether a content is a string or an array of text blocks.
func (p *Parser) AllText(content rawjson.Span) bool {
	if p.Body[content.Start] != '[' {
		return true
	}
	e := p.Elements(int(content.Start))
	all := true
	// The loop never breaks early: every part counts against the limit of [MaxElements].
	for e.Next() {
		text, start := false, e.At
		m := rawjson.Walk(p.Body, e.At)
		for m.Next() {
			key := string(m.Key)
			value := m.Skip()
			if key == "type" {
				text = isTextType(value.Of(p.Body))
			}
		}
		all = all && text && !m.Bad
		if e.At = m.End; m.Bad {
			e.At = rawjson.SkipValue(p.Body, start)
		}
	}
	return all
}
