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

	"github.com/tidwall/gjson"
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
// their parts, tools. A conversation that fills a context of a million tokens
// has some ten thousand of each; each costs us a hundred bytes, and some five hundred
// where it is translated, and the client two.
const MaxElements = 1 << 16

// maxValues bounds the values in a body, whatever they are part of. A context of a
// million tokens has no room for as many; each costs some hundred nanoseconds of
// everyone who looks for a member among them.
const maxValues = 2 << 20

// Crowded tells whether a body may hold more values than are read: it has more commas,
// wherever they stand.
func Crowded(body []byte) bool {
	return len(body) > 2*maxValues && bytes.Count(body, []byte{','}) > maxValues
}

// Parse reads a body as a view. An error means that the body is not one that
// can be edited safely; it should be passed on as it is.
//
// Where recall is given, it is called with the hash of the opening, see [Known.First],
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
	p := parser{b: body, room: MaxElements, recall: recall, v: &View{Format: f, Raw: body, MaxTokens: -1}}
	p.list = (*parser).messages
	switch f {
	case Anthropic:
		p.message, p.tool = (*parser).anthropicMessage, (*parser).anthropicTool
	case OpenAIChat:
		p.message, p.tool = (*parser).chatMessage, (*parser).chatTool
	case Gemini:
		p.message, p.tool, p.rename = (*parser).geminiContent, (*parser).geminiTool, geminiName
	case OpenAIResponses:
		p.list, p.tool, p.rename = (*parser).responsesInput, (*parser).responsesTool, responsesName
	default:
		return nil, fmt.Errorf("%w: %q", ErrFormat, f)
	}
	err := p.run()
	if p.room < 0 || len(p.v.Blocks) > MaxElements { // blocks that are recalled are not counted
		err = ErrCrowded
	}
	if err != nil {
		return nil, err
	}
	return p.v, nil
}

// parser builds a View. Its methods return the index behind what they read, or
// -1 after setting err.
type parser struct {
	b      []byte
	v      *View
	recall func(Hash) *Known
	known  *Known
	hasher canonical
	err    error
	room   int // for so many more entries

	// list reads the value of messages, message and tool an entry of messages
	// and of tools.
	list    func(p *parser, at int) int
	message func(p *parser, at int) int
	tool    func(p *parser, at int) int
	// rename gives a top-level member of the format the name that its like has
	// in the Messages API, an empty one if it has none. Nil keeps all names.
	rename func(key []byte) []byte

	// blocks gathers message blocks from index front on; the tools and system
	// blocks, which may come later in the bytes, are put before them.
	blocks        []Block
	front         int
	raw           []uint64 // seeded hash of each message's bytes
	opening       int      // messages in front of the first answer
	grown         bool     // the last message has grown since it was hashed
	tools, system part
}

func (p *parser) fail(err error) int {
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

func (p *parser) run() error {
	var seen int
	var metadata, cacheKey, conversation, model Span
	m := walk(p.b, 0)
	for m.next() {
		bit, key := 0, m.key
		if p.rename != nil {
			key = p.rename(key)
		}
		switch string(key) {
		case "model":
			bit, model = seenModel, m.skip()
		case "messages":
			bit = seenMessages
			if seen&bit == 0 {
				m.at = p.list(p, m.at)
			}
		case "system":
			if bit = seenSystem; p.v.Format != OpenAIChat {
				p.section(&m, &p.system)
			} else {
				m.skip()
			}
		case "tools":
			bit = seenTools
			p.section(&m, &p.tools)
		case "stream":
			s := m.skip()
			bit, p.v.Stream = seenStream, m.at > 0 && string(s.Of(p.b)) == "true"
		case "max_tokens", "max_completion_tokens":
			s := m.skip()
			if n, err := strconv.Atoi(string(s.Of(p.b))); err == nil {
				p.v.MaxTokens = n
			}
		case "tool_choice":
			p.v.ToolChoice = m.skip()
		case "thinking", "reasoning_effort":
			p.v.Thinking = m.skip()
		case "output_config", "response_format":
			p.v.OutputConfig = m.skip()
		case "cache_control":
			p.v.AutoMarker = m.skip()
		case "context_management":
			p.v.ContextManagement = m.skip()
		case "metadata":
			metadata = m.skip()
		case "prompt_cache_key":
			cacheKey = m.skip()
		case "previous_response_id":
			s := m.skip()
			bit = seenPrevious
			if p.refers(s) {
				p.v.Partial, p.v.Continues = true, p.text(s)
			}
		case "conversation":
			bit, conversation = seenConversation, m.skip()
			p.v.Partial = p.v.Partial || p.refers(conversation)
		case "thread":
			bit = seenThread
			p.thread(m.skip())
		case "store":
			s := m.skip()
			p.v.Stateless = p.v.Format == OpenAIResponses && m.at > 0 && string(s.Of(p.b)) == "false"
		default:
			if s := m.skip(); p.v.Format == Gemini && !m.bad {
				p.geminiMember(m.key, s)
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
	if m.bad || skipSpace(p.b, m.end) != len(p.b) {
		return ErrSyntax
	}
	if seen&seenMessages == 0 || len(p.v.Messages) == 0 && !p.v.Partial {
		return fmt.Errorf("%w: no messages", ErrShape)
	}
	if isNull(p.b, p.v.AutoMarker) {
		p.v.AutoMarker = Span{}
	}
	p.v.Model = p.text(model)
	p.v.Session = p.session(metadata, cacheKey, conversation)
	if err := p.sections(); err != nil {
		return err
	}
	p.assemble()
	return nil
}

// text decodes a JSON string value; anything else gives "".
func (p *parser) text(s Span) string {
	if unquoted(p.b, s).Empty() {
		return ""
	}
	return gjson.ParseBytes(s.Of(p.b)).String()
}

func isNull(b []byte, s Span) bool { return string(s.Of(b)) == "null" }

// refers tells whether a member of a Responses request names what the provider
// is to put before the input.
func (p *parser) refers(s Span) bool {
	return p.v.Format == OpenAIResponses && !s.Empty() && !isNull(p.b, s)
}

// thread reads the member by which a conversation over the Messages API is kept
// at the provider, or goes on from an answer that is. A kind that is not known
// is taken for the latter: what the model will see may be elsewhere.
func (p *parser) thread(s Span) {
	if p.v.Format != Anthropic || s.Empty() || isNull(p.b, s) {
		return
	}
	p.v.Thread = s
	thread := gjson.ParseBytes(s.Of(p.b))
	if thread.Get("type").Str != "create" {
		p.v.Partial, p.v.Continues = true, thread.Get("previous_message_id").Str
	}
}

// session finds the conversation id of Claude Code (a JSON object in a string
// in metadata.user_id, in older versions user_…_session_<id>) or of OpenAI.
func (p *parser) session(metadata, cacheKey, conversation Span) string {
	if !cacheKey.Empty() {
		if key := p.text(cacheKey); key != "" {
			return key
		}
	}
	if p.refers(conversation) {
		if p.b[conversation.Start] == '{' {
			return gjson.GetBytes(conversation.Of(p.b), "id").String()
		}
		return p.text(conversation)
	}
	if metadata.Empty() || p.b[metadata.Start] != '{' {
		return ""
	}
	user := gjson.GetBytes(metadata.Of(p.b), "user_id").String()
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

// elements walks the entries of an array, as far as there is room for them.
func (p *parser) elements(at int) elements {
	e := list(p.b, at)
	e.room = &p.room
	return e
}

// messages reads the array of messages at b[at].
func (p *parser) messages(at int) int {
	e := p.elements(at)
	for e.next() {
		i := len(p.v.Messages)
		switch {
		case i == 0:
			p.reopen(e)
		case p.opening == 0 && p.answers(e.at):
			p.opening = i
			p.remember()
		}
		if end := p.recallMessage(i, e.at); end > 0 {
			e.at = end
			continue
		}
		start, first := e.at, len(p.blocks)
		p.v.Messages = append(p.v.Messages, Message{First: int32(first)})
		end := p.message(p, start)
		if end < 0 {
			if end = p.shutMessage(start, first); end < 0 {
				return -1
			}
		}
		msg := &p.v.Messages[i]
		msg.Span = Span{int32(start), int32(end)}
		msg.End = int32(len(p.blocks))
		p.raw = append(p.raw, rawHash(p.b[start:end]))
		e.at = end
	}
	if e.bad {
		return p.fail(ErrSyntax)
	}
	if p.opening == 0 {
		p.opening = len(p.v.Messages)
	}
	return e.end
}

// section skips the value of tools or system, without a look at it if it is
// known already.
func (p *parser) section(m *members, s *part) {
	if end := p.recallSection(s, m.at); end > 0 {
		m.at = end
		return
	}
	s.span = m.skip()
}

// sections reads tools and system, or recognises them where they stand in front
// of the messages.
func (p *parser) sections() error {
	if s := &p.tools; p.unread(s) {
		e := p.elements(int(s.span.Start))
		for e.next() {
			at, n := e.at, len(s.blocks)
			if e.at = p.tool(p, at); e.at > 0 {
				continue
			}
			var b Block
			if b, e.at = p.opaque(at, Block{Kind: KindToolDef, Section: SectionTools, Message: -1}); e.at < 0 {
				return p.err
			}
			s.blocks = append(s.blocks[:n], b)
		}
		if e.bad {
			return fmt.Errorf("%w: tools is not an array", ErrShape)
		}
		s.hash = rawHash(s.span.Of(p.b))
	}
	if s := &p.system; p.unread(s) {
		n := len(p.blocks)
		switch {
		case p.v.Format == Gemini:
			p.geminiSystem(s.span)
		case p.v.Format == OpenAIResponses && p.b[s.span.Start] != '"':
			p.fail(ErrShape) // they are a text
		default:
			p.content(s.span, SectionSystem, RoleSystem)
		}
		if p.err != nil && p.shut(int(s.span.Start), n, SectionSystem, RoleSystem, -1) < 0 {
			return p.err
		}
		if len(p.blocks) > n {
			p.attribute(&p.blocks[n])
		}
		s.blocks = append(s.blocks, p.blocks[n:]...)
		p.blocks = p.blocks[:n]
		s.hash = rawHash(s.span.Of(p.b))
	}
	return nil
}

// unread tells whether a section is there and neither read nor recognised.
func (p *parser) unread(s *part) bool {
	if s.known || s.span.Empty() {
		return false
	}
	if isNull(p.b, s.span) {
		s.span = Span{}
		return false
	}
	return p.recallSection(s, int(s.span.Start)) != int(s.span.End)
}

// assemble puts tools and system before the message blocks.
func (p *parser) assemble() {
	v := p.v
	v.Tools, v.System = len(p.tools.blocks), len(p.tools.blocks)+len(p.system.blocks)
	if v.System != p.front {
		blocks := make([]Block, v.System+len(p.blocks)-p.front)
		copy(blocks[v.System:], p.blocks[p.front:])
		for i := range v.Messages {
			v.Messages[i].First += int32(v.System - p.front)
			v.Messages[i].End += int32(v.System - p.front)
		}
		p.blocks = blocks
	}
	p.tools.put(p.blocks)
	p.system.put(p.blocks[v.Tools:])
	// These live as long as the conversation.
	v.Blocks, v.Messages, p.raw = trim(p.blocks), trim(v.Messages), trim(p.raw)
	var opening []Block
	if len(v.Messages) > 0 {
		opening = v.Blocks[v.Messages[0].First:v.Messages[max(p.opening, 1)-1].End]
	}
	v.known = &Known{
		format: v.Format, blocks: v.Blocks, messages: v.Messages, raw: p.raw,
		tools: p.tools.section, system: p.system.section, nTools: v.Tools, nSystem: v.System, first: joint(opening),
	}
}

// trim gives up spare room where growing has left much of it.
func trim[T any](s []T) []T {
	if cap(s) <= len(s)+len(s)/16+32 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}
