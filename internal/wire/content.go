// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"

// The names of the members by which a text and a result are hashed, whatever they are
// called in a format.
var (
	keyText    = []byte("text")
	keyID      = []byte("id")
	keyContent = []byte("content")
)

// HashResult adds the result of a call to the hash that has begun: a lone text counts
// the same in either form.
func (p *Parser) HashResult(b *Block, content rawjson.Span) {
	p.Hasher.Member(keyID, b.ID.Of(p.Body))
	p.Hasher.Member(keyContent, p.Lone(content).Of(p.Body))
}

// Plain is the text block that a string content means.
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

// Lone returns the text of a content that is an array of one plain text block,
// and any other content as it is.
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

// isTextType reports whether the type of a part is that of a text: the Responses
// API has a name of its own for it.
func isTextType(kind []byte) bool { return string(kind) == `"text"` || string(kind) == `"input_text"` }

// AllText reports whether a content is a string, or an array of text blocks only. It
// goes to the end of the array in any case, so that all its parts are counted.
func (p *Parser) AllText(content rawjson.Span) bool {
	if p.Body[content.Start] != '[' {
		return true
	}
	e := p.Elements(int(content.Start))
	all := true
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
