// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Parse reads a body as a view. After an error the body cannot be edited safely and should be
// forwarded unmodified.
//
// If recall is not nil, Parse calls it with the hash of the first turn, see [Known.First]. It may
// return the Known of the conversation. Unchanged messages, tools and system prompts are then
// recognised by a hash of their bytes and not scanned again. A Known of another conversation does
// no harm: Parse only uses the parts with equal bytes.
func Parse(f Format, body []byte, recall func(first Hash) *Known) (*View, error) {
	if len(body) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: longer than 2 GiB", ErrShape)
	}
	known := lookup(f)
	if known == nil {
		return nil, fmt.Errorf("%w: %q", ErrFormat, f)
	}
	p := parsers.Get().(*Parser)
	*p = Parser{
		Body: body, room: MaxElements, codec: known.codec, traits: &known.traits, Hasher: p.Hasher, desk: p.desk,
		View: &View{Format: f, Raw: body, Reply: Reply{MaxTokens: -1}, Messages: p.desk.messages, traits: &known.traits},

		Blocks: p.desk.blocks, recognition: recognition{recall: recall, raw: p.desk.raw},
	}
	v := p.View
	err := p.run()
	if p.room < 0 || len(v.Blocks) > MaxElements { // recalled blocks did not count against room
		err = ErrCrowded
	}
	// Drop all references to the body before the parser is reused.
	*p = Parser{Hasher: p.Hasher, desk: p.desk}
	parsers.Put(p)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// parsers are idle parsers, kept for their memory. A parser that panics is not returned.
var parsers = sync.Pool{New: func() any { return new(Parser) }}

// Parser builds a View. Its methods return the index after the value they read, or -1 after setting
// err.
type Parser struct {
	Body   []byte
	View   *View
	Hasher Hasher
	err    error
	room   int // number of further entries allowed

	weighed  bool // see weigh
	programs programs

	codec  Codec
	traits *Traits
	desk   desk // scratch memory while the conversation is not known

	// Blocks collects message blocks from index front on. The tools and system blocks, possibly
	// later in the body, are put before them.
	Blocks        []Block
	front         int
	tools, system part

	recognition recognition
}

// desk is scratch memory for blocks and messages while their number is unknown.
type desk struct {
	blocks   []Block
	messages []Message
	raw      []uint64
}

// mostDesk is the maximum number of blocks that a desk keeps room for.
const mostDesk = 8 << 10

// clear keeps the slices for the next conversation, unless they have grown beyond [mostDesk].
func (d *desk) clear(blocks []Block, messages []Message, raw []uint64) {
	if cap(blocks) <= mostDesk {
		d.blocks, d.messages, d.raw = blocks[:0], messages[:0], raw[:0]
	}
}

// Add adds a block of the current message or system prompt.
func (p *Parser) Add(b Block) { p.Blocks = reuse.Append(p.Blocks, b) }

// AddTool adds a tool definition.
func (p *Parser) AddTool(b Block) { p.tools.blocks = reuse.Append(p.tools.blocks, b) }

// Fail stops the parse and returns -1. Only the first error counts.
func (p *Parser) Fail(err error) int {
	if p.err == nil {
		p.err = err
	}
	return -1
}

// Keep stores the value of a member in its slot. A nil slot skips the member; a duplicate member
// stops the parse.
func (p *Parser) Keep(m *rawjson.Members, slot *rawjson.Span) {
	value := m.Skip()
	switch {
	case m.Bad || slot == nil:
	case !slot.Empty():
		p.Fail(ErrDuplicate)
		m.Bad = true
	default:
		*slot = value
	}
}

// Bits for the top-level members that must not be duplicate, because they select the model and the
// prompt. For all other members the last one counts.
const (
	seenModel = 1 << iota
	seenMessages
	seenSystem
	seenTools
	seenStream
	seenPrevious
	seenConversation
	seenThread
)

func (p *Parser) run() error {
	var seen int
	var metadata, cacheKey, conversation, model rawjson.Span
	m := rawjson.Walk(p.Body, 0)
	for m.Next() {
		bit := 0
		switch string(p.codec.Name(m.Key)) {
		case "model":
			bit, model = seenModel, m.Skip()
		case "messages":
			bit = seenMessages
			if seen&bit == 0 {
				m.At = p.codec.Messages(p, m.At)
			}
		case "system":
			if bit = seenSystem; !p.traits.SystemInMessages {
				p.section(&m, &p.system)
			} else {
				m.Skip()
			}
		case "tools":
			bit = seenTools
			p.section(&m, &p.tools)
		case "stream":
			s := m.Skip()
			bit, p.View.Reply.Stream = seenStream, m.At > 0 && string(s.Of(p.Body)) == "true"
		case "stream_options":
			p.View.Reply.StreamOptions = m.Skip()
		case "max_tokens", "max_completion_tokens":
			s := m.Skip()
			if n, err := strconv.Atoi(string(s.Of(p.Body))); err == nil {
				p.View.Reply.MaxTokens = n
				// max_tokens of 0 requests a cached prompt and no answer.
				p.View.Caching.Prewarms = p.View.Caching.Prewarms || n == 0 && p.traits.Markers
			}
		case "tool_choice":
			p.View.Reply.ToolChoice = m.Skip()
		case "thinking", "reasoning_effort":
			p.View.Reply.Thinking = m.Skip()
		case "output_config", "response_format":
			p.View.Reply.OutputConfig = m.Skip()
		case "service_tier":
			p.View.Reply.Service |= ServiceTier(p.name(m.Skip()))
		case "speed":
			p.View.Reply.Service |= ServiceSpeed(p.name(m.Skip()))
		case "inference_geo":
			p.View.Reply.Service |= ServiceGeo(p.name(m.Skip()))
		case "cache_control":
			p.View.Caching.AutoMarker = m.Skip()
		case "context_management":
			p.View.Conversation.ContextManagement = m.Skip()
		case "compaction":
			p.View.Conversation.Compaction = m.Skip()
			p.holds(heldCompaction, p.View.Conversation.Compaction)
		case "prompt_cache_retention":
			// prompt_cache_options takes precedence.
			if s := m.Skip(); p.View.Caching.Retention == "" {
				p.View.Caching.Retention = p.name(s)
			}
		case "prompt_cache_options":
			p.cacheOptions(m.Skip())
		case "metadata":
			metadata = m.Skip()
		case "prompt_cache_key":
			cacheKey = m.Skip()
		case "previous_response_id":
			s := m.Skip()
			bit = seenPrevious
			if p.refers(s) {
				p.View.Conversation.Partial, p.View.Conversation.Continues = true, p.Text(s)
			}
		case "conversation":
			bit, conversation = seenConversation, m.Skip()
			p.View.Conversation.Partial = p.View.Conversation.Partial || p.refers(conversation)
			p.holds(heldConversation, conversation)
		case "container":
			p.holds(heldContainer, m.Skip())
		case "thread":
			bit = seenThread
			p.thread(m.Skip())
		case "store":
			s := m.Skip()
			p.View.Conversation.Stateless = p.traits.KeepsAnswers && m.At > 0 && string(s.Of(p.Body)) == "false"
		default:
			if s := m.Skip(); !m.Bad {
				p.codec.Member(p, m.Key, s)
			}
		}
		if p.err != nil {
			return p.err
		}
		if seen&bit != 0 {
			return ErrDuplicate
		}
		seen |= bit
	}
	if p.err != nil {
		return p.err
	}
	if m.Bad || rawjson.SkipSpace(p.Body, m.End) != len(p.Body) {
		return ErrSyntax
	}
	// An empty list is valid if the request refers to stored input.
	if seen&seenMessages == 0 || len(p.View.Messages) == 0 && !p.View.Conversation.Partial {
		return fmt.Errorf("%w: no messages", ErrShape)
	}
	// A null marker is no marker.
	if IsNull(p.Body, p.View.Caching.AutoMarker) {
		p.View.Caching.AutoMarker = rawjson.Span{}
	}
	p.View.Model = p.name(model)
	p.View.Session = p.session(metadata, cacheKey, conversation)
	if !p.weigh() { // all messages were known, or there is no list
		return p.err
	}
	if err := p.sections(); err != nil {
		return err
	}
	p.assemble()
	return nil
}

// Text decodes a JSON string. Any other value gives "".
func (p *Parser) Text(s rawjson.Span) string {
	if rawjson.Unquoted(p.Body, s).Empty() {
		return ""
	}
	return gjson.ParseBytes(s.Of(p.Body)).String()
}

// name is Text for values that repeat across requests, with interning.
func (p *Parser) name(s rawjson.Span) string {
	inside := rawjson.Unquoted(p.Body, s)
	if inside.Empty() || bytes.IndexByte(inside.Of(p.Body), '\\') >= 0 {
		return p.Text(s)
	}
	return reuse.Intern(inside.Of(p.Body))
}

// IsNull reports whether a value is null.
func IsNull(b []byte, s rawjson.Span) bool { return string(s.Of(b)) == "null" }

// Elements walks an array's entries, within the limit of [MaxElements].
func (p *Parser) Elements(at int) rawjson.Elements {
	e := rawjson.List(p.Body, at)
	e.Most = &p.room
	return e
}

// MessageReader reads one entry of a list of messages. Its [Message] has been appended already.
type MessageReader interface {
	Message(at int) int
}

// Messages reads the array of messages at b[at].
func (p *Parser) Messages(at int, by MessageReader) int {
	e := p.Elements(at)
	for e.Next() {
		i := len(p.View.Messages)
		switch {
		case i == 0:
			// The conversation may be known by the bytes of its first turn.
			p.recallFirstTurn(e)
		case p.recognition.firstTurn == 0 && p.answers(e.At):
			// The first answer ends the first turn.
			p.recognition.firstTurn = i
			p.remember()
		}
		if end := p.recallRun(i, e.At); end > 0 {
			e.At = end
			continue
		}
		if !p.weigh() {
			return -1
		}
		if end := p.recallMessage(i, e.At); end > 0 {
			e.At = end
			p.noteRun()
			continue
		}
		start, first := e.At, len(p.Blocks)
		p.View.Messages = reuse.Append(p.View.Messages, Message{First: int32(first)})
		end := by.Message(start)
		if end < 0 {
			// An unreadable message becomes an opaque block.
			if end = p.shutMessage(start, first); end < 0 {
				return -1
			}
		}
		msg := &p.View.Messages[i]
		msg.Span = rawjson.Span{Start: int32(start), End: int32(end)}
		msg.End = int32(len(p.Blocks))
		p.recognition.raw = reuse.Append(p.recognition.raw, rawHash(p.Body[start:end]))
		p.noteRun()
		e.At = end
	}
	if e.Bad {
		return p.Fail(ErrSyntax)
	}
	// Without an answer the first turn has all messages.
	if p.recognition.firstTurn == 0 {
		p.recognition.firstTurn = len(p.View.Messages)
	}
	return e.End
}

// assemble puts the tools and system blocks before the message blocks and builds the [Known].
func (p *Parser) assemble() {
	v := p.View
	v.Tools, v.System = len(p.tools.blocks), len(p.tools.blocks)+len(p.system.blocks)
	gathered := p.recognition.known == nil
	// The message blocks are copied unless the space reserved before them fits.
	if gathered || v.System != p.front {
		n := v.System + len(p.Blocks) - p.front
		blocks := blockSlices.Make(n)[:n]
		copy(blocks[v.System:], p.Blocks[p.front:])
		for i := range v.Messages {
			v.Messages[i].First += int32(v.System - p.front)
			v.Messages[i].End += int32(v.System - p.front)
		}
		v.Blocks = blocks
	} else {
		v.Blocks = trim(p.Blocks)
	}
	p.tools.put(v.Blocks)
	p.system.put(v.Blocks[v.Tools:])
	if gathered {
		messages, raw := v.Messages, p.recognition.raw
		v.Messages = append(messageSlices.Make(len(messages)), messages...)
		p.recognition.raw = append(rawSlices.Make(len(raw)), raw...)
		p.desk.clear(p.Blocks, messages, raw)
	} else { // known slices live as long as the conversation
		v.Messages, p.recognition.raw = trim(v.Messages), trim(p.recognition.raw)
	}
	var first []Block
	if len(v.Messages) > 0 {
		first = v.Blocks[v.Messages[0].First:v.Messages[max(p.recognition.firstTurn, 1)-1].End]
	}
	v.known = &Known{
		format: v.Format, blocks: v.Blocks, messages: v.Messages, raw: p.recognition.raw, runs: p.recognition.runs,
		tools: p.tools.section, system: p.system.section, nTools: v.Tools, nSystem: v.System, first: hashBlocks(first),
		programs: p.programs.any,
	}
}

// trim reallocates a slice with much spare capacity.
func trim[T any](s []T) []T {
	if cap(s) <= len(s)+len(s)/16+32 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}
