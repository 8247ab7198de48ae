// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/sha256"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/tidwall/gjson"
	"github.com/zeebo/xxh3"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Known is the result of a parse, kept for the conversation's next request: the positions and
// hashes of its blocks, and a hash of the bytes of each message and section. It has no content and
// is immutable.
type Known struct {
	format          Format
	blocks          []Block
	messages        []Message
	raw             []uint64 // one hash for each message's bytes
	runs            []run    // one for each complete run of messages
	summaries       []Summary
	tools, system   section
	nTools, nSystem int
	first           Hash
	programs        bool         // whether any block is a KindProgram
	sealed          bool         // whether the messages may have sealed reasoning
	pins            atomic.Int32 // number of readers
}

var (
	blockSlices   = reuse.Slices[Block]{Plain: true}
	messageSlices = reuse.Slices[Message]{Plain: true}
	rawSlices     = reuse.Slices[uint64]{Plain: true}
	runSlices     = reuse.Slices[run]{Plain: true}
)

// Pin keeps the memory of a Known from being recycled until Unpin.
func (k *Known) Pin() { k.pins.Add(1) }

// Unpin ends a Pin. Nil is allowed.
func (k *Known) Unpin() {
	if k != nil {
		k.pins.Add(-1)
	}
}

// Recycle returns the memory of a Known and of its [View] to the pools. The caller guarantees that
// both are no longer used and that no new Pin can follow. While pinned, Recycle does nothing.
func (k *Known) Recycle() {
	// A reader still has the memory. The garbage collector frees it later.
	if k.pins.Load() != 0 {
		return
	}
	blockSlices.Recycle(k.blocks)
	messageSlices.Recycle(k.messages)
	rawSlices.Recycle(k.raw)
	runSlices.Recycle(k.runs)
	k.blocks, k.messages, k.raw, k.runs = nil, nil, nil, nil
}

// section is the value of tools or system.
type section struct {
	span rawjson.Span
	hash uint64
}

// rawSeed makes the hashes of bytes unpredictable, so that no client can construct messages with
// equal hashes. The hashes never leave the process.
var rawSeed = maphash.String(maphash.MakeSeed(), "raw")

// rawHash hashes bytes. It is the only cost of a known conversation for each of its bytes.
func rawHash(b []byte) uint64 { return xxh3.HashSeed(b, rawSeed) }

// HashMessage returns the hash that [Known.Messages] has for a message with these bytes.
func HashMessage(raw []byte) uint64 { return rawHash(raw) }

// RestoreKnown returns a Known from a snapshot of an earlier process: the hashes and roles of the
// blocks, the first of them tools, then the system section. Without positions and byte hashes it
// recognises no message, so the next request is read in full.
func RestoreKnown(blocks []Block, tools, system int, first Hash) *Known {
	return &Known{blocks: blocks, nTools: tools, nSystem: tools + system, first: first}
}

// Known returns the Known for the conversation's next request.
func (v *View) Known() *Known { return v.known }

// First returns the hash of the first turn (all messages before the first answer, without the system messages at the
// start), the key for recalling the conversation.
func (k *Known) First() Hash { return k.first }

// hashBlocks returns one hash for a run of blocks, zero for none.
func hashBlocks(blocks []Block) Hash {
	if len(blocks) == 0 {
		return Hash{}
	}
	var few [8 * len(Hash{})]byte
	all := few[:0]
	for i := range blocks {
		all = append(all, blocks[i].Hash[:]...)
	}
	sum := sha256.Sum256(all)
	return Hash(sum[:len(Hash{})])
}

// Chain returns the blocks of the messages section, in order.
func (k *Known) Chain() []Block { return k.blocks[k.nSystem:] }

// Messages returns a hash of the bytes of each message, in order. The hashes differ between processes.
func (k *Known) Messages() []uint64 { return k.raw }

// Tools returns a hash of the tool definitions, zero for none.
func (k *Known) Tools() Hash { return hashBlocks(k.blocks[:k.nTools]) }

// Prefix returns the blocks of the tools and system sections, in order.
func (k *Known) Prefix() (tools, system []Block) {
	return k.blocks[:k.nTools], k.blocks[k.nTools:k.nSystem]
}

// Blocks returns all blocks in order, with the number of blocks in the tools and system sections.
func (k *Known) Blocks() (blocks []Block, tools, system int) {
	return k.blocks, k.nTools, k.nSystem - k.nTools
}

// Size returns the size of the Known in memory, in bytes.
func (k *Known) Size() int {
	return int(unsafe.Sizeof(*k)) + cap(k.blocks)*int(unsafe.Sizeof(Block{})) +
		cap(k.messages)*int(unsafe.Sizeof(Message{})) + cap(k.raw)*8 + cap(k.runs)*int(unsafe.Sizeof(run{})) +
		cap(k.summaries)*int(unsafe.Sizeof(Summary{}))
}

// First returns the hash of the conversation's first turn, see [Known.First]. It is zero for an
// empty first turn.
func (v *View) First() Hash { return v.known.first }

// recognition is the state of a parser for recognising a conversation.
type recognition struct {
	recall    func(Hash) *Known
	known     *Known   // the recalled conversation
	shared    int      // leading messages with the same bytes as in known
	raw       []uint64 // seeded hash of each message's bytes
	runs      []run    // and of each complete run
	firstTurn int      // messages before the first answer
	grown     bool     // items joined the last message since its hash
}

// A conversation is looked up by its first turn: the messages before the first answer. They never
// change once the answer was given. Less would not do, because agents start every conversation with
// the same context. System messages at the start may change, as a system prompt does: they do not count.

// SystemMessages returns the number of blocks of the system and developer messages at the start of a
// conversation.
func SystemMessages(blocks []Block) int {
	for i := range blocks {
		if blocks[i].Role != RoleSystem {
			return i
		}
	}
	return len(blocks)
}

// hashFirstTurn returns the hash of a first turn.
func hashFirstTurn(blocks []Block) Hash {
	if n := SystemMessages(blocks); n < len(blocks) {
		blocks = blocks[n:]
	}
	return hashBlocks(blocks)
}

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

// recallFirstTurn looks up the conversation by its first turn.
func (p *Parser) recallFirstTurn(e rawjson.Elements) {
	if p.recognition.recall == nil {
		return
	}
	start, end, n := -1, 0, 0
	for more := true; more; more = e.Next() {
		role := p.role(e.At)
		if start < 0 && !isSystem(role) {
			start = e.At
		}
		if start >= 0 && start < e.At && isAnswer(role) {
			raw := rawHash(p.Body[start:end])
			// The slot may belong to another first turn.
			if o := firstTurnAt(raw).Load(); o != nil && o.raw == raw {
				if p.adopt(o.first); p.recognition.known != nil {
					p.recognition.firstTurn = n
				}
			}
			return
		}
		if end = rawjson.SkipValue(p.Body, e.At); end < 0 {
			return
		}
		n, e.At = n+1, end
	}
}

// noteFirstTurn records the hash of the first turn under the hash of its bytes.
func (p *Parser) noteFirstTurn(first Hash) {
	m := p.View.Messages[:p.recognition.firstTurn]
	for m[0].Role == RoleSystem {
		if m = m[1:]; len(m) == 0 {
			return
		}
	}
	raw := rawHash(spanOf(m).Of(p.Body))
	firstTurnAt(raw).Store(&firstTurn{raw, first})
}

// role returns the JSON of the role of the message at b[at], nil without one.
func (p *Parser) role(at int) []byte {
	for m := rawjson.Walk(p.Body, at); m.Next(); {
		isRole := string(m.Key) == "role"
		value := m.Skip()
		if m.Bad {
			return nil
		}
		if isRole {
			return value.Of(p.Body)
		}
	}
	return nil
}

func isAnswer(role []byte) bool { return string(role) == `"assistant"` || string(role) == `"model"` }

func isSystem(role []byte) bool { return string(role) == `"system"` || string(role) == `"developer"` }

// remember looks up the conversation once its first turn has been read.
func (p *Parser) remember() {
	if p.recognition.recall == nil || p.recognition.known != nil || len(p.Blocks) == p.reserved {
		return
	}
	first := hashFirstTurn(p.Blocks[p.reserved:])
	if !p.traits.FlatItems {
		p.noteFirstTurn(first)
	}
	p.adopt(first)
}

// adopt recalls the conversation with this first turn, if it is known in the same format.
func (p *Parser) adopt(first Hash) {
	p.recognition.known = p.recognition.recall(first)
	// The same first turn may be known in another format.
	if p.recognition.known == nil || p.recognition.known.format != p.View.Format {
		p.recognition.known = nil
		return
	}
	// Room for the known blocks and a few more, after the tools and system.
	k := p.recognition.known
	n := k.nSystem + len(p.Blocks)
	blocks := blockSlices.Make(max(len(k.blocks), n) + 8)[:n]
	copy(blocks[k.nSystem:], p.Blocks)
	p.Blocks, p.reserved = blocks, k.nSystem
	p.programs = programs{any: k.programs || p.programs.any}
	messages := append(messageSlices.Make(max(len(k.messages), len(p.View.Messages))+4), p.View.Messages...)
	for i := range messages {
		messages[i].First += int32(p.reserved)
		messages[i].End += int32(p.reserved)
	}
	p.View.Messages = messages
	for r := p.recognition.raw; p.recognition.shared < min(len(r), len(k.raw)) &&
		r[p.recognition.shared] == k.raw[p.recognition.shared]; {
		p.recognition.shared++
	}
	p.recognition.raw = append(rawSlices.Make(len(k.messages)+4), p.recognition.raw...)
	if len(k.messages) >= RunLength {
		p.recognition.runs = runSlices.Make(len(k.runs) + 1)
	}
}

// RunLength is the number of messages in a run, the unit of recognition and of summaries. The remaining messages are
// compared one by one, because clients move markers in the last messages of a request.
const RunLength = 32

// run is the byte hash of one run.
type run struct {
	raw    uint64 // seeded hash of the bytes
	values int    // see [rawjson.Values]; -1 if not counted
}

// recallRun recognises a run of messages of a recalled conversation. It returns the index after the run, or 0.
func (p *Parser) recallRun(i, at int) int {
	k := p.recognition.known
	n := i / RunLength
	if i%RunLength != 0 || n >= len(k.runs) || n != len(p.recognition.runs) {
		return 0
	}
	old := k.messages[i : i+RunLength]
	// The hash covers the bytes between the messages, too.
	end := at + int(old[RunLength-1].Span.End-old[0].Span.Start)
	if end > len(p.Body) || rawHash(p.Body[at:end]) != k.runs[n].raw {
		return 0
	}
	p.take(old, at)
	p.recognition.raw = append(p.recognition.raw, k.raw[i:i+RunLength]...)
	p.recognition.runs = append(p.recognition.runs, k.runs[n])
	return end
}

// spanOf returns the span of consecutive messages.
func spanOf(m []Message) rawjson.Span {
	return rawjson.Span{Start: m[0].Span.Start, End: m[len(m)-1].Span.End}
}

// recallMessage recognises a message of a recalled conversation. It returns the index after the message, or 0.
func (p *Parser) recallMessage(i, at int) int {
	k := p.recognition.known
	if i >= len(k.messages) {
		return 0
	}
	end := at + k.messages[i].Span.Len()
	if end > len(p.Body) || rawHash(p.Body[at:end]) != k.raw[i] {
		return 0
	}
	p.take(k.messages[i:i+1], at)
	p.recognition.raw = append(p.recognition.raw, k.raw[i])
	return end
}

// take appends known messages and their blocks, moved to b[at].
func (p *Parser) take(known []Message, at int) {
	k, blocks, messages := p.recognition.known, len(p.Blocks), len(p.View.Messages)
	first := known[0].First
	if p.recognition.shared == messages {
		p.recognition.shared += len(known)
	}
	p.Blocks = append(p.Blocks, k.blocks[first:known[len(known)-1].End]...)
	p.View.Messages = append(p.View.Messages, known...)
	p.View.Recalled += len(p.Blocks) - blocks
	// The messages stand at another position of this body.
	if by := int32(at) - known[0].Span.Start; by != 0 {
		move(p.Blocks[blocks:], by)
		for i := range known {
			m := &p.View.Messages[messages+i]
			m.Span, m.Content = m.Span.Shift(by), m.Content.Shift(by)
		}
	}
	// The number of preceding blocks has changed.
	if by := int32(blocks) - first; by != 0 {
		for i := range known {
			m := &p.View.Messages[messages+i]
			m.First, m.End = m.First+by, m.End+by
		}
	}
}

func move(blocks []Block, by int32) {
	for i := range blocks {
		b := &blocks[i]
		b.Span, b.Body = b.Span.Shift(by), b.Body.Shift(by)
		b.ID, b.Name, b.Marker = b.ID.Shift(by), b.Name.Shift(by), b.Marker.Shift(by)
	}
}

// SealPrefix is the beginning of every string that package seal makes: `{"llm_cache"` in base64.
const SealPrefix = "eyJsbG1fY2FjaGUi"

// HasSeal reports whether a body may have sealed reasoning.
func HasSeal(body []byte) bool {
	// The search is for the prefix's first byte that is rare in texts.
	const before = len("eyJsbG1f") // a Y is next
	for from := 0; ; from++ {
		i := bytes.Index(body[from:], []byte(SealPrefix[before:]))
		if i < 0 {
			return false
		}
		from += i
		if at := from - before; at >= 0 && string(body[at:from]) == SealPrefix[:before] {
			return true
		}
	}
}

// sealed searches the messages that are not recalled for sealed reasoning.
func (p *Parser) sealed() bool {
	from := 0
	if k, n := p.recognition.known, p.recognition.shared; k != nil && n > 0 {
		if k.sealed {
			return true
		}
		from = int(p.View.Messages[n-1].Span.End)
	}
	return HasSeal(p.Body[from:])
}

// Sealed reports whether the messages may have sealed reasoning.
func (v *View) Sealed() bool { return v.known.sealed }

// weigh rejects a body with more than [rawjson.MaxValues] values.
func (p *Parser) weigh() bool {
	// A value has at least one byte, so a short body needs no count.
	if p.weighed || len(p.Body) <= rawjson.MaxValues {
		return true
	}
	p.weighed = true
	rest, left := p.Body, rawjson.MaxValues
	if runs := p.recognition.runs; len(runs) > 0 {
		known := p.View.Messages[:len(runs)*RunLength]
		for i := range runs {
			// The counts of known runs are cached, so a long conversation only needs a count of the
			// rest.
			if runs[i].values < 0 {
				runs[i].values = rawjson.Values(spanOf(known[i*RunLength:][:RunLength]).Of(p.Body))
			}
			left -= runs[i].values
		}
		where := spanOf(known)
		left -= rawjson.Values(p.Body[:where.Start])
		rest = p.Body[where.End:]
	}
	if rawjson.Exceeds(rest, left) {
		p.Fail(ErrCrowded)
		return false
	}
	return true
}

// A conversation without a name is also recognised by its first answer and the prompt before it.
// Clients rewrite the date and place before the prompt, and when they resume, but neither the
// prompt nor the answer.

// maxSaid is the number of bytes of a text that count for recognition.
const maxSaid = 64 << 10

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
			case b.Kind == KindText && text.Len() < maxSaid:
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

// said returns the start of a block's text, at least the [maxSaid] bytes that count.
func (v *View) said(b *Block) string {
	if b == nil {
		return ""
	}
	raw := v.Bytes(b.Body)
	if maxRaw := 6*maxSaid + 16; len(raw) > maxRaw { // an escape takes up to six bytes for one
		raw = raw[:maxRaw:maxRaw]
		// The cut must not split an escape, or the closing quote would be escaped.
		if backslashes := len(raw) - len(bytes.TrimRight(raw, `\`)); backslashes%2 > 0 {
			raw = raw[: maxRaw-1 : maxRaw-1]
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
	prompt = strings.TrimSpace(prompt[:min(len(prompt), maxSaid)])
	text = strings.TrimSpace(text[:min(len(text), maxSaid)])
	if prompt == "" || call == "" && text == "" {
		return Hash{}
	}
	sum := sha256.Sum256([]byte(prompt + "\x00" + call + "\x00" + text))
	return Hash(sum[:len(Hash{})])
}

// AnswerID returns a hash of the provider's id of an answer.
func AnswerID(id string) Hash {
	if id == "" {
		return Hash{}
	}
	sum := sha256.Sum256([]byte(id))
	return Hash(sum[:len(Hash{})])
}
