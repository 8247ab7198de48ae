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

// itemReader reads one item of a flat list, which begins a message or belongs to the
// one before it, see [parser.enter].
type itemReader interface {
	item(at int) int
}

// items reads the value of an input: a text, which is one message of the
// user, or items. Items of the model in a row make one message, as do the
// outputs of tools; every other item is a message of its own.
func (p *parser) items(at int, by itemReader) int {
	if p.b[at] == '"' {
		end := skipString(p.b, at)
		if end < 0 {
			return p.fail(ErrSyntax)
		}
		span := Span{int32(at), int32(end)}
		p.blocks = append(p.blocks, p.plain(span, SectionMessages, RoleUser, 0))
		p.v.Messages = append(p.v.Messages, Message{Span: span, Content: span, Role: RoleUser, End: 1})
		p.raw = append(p.raw, rawHash(span.Of(p.b)))
		p.opening = 1
		return end
	}
	e := p.elements(at)
	for e.next() {
		if end := p.recallItems(e.at); end > 0 {
			e.at = end
			continue
		}
		if e.at = by.item(e.at); e.at < 0 {
			return -1
		}
	}
	if e.bad {
		return p.fail(ErrSyntax)
	}
	p.seal()
	if p.opening == 0 {
		p.opening = len(p.v.Messages)
	}
	return e.end
}

// answered is told of an item at b[at] that is the model's, or answers it. At the first
// of them what is known of the conversation is asked for; it returns the index behind
// what of it is recognised, or 0.
func (p *parser) answered(at int) int {
	if p.opening > 0 {
		return 0
	}
	if p.opening = len(p.v.Messages); p.opening == 0 {
		return 0
	}
	p.remember()
	return p.recallItems(at)
}

// joins tells whether an item of a role belongs to the message before it.
func (p *parser) joins(r Role) bool {
	n := len(p.v.Messages)
	return n > 0 && (r == RoleAssistant || r == RoleTool) && p.v.Messages[n-1].Role == r
}

// recallItems recognises the items of the next message at b[at] and returns the
// index behind them, or 0.
func (p *parser) recallItems(at int) int {
	i := len(p.v.Messages)
	if p.known == nil || i >= len(p.known.messages) || p.joins(p.known.messages[i].Role) {
		return 0
	}
	p.seal()
	return p.recallMessage(i, at)
}

// seal hashes the bytes of the last message, if items have joined it.
func (p *parser) seal() {
	if !p.grown {
		return
	}
	n := len(p.v.Messages) - 1
	p.raw[n], p.grown = rawHash(p.v.Messages[n].Span.Of(p.b)), false
}

// enter begins a message with an item, or adds the item to the last one.
func (p *parser) enter(role Role, span Span) {
	if p.joins(role) {
		m := &p.v.Messages[len(p.v.Messages)-1]
		m.Span.End, m.Content.End, p.grown = span.End, span.End, true
		return
	}
	p.seal()
	p.v.Messages = append(p.v.Messages, Message{Span: span, Content: span, First: int32(len(p.blocks)), Role: role})
	p.raw = append(p.raw, rawHash(span.Of(p.b)))
}
