// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// ItemReader reads one item of a flat list. The item begins a message or joins the previous one,
// see [Parser.Enter].
type ItemReader interface {
	Item(at int) int
}

// Items reads the value of an input: a text, as one message of the user, or a list of items.
// Consecutive items of the model form one message, as do consecutive tool outputs. Every other item
// is a message.
func (p *Parser) Items(at int, by ItemReader) int {
	if !p.weigh() {
		return -1
	}
	if p.Body[at] == '"' {
		end := rawjson.SkipString(p.Body, at)
		if end < 0 {
			return p.Fail(ErrSyntax)
		}
		span := rawjson.Span{Start: int32(at), End: int32(end)}
		p.Add(p.Plain(span, SectionMessages, RoleUser, 0))
		p.View.Messages = reuse.Append(p.View.Messages, Message{Span: span, Content: span, Role: RoleUser, End: 1})
		p.recognition.raw = append(p.recognition.raw, rawHash(span.Of(p.Body)))
		p.recognition.firstTurn = 1
		return end
	}
	e := p.Elements(at)
	for e.Next() {
		if end := p.recallItems(e.At); end > 0 {
			e.At = end
			continue
		}
		if e.At = by.Item(e.At); e.At < 0 {
			return -1
		}
	}
	if e.Bad {
		return p.Fail(ErrSyntax)
	}
	// The last message may have grown.
	p.seal()
	if p.recognition.firstTurn == 0 {
		p.recognition.firstTurn = len(p.View.Messages)
	}
	return e.End
}

// Answered handles the first item of the model, or the first item after its answer, at b[at]. It
// looks up the conversation and returns the index after the recognised items, or 0.
func (p *Parser) Answered(at int) int {
	if p.recognition.firstTurn > 0 {
		return 0
	}
	if p.recognition.firstTurn = len(p.View.Messages); p.recognition.firstTurn == 0 {
		return 0
	}
	p.remember()
	return p.recallItems(at)
}

// joins reports whether an item of the role belongs to the previous message.
func (p *Parser) joins(r Role) bool {
	n := len(p.View.Messages)
	return n > 0 && (r == RoleAssistant || r == RoleTool) && p.View.Messages[n-1].Role == r
}

// recallItems recognises the items of the next message at b[at]. It returns the index after them,
// or 0.
func (p *Parser) recallItems(at int) int {
	i := len(p.View.Messages)
	if p.recognition.known == nil || i >= len(p.recognition.known.messages) || p.joins(p.recognition.known.messages[i].Role) {
		return 0
	}
	p.seal()
	return p.recallMessage(i, at)
}

// seal rehashes the bytes of the last message after items have joined it.
func (p *Parser) seal() {
	if !p.recognition.grown {
		return
	}
	n := len(p.View.Messages) - 1
	p.recognition.raw[n], p.recognition.grown = rawHash(p.View.Messages[n].Span.Of(p.Body)), false
}

// Enter begins a message with an item, or adds the item to the last message.
func (p *Parser) Enter(role Role, span rawjson.Span) {
	if p.joins(role) {
		m := &p.View.Messages[len(p.View.Messages)-1]
		m.Span.End, m.Content.End, p.recognition.grown = span.End, span.End, true
		return
	}
	p.seal()
	p.View.Messages = reuse.Append(p.View.Messages, Message{Span: span, Content: span, First: int32(len(p.Blocks)), Role: role})
	p.recognition.raw = append(p.recognition.raw, rawHash(span.Of(p.Body)))
}
