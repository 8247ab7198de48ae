// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package wire

// The names of the members by which a text and a result are hashed, whatever they are
// called in a format.
var (
	keyText    = []byte("text")
	keyID      = []byte("id")
	keyContent = []byte("content")
)

// hashResult adds the result of a call to the hash that has begun: a lone text counts
// the same in either form.
func (p *parser) hashResult(b *Block, content Span) {
	p.hasher.member(keyID, b.ID.Of(p.b))
	p.hasher.member(keyContent, p.lone(content).Of(p.b))
}

// plain is the text block that a string content means.
func (p *parser) plain(span Span, section Section, role Role, message int32) Block {
	b := Block{Kind: KindText, Section: section, Role: role, Message: message, Span: span, Body: span, Flags: FlagString}
	if span.Len() == 2 {
		b.Flags |= FlagEmpty
	}
	p.hasher.begin(section, role, KindText)
	p.hasher.member(keyText, span.Of(p.b))
	b.Hash = p.hasher.end()
	return b
}

// lone returns the text of a content that is an array of one plain text block,
// and any other content as it is.
func (p *parser) lone(content Span) Span {
	if content.Empty() || p.b[content.Start] != '[' {
		return content
	}
	e := p.elements(int(content.Start))
	var text Span
	for n := 0; e.next(); n++ {
		if n > 0 {
			return content
		}
		m := walk(p.b, e.at)
		for m.next() {
			key := string(m.key)
			value := m.skip()
			switch {
			case key == "text":
				text = value
			case key == "type" && isTextType(value.Of(p.b)), key == "cache_control", key == "prompt_cache_breakpoint":
			default:
				return content
			}
		}
		e.at = m.end
	}
	if text.Empty() {
		return content
	}
	return text
}

// isTextType tells whether the type of a part is that of a text: the Responses
// API has a name of its own for it.
func isTextType(kind []byte) bool { return string(kind) == `"text"` || string(kind) == `"input_text"` }

// allText tells whether a content is a string, or an array of text blocks only. It
// goes to the end of the array in any case, so that all its parts are counted.
func (p *parser) allText(content Span) bool {
	if p.b[content.Start] != '[' {
		return true
	}
	e := p.elements(int(content.Start))
	all := true
	for e.next() {
		text, start := false, e.at
		m := walk(p.b, e.at)
		for m.next() {
			key := string(m.key)
			value := m.skip()
			if key == "type" {
				text = isTextType(value.Of(p.b))
			}
		}
		all = all && text && !m.bad
		if e.at = m.end; m.bad {
			e.at = skipValue(p.b, start)
		}
	}
	return all
}
