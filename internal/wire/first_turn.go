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

// A conversation is recalled by its first turn: the messages in front of the first answer,
// which never change once that was given. Agents begin all conversations with the same
// system prompt or context, so that less would not tell them apart.

// firstTurns remember by which hash a conversation is recalled whose first turn has certain
// bytes, so that these, often the longest of all messages, are not read and hashed with
// every request only to find that out. They hold no content, and tell only what the
// bytes themselves tell: what is recalled by it is the tenant's own.
var firstTurns [4096]atomic.Pointer[firstTurn]

type firstTurn struct {
	raw   uint64
	first Hash
}

func firstTurnAt(raw uint64) *atomic.Pointer[firstTurn] {
	return &firstTurns[raw%uint64(len(firstTurns))]
}

// recallFirstTurn asks for what is known of the conversation whose messages begin at e, if its
// first turn was read before.
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
	if o == nil || o.raw != raw {
		return
	}
	if p.adopt(o.first); p.recognition.known != nil {
		p.recognition.firstTurn = messages
	}
}

// noteFirstTurn notes by which hash the conversation is recalled whose first turn has been read.
func (p *Parser) noteFirstTurn(first Hash) {
	m := p.View.Messages[:p.recognition.firstTurn]
	raw := rawHash(p.Body[m[0].Span.Start:m[len(m)-1].Span.End])
	firstTurnAt(raw).Store(&firstTurn{raw, first})
}

// answers reports whether the message at b[at] is an answer of the model's.
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

// A conversation that nobody names is recognised by its first answer, too, and by
// the prompt that it answers: clients write anew what they tell of the day and the
// place, in front of it and when they resume, but not what was said.

// mostSaid is how much of a text a conversation is recognised by, in bytes.
const mostSaid = 64 << 10

// FirstAnswer returns a hash of the first answer in the messages and of the prompt
// in front of it; zero where there is no answer, or nothing to tell it by.
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

// AnsweredBy returns what [View.FirstAnswer] of the next request will be, if t is
// the answer to this one and the first of its conversation.
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

// asked returns the last text of a message of the user's, else what was asked before.
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

// said returns how the text of a block begins, at least as far as counts.
func (v *View) said(b *Block) string {
	if b == nil {
		return ""
	}
	raw := v.Bytes(b.Body)
	if most := 6*mostSaid + 16; len(raw) > most { // so much is said by the longest escapes
		raw = raw[:most:most]
		if backslashes := len(raw) - len(bytes.TrimRight(raw, `\`)); backslashes%2 > 0 {
			raw = raw[: most-1 : most-1]
		}
		raw = append(raw, '"')
	}
	return gjson.ParseBytes(raw).Str
}

// answerHash goes by the id of the answer's first call: clients drop and trim texts.
func answerHash(prompt, call, text string) Hash {
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

// said is what counts of a text.
func said(text string) string { return strings.TrimSpace(text[:min(len(text), mostSaid)]) }

// AnswerID returns a hash of the id that an answer has at the provider.
func AnswerID(id string) Hash {
	if id == "" {
		return Hash{}
	}
	sum := sha256.Sum256([]byte(id))
	return Hash(sum[:len(Hash{})])
}
