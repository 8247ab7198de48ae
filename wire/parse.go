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

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire/rawjson"
)

// The reasons why a body is not read. None of them holds any content.
var (
	// ErrSyntax says that the body is not one well-formed JSON object, or is
	// nested too deeply.
	ErrSyntax = errors.New("not a well-formed JSON object")
	// ErrDuplicate says that a body holds a member twice that decides what the
	// request as a whole means, so that two readers could understand it
	// differently.
	ErrDuplicate = errors.New("a member stands twice")
	// ErrShape says that the body is JSON, but not a request of its format.
	ErrShape = errors.New("not a request of this format")
	// ErrCrowded says that the body has more than [MaxElements] entries, or is
	// [Crowded] with values.
	ErrCrowded = errors.New("more messages, blocks, parts or values than are read")
	// ErrFormat says that the format is none that this package reads.
	ErrFormat = errors.New("unknown format")
)

// MaxElements bounds the entries of a request that are read: messages, blocks,
// their parts, tools. The longest recorded conversation has 665, one that fills a
// context of a million tokens some ten thousand; each costs us a hundred bytes, and
// some five hundred where it is translated, and the client two.
const MaxElements = 1 << 15

// maxValues bounds the values in a body, whatever they are part of. The longest recorded
// conversation has some ten thousand, and a context of a million tokens has no room for
// as many; each costs some hundred nanoseconds of everyone who looks for a member among
// them.
const maxValues = 1 << 20

// Crowded reports whether a body may hold more values than are read: it has more commas
// and opening brackets, wherever they stand. Those in strings count, too: inputs and
// results are JSON in strings, which is looked into, and a text with as many is longer
// than any context.
func Crowded(body []byte) bool {
	if len(body) <= maxValues {
		return false
	}
	const step = 16 << 10 // in the processor's nearest cache
	n := 0
	for ; n <= maxValues && n+len(body) > maxValues; body = body[min(step, len(body)):] {
		part := body[:min(step, len(body))]
		for i := range separators {
			n += bytes.Count(part, separators[i:i+1])
		}
	}
	return n > maxValues
}

var separators = []byte(",{[")

// Parse reads a body as a view. An error means that the body is not one that
// can be edited safely; it should be passed on as it is.
//
// Where recall is given, it is called with the hash of the first turn, see [Known.First],
// and may return what is known of the conversation that begins
// so. Messages, tools and system prompts that have not changed since are then
// recognised by a hash of their bytes and not scanned again. What recall
// returns need not be the right conversation: nothing is taken from it unless
// the bytes are equal.
func Parse(f Format, body []byte, recall func(first Hash) *Known) (*View, error) {
	if len(body) > math.MaxInt32 {
		return nil, fmt.Errorf("%w: longer than 2 GiB", ErrShape)
	}
	if Crowded(body) {
		return nil, ErrCrowded
	}
	known := lookup(f)
	if known == nil {
		return nil, fmt.Errorf("%w: %q", ErrFormat, f)
	}
	p := parsers.Get().(*Parser)
	*p = Parser{
		Body: body, room: MaxElements, recall: recall, codec: known.codec, traits: &known.traits, Hasher: p.Hasher, desk: p.desk,
		View: &View{Format: f, Raw: body, MaxTokens: -1, Messages: p.desk.messages, traits: &known.traits},

		Blocks: p.desk.blocks, raw: p.desk.raw,
	}
	v := p.View
	err := p.run()
	if p.room < 0 || len(v.Blocks) > MaxElements { // blocks that are recalled are not counted
		err = ErrCrowded
	}
	*p = Parser{Hasher: p.Hasher, desk: p.desk}
	parsers.Put(p)
	if err != nil {
		return nil, err
	}
	return v, nil
}

// parsers are idle, with nothing in them but memory. One that panics does not come back.
var parsers = sync.Pool{New: func() any { return new(Parser) }}

// Parser builds a View. Its methods return the index behind what they read, or
// -1 after setting err.
type Parser struct {
	Body   []byte
	View   *View
	recall func(Hash) *Known
	known  *Known
	Hasher Hasher
	err    error
	room   int // for so many more entries

	codec  Codec
	traits *Traits
	desk   desk // what of a conversation that is not known is gathered in

	// Blocks gathers message blocks from index front on; the tools and system
	// blocks, which may come later in the bytes, are put before them.
	Blocks        []Block
	front         int
	raw           []uint64 // seeded hash of each message's bytes
	firstTurn     int      // messages in front of the first answer
	grown         bool     // the last message has grown since it was hashed
	tools, system part
}

// desk is memory for blocks and messages as long as nobody knows how many there will be.
type desk struct {
	blocks   []Block
	messages []Message
	raw      []uint64
}

// mostDesk bounds the blocks for which a desk keeps room.
const mostDesk = 8 << 10

// clear makes room for the next conversation, where the last has gathered so much.
func (d *desk) clear(blocks []Block, messages []Message, raw []uint64) {
	if cap(blocks) <= mostDesk {
		d.blocks, d.messages, d.raw = blocks[:0], messages[:0], raw[:0]
	}
}

// Add adds a block of the message or system prompt that is being read.
func (p *Parser) Add(b Block) { p.Blocks = Append(p.Blocks, b) }

// AddTool adds a tool definition.
func (p *Parser) AddTool(b Block) { p.tools.blocks = Append(p.tools.blocks, b) }

// Fail ends the reading, for the first reason that it is given, and returns -1.
func (p *Parser) Fail(err error) int {
	if p.err == nil {
		p.err = err
	}
	return -1
}

// Bits for the top-level members that must not stand twice: they say what is
// asked of whom. Of all others the last counts.
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
			bit, p.View.Stream = seenStream, m.At > 0 && string(s.Of(p.Body)) == "true"
		case "max_tokens", "max_completion_tokens":
			s := m.Skip()
			if n, err := strconv.Atoi(string(s.Of(p.Body))); err == nil {
				p.View.MaxTokens = n
				p.View.Prewarms = p.View.Prewarms || n == 0 && p.traits.Markers
			}
		case "tool_choice":
			p.View.ToolChoice = m.Skip()
		case "thinking", "reasoning_effort":
			p.View.Thinking = m.Skip()
		case "output_config", "response_format":
			p.View.OutputConfig = m.Skip()
		case "cache_control":
			p.View.AutoMarker = m.Skip()
		case "context_management":
			p.View.ContextManagement = m.Skip()
		case "prompt_cache_retention":
			if s := m.Skip(); p.View.Retention == "" {
				p.View.Retention = p.name(s)
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
				p.View.Partial, p.View.Continues = true, p.Text(s)
			}
		case "conversation":
			bit, conversation = seenConversation, m.Skip()
			p.View.Partial = p.View.Partial || p.refers(conversation)
		case "thread":
			bit = seenThread
			p.thread(m.Skip())
		case "store":
			s := m.Skip()
			p.View.Stateless = p.traits.KeepsAnswers && m.At > 0 && string(s.Of(p.Body)) == "false"
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
	if seen&seenMessages == 0 || len(p.View.Messages) == 0 && !p.View.Partial {
		return fmt.Errorf("%w: no messages", ErrShape)
	}
	if IsNull(p.Body, p.View.AutoMarker) {
		p.View.AutoMarker = rawjson.Span{}
	}
	p.View.Model = p.name(model)
	p.View.Session = p.session(metadata, cacheKey, conversation)
	if err := p.sections(); err != nil {
		return err
	}
	p.assemble()
	return nil
}

// Text decodes a JSON string value; anything else gives "".
func (p *Parser) Text(s rawjson.Span) string {
	if rawjson.Unquoted(p.Body, s).Empty() {
		return ""
	}
	return gjson.ParseBytes(s.Of(p.Body)).String()
}

// name is Text for what is the same in most requests.
func (p *Parser) name(s rawjson.Span) string {
	inside := rawjson.Unquoted(p.Body, s)
	if inside.Empty() || bytes.IndexByte(inside.Of(p.Body), '\\') >= 0 {
		return p.Text(s)
	}
	return Intern(inside.Of(p.Body))
}

// IsNull reports whether a value is null.
func IsNull(b []byte, s rawjson.Span) bool { return string(s.Of(b)) == "null" }

// cacheOptions reads what a request to OpenAI says of its cache.
func (p *Parser) cacheOptions(s rawjson.Span) {
	if s.Empty() || p.Body[s.Start] != '{' {
		return
	}
	options := gjson.ParseBytes(s.Of(p.Body))
	if ttl := options.Get("ttl"); ttl.Type == gjson.String {
		p.View.Retention = Intern([]byte(ttl.Str))
	}
	p.View.Prewarms = p.View.Prewarms || options.Get("prewarm").Type == gjson.True
}

// refers reports whether a member of a Responses request names what the provider
// is to put before the input.
func (p *Parser) refers(s rawjson.Span) bool {
	return p.traits.KeepsAnswers && !s.Empty() && !IsNull(p.Body, s)
}

// thread reads the member by which a conversation over the Messages API is kept
// at the provider, or goes on from an answer that is. A kind that is not known
// is taken for the latter: what the model will see may be elsewhere.
func (p *Parser) thread(s rawjson.Span) {
	if !p.traits.Threads || s.Empty() || IsNull(p.Body, s) {
		return
	}
	p.View.Thread = s
	thread := gjson.ParseBytes(s.Of(p.Body))
	if thread.Get("type").Str != "create" {
		p.View.Partial, p.View.Continues = true, thread.Get("previous_message_id").Str
	}
}

// session finds the conversation id of Claude Code (a JSON object in a string
// in metadata.user_id, in older versions user_…_session_<id>) or of OpenAI.
func (p *Parser) session(metadata, cacheKey, conversation rawjson.Span) string {
	if !cacheKey.Empty() {
		if key := p.Text(cacheKey); key != "" {
			return key
		}
	}
	if p.refers(conversation) {
		if p.Body[conversation.Start] == '{' {
			return gjson.GetBytes(conversation.Of(p.Body), "id").String()
		}
		return p.Text(conversation)
	}
	if metadata.Empty() || p.Body[metadata.Start] != '{' {
		return ""
	}
	user := gjson.GetBytes(metadata.Of(p.Body), "user_id").String()
	if len(user) == 0 {
		return ""
	}
	if user[0] == '{' {
		return gjson.Get(user, "session_id").String()
	}
	const sep = "_session_"
	for i := len(user) - len(sep); i > 0; i-- {
		if user[i:i+len(sep)] == sep {
			return user[i+len(sep):]
		}
	}
	return ""
}

// Elements walks the entries of an array, as far as there is room for them.
func (p *Parser) Elements(at int) rawjson.Elements {
	e := rawjson.List(p.Body, at)
	e.Most = &p.room
	return e
}

// MessageReader reads one entry of a list of messages, whose [Message] has begun.
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
			p.recallFirstTurn(e)
		case p.firstTurn == 0 && p.answers(e.At):
			p.firstTurn = i
			p.remember()
		}
		if end := p.recallMessage(i, e.At); end > 0 {
			e.At = end
			continue
		}
		start, first := e.At, len(p.Blocks)
		p.View.Messages = Append(p.View.Messages, Message{First: int32(first)})
		end := by.Message(start)
		if end < 0 {
			if end = p.shutMessage(start, first); end < 0 {
				return -1
			}
		}
		msg := &p.View.Messages[i]
		msg.Span = rawjson.Span{Start: int32(start), End: int32(end)}
		msg.End = int32(len(p.Blocks))
		p.raw = Append(p.raw, rawHash(p.Body[start:end]))
		e.At = end
	}
	if e.Bad {
		return p.Fail(ErrSyntax)
	}
	if p.firstTurn == 0 {
		p.firstTurn = len(p.View.Messages)
	}
	return e.End
}

// section skips the value of tools or system, without a look at it if it is
// known already.
func (p *Parser) section(m *rawjson.Members, s *part) {
	if end := p.recallSection(s, m.At); end > 0 {
		m.At = end
		return
	}
	s.span = m.Skip()
}

// sections reads tools and system, or recognises them where they stand in front
// of the messages.
func (p *Parser) sections() error {
	if s := &p.tools; p.unread(s) {
		e := p.Elements(int(s.span.Start))
		for e.Next() {
			at, n := e.At, len(s.blocks)
			if e.At = p.codec.Tool(p, at); e.At > 0 {
				continue
			}
			var b Block
			if b, e.At = p.Opaque(at, Block{Kind: KindToolDef, Section: SectionTools, Message: -1}); e.At < 0 {
				return p.err
			}
			s.blocks = append(s.blocks[:n], b)
		}
		if e.Bad {
			return fmt.Errorf("%w: tools is not an array", ErrShape)
		}
		s.hash = rawHash(s.span.Of(p.Body))
	}
	if s := &p.system; p.unread(s) {
		n := len(p.Blocks)
		p.codec.System(p, s.span)
		if p.err != nil && p.Shut(int(s.span.Start), n, SectionSystem, RoleSystem, -1) < 0 {
			return p.err
		}
		if len(p.Blocks) > n {
			p.attribute(&p.Blocks[n])
		}
		s.blocks = append(s.blocks, p.Blocks[n:]...)
		p.Blocks = p.Blocks[:n]
		s.hash = rawHash(s.span.Of(p.Body))
	}
	return nil
}

// unread reports whether a section is there and neither read nor recognised.
func (p *Parser) unread(s *part) bool {
	if s.known || s.span.Empty() {
		return false
	}
	if IsNull(p.Body, s.span) {
		s.span = rawjson.Span{}
		return false
	}
	return p.recallSection(s, int(s.span.Start)) != int(s.span.End)
}

// assemble puts tools and system before the message blocks.
func (p *Parser) assemble() {
	v := p.View
	v.Tools, v.System = len(p.tools.blocks), len(p.tools.blocks)+len(p.system.blocks)
	gathered := p.known == nil
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
		messages, raw := v.Messages, p.raw
		v.Messages = append(messageSlices.Make(len(messages)), messages...)
		p.raw = append(rawSlices.Make(len(raw)), raw...)
		p.desk.clear(p.Blocks, messages, raw)
	} else { // these live as long as the conversation
		v.Messages, p.raw = trim(v.Messages), trim(p.raw)
	}
	var first []Block
	if len(v.Messages) > 0 {
		first = v.Blocks[v.Messages[0].First:v.Messages[max(p.firstTurn, 1)-1].End]
	}
	v.known = &Known{
		format: v.Format, blocks: v.Blocks, messages: v.Messages, raw: p.raw,
		tools: p.tools.section, system: p.system.section, nTools: v.Tools, nSystem: v.System, first: hashBlocks(first),
	}
}

// trim gives up spare room where growing has left much of it.
func trim[T any](s []T) []T {
	if cap(s) <= len(s)+len(s)/16+32 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}
