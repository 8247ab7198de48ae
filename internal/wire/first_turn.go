// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// A conversation is looked up by its first turn: the messages before the first answer. They never
// change once the answer was given. Less would not do, because agents start every conversation with
// the same system prompt or context.

// firstTurns maps the bytes of a first turn to its hash. First turns are often the longest
// messages; the map saves scanning and hashing them with every request. An entry has no content and
// is derived from the bytes alone, so tenants may share the map: the conversations behind a hash
// stay separate.
var firstTurns [4096]atomic.Pointer[firstTurn]

type firstTurn struct {
	raw   uint64
	first Hash
}

func firstTurnAt(raw uint64) *atomic.Pointer[firstTurn] {
	return &firstTurns[raw%uint64(len(firstTurns))]
}

// recallFirstTurn looks up the conversation with the messages at e, if its first turn was read
// before.
func (p *Parser) recallFirstTurn(e rawjson.Elements) {
	if p.recognition.recall == nil {
		return
	}
	start, end, n := e.At, 0, 0
	for more := true; more; more = e.Next() {
		if n > 0 && p.answers(e.At) {
			p.recallFirstTurnAt(rawHash(p.Body[start:end]), n)
			return
		}
		if end = rawjson.SkipValue(p.Body, e.At); end < 0 {
			return
		}
		n, e.At = n+1, end
	}
}

func (p *Parser) recallFirstTurnAt(raw uint64, messages int) {
	o := firstTurnAt(raw).Load()
	// The slot may belong to another first turn.
	if o == nil || o.raw != raw {
		return
	}
	if p.adopt(o.first); p.recognition.known != nil {
		p.recognition.firstTurn = messages
	}
}

// noteFirstTurn records the hash of the first turn under the hash of its bytes.
func (p *Parser) noteFirstTurn(first Hash) {
	m := p.View.Messages[:p.recognition.firstTurn]
	raw := rawHash(p.Body[m[0].Span.Start:m[len(m)-1].Span.End])
	firstTurnAt(raw).Store(&firstTurn{raw, first})
}

// answers reports whether the message at b[at] is an answer of the model.
func (p *Parser) answers(at int) bool {
	for m := rawjson.Walk(p.Body, at); m.Next(); {
		isRole := string(m.Key) == "role"
		value := m.Skip()
		if m.Bad {
			return false
		}
		if isRole {
			role := string(value.Of(p.Body))
			return role == `"assistant"` || role == `"model"`
		}
	}
	return false
}

// A conversation without a name is also recognised by its first answer and the prompt before it.
// Clients rewrite the date and place before the prompt, and when they resume, but neither the
// prompt nor the answer.

// mostSaid is the number of bytes of a text that count for recognition.
const mostSaid = 64 << 10

// FirstAnswer returns a hash of the first answer and the prompt before it. It is zero without an
// answer, or without any text or call to identify the answer by.
func (v *View) FirstAnswer() Hash {
	var prompt *Block
	for i := range v.Messages {
		m := &v.Messages[i]
		if m.Role != RoleAssistant {
			prompt = v.asked(m, prompt)
			continue
		}
		var call string
		var text strings.Builder
		for j := m.First; j < m.End; j++ {
			switch b := &v.Blocks[j]; {
			case b.Kind.IsCall() && call == "":
				call = v.Text(b.ID)
			case b.Kind == KindText && text.Len() < mostSaid:
				text.WriteString(v.said(b))
			}
		}
		return answerHash(v.said(prompt), call, text.String())
	}
	return Hash{}
}

// AnsweredBy returns the [View.FirstAnswer] of the next request, if t is the answer to this one and
// the first of its conversation.
func (v *View) AnsweredBy(t *Turn) Hash {
	var prompt *Block
	for i := range v.Messages {
		prompt = v.asked(&v.Messages[i], prompt)
	}
	call := ""
	if len(t.Calls) > 0 {
		call = t.Calls[0].ID
	}
	return answerHash(v.said(prompt), call, t.Text)
}

// asked returns the last text of a user message, or before if there is none.
func (v *View) asked(m *Message, before *Block) *Block {
	for i := m.End - 1; i >= m.First && m.Role == RoleUser; i-- {
		if b := &v.Blocks[i]; b.Kind == KindText && !b.Has(FlagEmpty) {
			if rawjson.Unquoted(v.Raw, b.Body).Empty() {
				break
			}
			return b
		}
	}
	return before
}

// said returns the start of a block's text, at least the [mostSaid] bytes that count.
func (v *View) said(b *Block) string {
	if b == nil {
		return ""
	}
	raw := v.Bytes(b.Body)
	if most := 6*mostSaid + 16; len(raw) > most { // an escape takes up to six bytes for one
		raw = raw[:most:most]
		// The cut must not split an escape, or the closing quote would be escaped.
		if backslashes := len(raw) - len(bytes.TrimRight(raw, `\`)); backslashes%2 > 0 {
			raw = raw[: most-1 : most-1]
		}
		raw = append(raw, '"')
	}
	return gjson.ParseBytes(raw).Str
}

// answerHash hashes a prompt and its answer, zero if either is empty.
func answerHash(prompt, call, text string) Hash {
	// The id of the first call replaces the text, because clients drop and trim texts.
	if call != "" {
		text = ""
	}
	prompt, text = said(prompt), said(text)
	if prompt == "" || call == "" && text == "" {
		return Hash{}
	}
	sum := sha256.Sum256([]byte(prompt + "\x00" + call + "\x00" + text))
	return Hash(sum[:len(Hash{})])
}

// said returns the part of a text that counts for recognition.
func said(text string) string { return strings.TrimSpace(text[:min(len(text), mostSaid)]) }

// AnswerID returns a hash of the provider's id of an answer.
func AnswerID(id string) Hash {
	if id == "" {
		return Hash{}
	}
	sum := sha256.Sum256([]byte(id))
	return Hash(sum[:len(Hash{})])
}
