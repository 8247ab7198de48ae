// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"slices"
	"strings"
	"time"
)

// builder puts a conversation together, record by record, in the order in which
// they were written.
type builder struct {
	session Session
	parts   [][]*said
	now     []*said // the part under way
	models  map[string]int
	seen    map[string]bool // ids of calls
}

// said is one message.
type said struct {
	role     string
	id       string // of an answer
	blocks   []Block
	from, to time.Time
	usage    *Usage
	model    string
	// copied marks an answer of another conversation, which this one goes on from:
	// nobody asked for it again.
	copied bool
	// of is the message that it was copied from, nil for none.
	of *said
}

// origin is the message as it was first said.
func (m *said) origin() *said {
	if m.of != nil {
		return m.of
	}
	return m
}

func newBuilder(id string) *builder {
	return &builder{session: Session{ID: id}, models: map[string]int{}, seen: map[string]bool{}}
}

// user adds what a person or a tool said.
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

// answer adds to the answer of an id, or a further one. Agents write the blocks of
// one answer one by one, and the result of its first call before its second call.
func (b *builder) answer(id string, at time.Time, model string, usage *Usage, blocks ...Block) *said {
	var m *said
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

// part begins anew with other messages in front, as agents do when they sum a
// conversation up, or go back in it.
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

// end makes the session of what there is.
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
		if most := b.models[s.Model]; n > most || n == most && model < s.Model {
			s.Model = model
		}
	}
	for i, p := range s.Parts {
		p.Header.Session, p.Header.Model, p.Header.Part, p.Header.Parts = s.ID, s.Model, i+1, len(s.Parts)
	}
	return s
}

// calls makes requests of messages: one of each answer, with what stands before it
// and after the answer before that. The last answer is in no request.
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
		pending = append(pending, Message{Role: m.role, Content: m.blocks})
		for i := range m.blocks {
			characters += len(m.blocks[i].Raw)
		}
	}
	return p
}

// alternating joins what one side says in a row, drops what is empty, and has a
// person begin.
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
		out = slices.Insert(out, 0, &said{role: "user", blocks: []Block{textBlock("(The conversation goes on.)")}, from: out[0].from, to: out[0].from, copied: out[0].copied})
	}
	return out
}

// pair sees to it that every call has its result in the next message, in order and
// before all else, and that nothing else is a result. No API takes it otherwise.
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
			// An answer that was broken off as the model thought; no API takes it back.
			for n := len(m.blocks); n > 0 && m.blocks[n-1].Type == "thinking"; n-- {
				m.blocks = m.blocks[:n-1]
			}
			if len(m.blocks) == 0 {
				m.blocks = []Block{textBlock("(no text)")}
			}
			continue
		}
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

// add adds a request.
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
	// What the first recorded prompt holds beyond the messages is what no
	// transcript tells: system prompt, tools, reminders.
	if u := answer.usage; u != nil && p.Header.Fit.TokensPerChar == 0 {
		p.Header.Fit.TokensPerChar = perCharacter
		p.Header.Fit.Overhead = max(0, float64(u.prompt())-perCharacter*float64(characters))
	}
	p.Calls = append(p.Calls, c)
}

// perCharacter is how many tokens a character of a message is, about.
const perCharacter = 0.28

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// moment reads a time as agents write it, the zero time where it is none.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// millis reads a time in milliseconds since 1970.
func millis(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// blank reports whether a text says nothing; APIs refuse such blocks.
func blank(s string) bool { return strings.TrimSpace(s) == "" }
