// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// The reasons for rejecting a body. None of them contains any content.
var (
	// ErrSyntax reports a body that is not one well-formed JSON object, or is nested too deeply.
	ErrSyntax = errors.New("not a well-formed JSON object")
	// ErrDuplicate reports a duplicate member that changes the meaning of the whole request: two
	// parsers could read such a body differently.
	ErrDuplicate = errors.New("a member stands twice")
	// ErrShape reports a body that is JSON, but no request of its format.
	ErrShape = errors.New("not a request of this format")
	// ErrCrowded reports a body with more than [MaxElements] entries, or a body that is
	// [rawjson.Crowded].
	ErrCrowded = errors.New("more messages, blocks, parts or values than are read")
	// ErrFormat reports a format that is not registered.
	ErrFormat = errors.New("unknown format")
)

// MaxElements is the limit on the entries of one request: messages, blocks, parts and tools. The
// longest recorded conversation has 665 entries, a full context of a million tokens some ten
// thousand. An entry costs us about 100 bytes of memory, 500 with translation, and its client two
// bytes.
const MaxElements = 1 << 15

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
	reserved      int
	tools, system part

	recognition recognition
}

// desk is scratch memory for blocks and messages while their number is unknown.
type desk struct {
	blocks   []Block
	messages []Message
	raw      []uint64
}

// maxDesk is the maximum number of blocks that a desk keeps room for.
const maxDesk = 8 << 10

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
			p.resourceRef(refCompaction, p.View.Conversation.Compaction)
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
			p.resourceRef(refConversation, conversation)
		case "container":
			p.resourceRef(refContainer, m.Skip())
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
	e.Max = &p.room
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
		case p.recognition.firstTurn == 0 && isAnswer(p.role(e.At)):
			// The first answer ends the first turn.
			p.recognition.firstTurn = i
			p.remember()
		}
		known := p.recognition.known != nil
		if known {
			if end := p.recallRun(i, e.At); end > 0 {
				e.At = end
				continue
			}
		}
		if !p.weigh() {
			return -1
		}
		start, end, first := e.At, 0, len(p.Blocks)
		if known {
			end = p.recallMessage(i, start)
		}
		if end == 0 {
			p.View.Messages = reuse.Append(p.View.Messages, Message{First: int32(first)})
			if end = by.Message(start); end < 0 {
				// An unreadable message becomes an opaque block.
				if end = p.shutMessage(start, first); end < 0 {
					return -1
				}
			}
			msg := &p.View.Messages[i]
			msg.Span = rawjson.Span{Start: int32(start), End: int32(end)}
			msg.End = int32(len(p.Blocks))
			p.recognition.raw = reuse.Append(p.recognition.raw, rawHash(p.Body[start:end]))
		}
		// The message may complete a run.
		if all := p.View.Messages; len(all) == (len(p.recognition.runs)+1)*RunLength {
			raw := rawHash(spanOf(all[len(all)-RunLength:]).Of(p.Body))
			p.recognition.runs = append(p.recognition.runs, run{raw, -1})
		}
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
	if gathered || v.System != p.reserved {
		n := v.System + len(p.Blocks) - p.reserved
		blocks := blockSlices.Make(n)[:n]
		copy(blocks[v.System:], p.Blocks[p.reserved:])
		for i := range v.Messages {
			v.Messages[i].First += int32(v.System - p.reserved)
			v.Messages[i].End += int32(v.System - p.reserved)
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
		if cap(p.Blocks) <= maxDesk {
			p.desk = desk{p.Blocks[:0], messages[:0], raw[:0]}
		}
	} else { // known slices live as long as the conversation
		v.Messages, p.recognition.raw = trim(v.Messages), trim(p.recognition.raw)
	}
	var first []Block
	if len(v.Messages) > 0 {
		first = v.Blocks[v.Messages[0].First:v.Messages[max(p.recognition.firstTurn, 1)-1].End]
	}
	p.summarize()
	v.known = &Known{
		format: v.Format, blocks: v.Blocks, messages: v.Messages, raw: p.recognition.raw, runs: p.recognition.runs,
		summaries: v.summaries, tools: p.tools.section, system: p.system.section, nTools: v.Tools, nSystem: v.System, first: hashFirstTurn(first),
		programs: p.programs.any, sealed: p.sealed(),
	}
}

func trim[T any](s []T) []T {
	if cap(s) <= len(s)+len(s)/16+32 {
		return s
	}
	return append(make([]T, 0, len(s)), s...)
}

// part is the tools or system section during the parse.
type part struct {
	section
	blocks []Block
	by     int32 // distance to move the blocks' spans
	known  bool  // recalled from the Known
}

func (s *part) put(to []Block) {
	if copy(to, s.blocks); s.by != 0 {
		move(to[:len(s.blocks)], s.by)
	}
}

// section skips the value of tools or system. A known value is not scanned.
func (p *Parser) section(m *rawjson.Members, s *part) {
	if end := p.recallSection(s, m.At); end > 0 {
		m.At = end
		return
	}
	s.span = m.Skip()
}

func (p *Parser) sections() error {
	// Sections before the messages could not be recognised until now, so try that first.
	if s := &p.tools; p.unread(s) {
		e := p.Elements(int(s.span.Start))
		for e.Next() {
			at, n := e.At, len(s.blocks)
			if e.At = p.codec.Tool(p, at); e.At > 0 {
				continue
			}
			// An unreadable definition becomes an opaque block.
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
		// An unreadable system prompt becomes an opaque block.
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

// unread reports whether a section is present and still has to be read.
func (p *Parser) unread(s *part) bool {
	if s.known || s.span.Empty() {
		return false
	}
	// A null section counts as absent.
	if IsNull(p.Body, s.span) {
		s.span = rawjson.Span{}
		return false
	}
	return p.recallSection(s, int(s.span.Start)) != int(s.span.End)
}

// recallSection recognises the value of tools or system. It returns the index after the value, or 0.
func (p *Parser) recallSection(s *part, at int) int {
	k := p.recognition.known
	if k == nil || at < 0 || s.known {
		return 0
	}
	old, from, to := &k.system, k.nTools, k.nSystem
	if s == &p.tools {
		old, from, to = &k.tools, 0, k.nTools
	}
	end := at + old.span.Len()
	if old.span.Empty() || end > len(p.Body) || rawHash(p.Body[at:end]) != old.hash {
		return 0
	}
	*s = part{
		section: section{rawjson.Span{Start: int32(at), End: int32(end)}, old.hash},
		blocks:  k.blocks[from:to:to], by: int32(at) - old.span.Start, known: true,
	}
	p.View.Recalled += to - from
	return end
}

// Hasher computes canonical block hashes. Its input is the block's section, role and kind, then the
// members in the order of the Member calls; callers leave cache_control out. A string content is
// hashed as one text block.
type Hasher struct {
	sum   hash.Hash
	buf   [sha256.Size]byte
	small [8]byte
}

// Begin starts the hash of a block.
func (c *Hasher) Begin(s Section, r Role, k Kind) {
	if c.sum == nil {
		c.sum = sha256.New()
	}
	c.sum.Reset()
	c.small[0], c.small[1], c.small[2] = byte(s), byte(r), byte(k)
	c.sum.Write(c.small[:3])
}

// Add writes b after its length.
func (c *Hasher) Add(b []byte) {
	// Without the lengths, different lists of strings could give the same input.
	binary.LittleEndian.PutUint64(c.small[:], uint64(len(b)))
	c.sum.Write(c.small[:])
	c.sum.Write(b)
}

// Member adds a member of an object.
func (c *Hasher) Member(key, value []byte) {
	c.Add(key)
	c.Add(value)
}

// Sum returns the hash.
func (c *Hasher) Sum() Hash {
	return Hash(c.sum.Sum(c.buf[:0])[:len(Hash{})])
}

// The member names in the hashes of texts and results, the same for all formats.
var (
	keyText    = []byte("text")
	keyID      = []byte("id")
	keyContent = []byte("content")
)

// HashResult adds a tool result to the current hash. A lone text hashes the same as a string and as
// an array.
func (p *Parser) HashResult(b *Block, content rawjson.Span) {
	p.Hasher.Member(keyID, b.ID.Of(p.Body))
	p.Hasher.Member(keyContent, p.Lone(content).Of(p.Body))
}

// Plain returns the text block for a string content.
func (p *Parser) Plain(span rawjson.Span, section Section, role Role, message int32) Block {
	b := Block{Kind: KindText, Section: section, Role: role, Message: message, Span: span, Body: span, Flags: FlagString}
	if span.Len() == 2 {
		b.Flags |= FlagEmpty
	}
	p.Hasher.Begin(section, role, KindText)
	p.Hasher.Member(keyText, span.Of(p.Body))
	b.Hash = p.Hasher.Sum()
	return b
}

// Lone returns the text of a content that is an array of one plain text block, and any other
// content unchanged.
func (p *Parser) Lone(content rawjson.Span) rawjson.Span {
	if content.Empty() || p.Body[content.Start] != '[' {
		return content
	}
	e := p.Elements(int(content.Start))
	var text rawjson.Span
	for n := 0; e.Next(); n++ {
		if n > 0 {
			return content
		}
		m := rawjson.Walk(p.Body, e.At)
		for m.Next() {
			key := string(m.Key)
			value := m.Skip()
			switch {
			case key == "text":
				text = value
			case key == "type" && p.isText(value), key == "cache_control", key == "prompt_cache_breakpoint":
				// Cache markers do not count.
			default:
				return content
			}
		}
		e.At = m.End
	}
	if text.Empty() {
		return content
	}
	return text
}

// isText reports whether a part's type is a text: text, or the format's own name for it.
func (p *Parser) isText(kind rawjson.Span) bool {
	name := string(rawjson.Unquoted(p.Body, kind).Of(p.Body))
	return name == "text" || name != "" && name == p.traits.TextType
}

// AllText reports whether a content is a string or an array of text blocks.
func (p *Parser) AllText(content rawjson.Span) bool {
	if p.Body[content.Start] != '[' {
		return true
	}
	e := p.Elements(int(content.Start))
	all := true
	// The loop never breaks early: every part counts against the limit of [MaxElements].
	for e.Next() {
		text, start := false, e.At
		m := rawjson.Walk(p.Body, e.At)
		for m.Next() {
			key := string(m.Key)
			value := m.Skip()
			if key == "type" {
				text = p.isText(value)
			}
		}
		all = all && text && !m.Bad
		if e.At = m.End; m.Bad {
			e.At = rawjson.SkipValue(p.Body, start)
		}
	}
	return all
}

// Names turns a table from a format's top-level member names to those of [Parse] into a table for
// lookups without allocation.
func Names(called map[string]string) map[string][]byte {
	names := make(map[string][]byte, len(called))
	for name, like := range called {
		names[name] = []byte(like)
	}
	return names
}

// cacheOptions reads OpenAI's prompt_cache_options.
func (p *Parser) cacheOptions(s rawjson.Span) {
	if s.Empty() || p.Body[s.Start] != '{' {
		return
	}
	options := gjson.ParseBytes(s.Of(p.Body))
	if ttl := options.Get("ttl"); ttl.Type == gjson.String {
		p.View.Caching.Retention = reuse.Intern([]byte(ttl.Str))
	}
	p.View.Caching.Prewarms = p.View.Caching.Prewarms || options.Get("prewarm").Type == gjson.True
}

// refers reports whether a member of a Responses request refers to stored input.
func (p *Parser) refers(s rawjson.Span) bool {
	return p.traits.KeepsAnswers && !s.Empty() && !IsNull(p.Body, s)
}

// ResourceRef is a top-level member that refers to a resource of the provider's own API. String returns
// its name, "" for none.
type ResourceRef uint8

const (
	refCompaction ResourceRef = 1 + iota
	refContainer
	refConversation
)

// String returns the member's name.
func (h ResourceRef) String() string {
	return [...]string{"", "compaction", "container", "conversation"}[h]
}

func (p *Parser) resourceRef(h ResourceRef, s rawjson.Span) {
	if !s.Empty() && !IsNull(p.Body, s) {
		p.View.Conversation.Resource = h
	}
}

// session returns the conversation id of OpenAI or of Claude Code.
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
	// Claude Code has its id in metadata.user_id.
	user := gjson.GetBytes(metadata.Of(p.Body), "user_id").String()
	if len(user) == 0 {
		return ""
	}
	// A JSON object in the string.
	if user[0] == '{' {
		return gjson.Get(user, "session_id").String()
	}
	// Older versions: user_…_session_<id>.
	const sep = "_session_"
	for i := len(user) - len(sep); i > 0; i-- {
		if user[i:i+len(sep)] == sep {
			return user[i+len(sep):]
		}
	}
	return ""
}

// ForcesCall implements [Codec.ForcesCall] for formats with a word as tool choice, or an object
// with a type.
func ForcesCall(choice gjson.Result) bool {
	if choice.IsObject() {
		choice = choice.Get("type")
	}
	return choice.Str != "" && choice.Str != "auto" && choice.Str != "none"
}
