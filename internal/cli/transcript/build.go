// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"slices"
	"strings"
	"time"
)

type builder struct {
	session Session
	parts   [][]*said
	now     []*said // the current part
	models  map[string]int
	seen    map[string]bool // ids of calls
}

type said struct {
	role     string
	id       string // of an assistant message
	blocks   []Block
	from, to time.Time
	usage    *Usage
	model    string
	// copied marks a message that was copied from another conversation or part: no request was sent
	// for it here.
	copied bool
	// of is the original of a copy, nil for none.
	of *said
}

func (m *said) origin() *said {
	if m.of != nil {
		return m.of
	}
	return m
}

func newBuilder(id string) *builder {
	return &builder{session: Session{ID: id}, models: map[string]int{}, seen: map[string]bool{}}
}

func (b *builder) user(at time.Time, blocks ...Block) {
	if len(blocks) == 0 {
		return
	}
	if n := len(b.now); n > 0 && b.now[n-1].role == "user" {
		m := b.now[n-1]
		m.blocks, m.to = append(m.blocks, blocks...), later(m.to, at)
		return
	}
	b.now = append(b.now, &said{role: "user", blocks: blocks, from: at, to: at})
}

// answer adds blocks to the answer with an id, or starts another one.
func (b *builder) answer(id string, at time.Time, model string, usage *Usage, blocks ...Block) *said {
	var m *said
	// Agents write the blocks of one answer one by one, and the result of its first call before its
	// second call. So the answer may be the last message or the one before.
	for i := len(b.now) - 1; i >= 0 && i >= len(b.now)-2; i-- {
		if l := b.now[i]; l.role == "assistant" && (id != "" && l.id == id || id == "" && i == len(b.now)-1) {
			m = l
		}
	}
	if m == nil {
		m = &said{role: "assistant", id: id, from: at}
		b.now = append(b.now, m)
	}
	m.blocks, m.to = append(m.blocks, blocks...), later(m.to, at)
	if usage != nil && usage.prompt() > 0 {
		m.usage = usage
	}
	if model != "" {
		m.model = model
	}
	return m
}

func (b *builder) part(head ...*said) {
	if len(b.now) > 0 {
		b.parts = append(b.parts, b.now)
	}
	b.now = nil
	for _, m := range head {
		c := *m
		c.blocks, c.copied, c.of = slices.Clone(m.blocks), true, m.origin()
		b.now = append(b.now, &c)
	}
}

func (b *builder) end(unknown int) *Session {
	b.part()
	s := &b.session
	s.Unknown = unknown
	var start time.Time
	for _, messages := range b.parts {
		clear(b.seen)
		p := b.calls(messages)
		if len(p.Calls) == 0 {
			continue
		}
		if len(s.Parts) == 0 {
			start = p.started
			s.Started = start
		}
		p.Header.Offset = max(0, p.started.Sub(start).Seconds())
		s.Parts = append(s.Parts, p)
	}
	for model, n := range b.models {
		if highest := b.models[s.Model]; n > highest || n == highest && model < s.Model {
			s.Model = model
		}
	}
	for i, p := range s.Parts {
		p.Header.Session, p.Header.Model, p.Header.Part, p.Header.Parts = s.ID, s.Model, i+1, len(s.Parts)
	}
	return s
}

// calls builds requests from messages: one for each answer, with the messages since the previous one.
func (b *builder) calls(messages []*said) *Part {
	messages = alternating(messages)
	b.pair(messages)
	p := new(Part)
	pending := make([]Message, 0, 2)
	characters := 0
	var at time.Time
	for _, m := range messages {
		if m.role == "user" {
			at = m.to
		} else if !m.copied && len(pending) > 0 {
			b.models[m.model]++
			p.add(pending, at, m, characters)
			pending = nil
		}
		// The last answer stays in pending: no request has it.
		pending = append(pending, Message{Role: m.role, Content: m.blocks})
		for i := range m.blocks {
			characters += len(m.blocks[i].Raw)
		}
	}
	return p
}

// alternating joins consecutive messages of one role, drops empty ones, and makes the user begin.
func alternating(messages []*said) []*said {
	var out []*said
	for _, m := range messages {
		if len(m.blocks) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].role == m.role {
			l := out[n-1]
			l.blocks, l.to, l.copied = append(l.blocks, m.blocks...), later(l.to, m.to), l.copied && m.copied
			if m.usage != nil {
				l.usage = m.usage
			}
			continue
		}
		out = append(out, m)
	}
	if len(out) > 0 && out[0].role != "user" {
		out = slices.Insert(out, 0, &said{
			role: "user", blocks: []Block{textBlock("(The conversation goes on.)")},
			from: out[0].from, to: out[0].from, copied: out[0].copied,
		})
	}
	return out
}

// pair gives each call its result in the next message, before all other blocks, and drops other results.
func (b *builder) pair(messages []*said) {
	for i, m := range messages {
		if m.role == "assistant" {
			m.blocks = slices.DeleteFunc(m.blocks, func(c Block) bool {
				again := c.Type == "tool_use" && b.seen[c.ID]
				if c.Type == "tool_use" {
					b.seen[c.ID] = true
				}
				return again || c.Type == "tool_result"
			})
			// An answer that broke off in its thinking: no API accepts it back.
			for n := len(m.blocks); n > 0 && m.blocks[n-1].Type == "thinking"; n-- {
				m.blocks = m.blocks[:n-1]
			}
			if len(m.blocks) == 0 {
				m.blocks = []Block{textBlock("(no text)")}
			}
			continue
		}
		// The APIs refuse calls without results, results without calls, and any other order.
		results, rest := map[string]Block{}, []Block(nil)
		for _, c := range m.blocks {
			if c.Type != "tool_result" {
				rest = append(rest, c)
			} else if _, twice := results[c.ToolUseID]; !twice {
				results[c.ToolUseID] = c
			}
		}
		m.blocks = nil
		if i > 0 {
			for _, c := range messages[i-1].blocks {
				if c.Type != "tool_use" {
					continue
				}
				r, ok := results[c.ID]
				if !ok {
					r = resultBlock(c.ID, quoted("(no result was recorded)"), true)
				}
				m.blocks = append(m.blocks, r)
			}
		}
		if m.blocks = append(m.blocks, rest...); len(m.blocks) == 0 {
			m.blocks = []Block{textBlock("(no text)")}
		}
	}
}

func (p *Part) add(messages []Message, at time.Time, answer *said, characters int) {
	if at.IsZero() || at.After(answer.from) && !answer.from.IsZero() {
		at = answer.from
	}
	if len(p.Calls) == 0 {
		p.started = at
	}
	c := &Call{Messages: messages, Usage: answer.usage}
	if !at.IsZero() {
		since, until := max(0, at.Sub(p.started).Seconds()), max(0, answer.to.Sub(p.started).Seconds())
		c.At, c.End = &since, &until
	}
	// The first recorded prompt is larger than its messages by the parts that no transcript has:
	// system prompt, tools, reminders.
	if u := answer.usage; u != nil && p.Header.Fit.TokensPerChar == 0 {
		p.Header.Fit.TokensPerChar = perCharacter
		p.Header.Fit.Overhead = max(0, float64(u.prompt())-perCharacter*float64(characters))
	}
	p.Calls = append(p.Calls, c)
}

// perCharacter is the approximate number of tokens for a character of a message.
const perCharacter = 0.28

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// moment parses a time of RFC 3339, and returns the zero time for an invalid one.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

func millis(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
