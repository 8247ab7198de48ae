// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha256"
	"hash/maphash"
	"sync/atomic"
	"unsafe"

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
	tools, system   section
	nTools, nSystem int
	first           Hash
	programs        bool         // whether any block is a KindProgram
	holds           atomic.Int32 // number of readers
}

var (
	blockSlices   = reuse.Slices[Block]{Plain: true}
	messageSlices = reuse.Slices[Message]{Plain: true}
	rawSlices     = reuse.Slices[uint64]{Plain: true}
	runSlices     = reuse.Slices[run]{Plain: true}
)

// Hold keeps the memory of a Known from being recycled until Release.
func (k *Known) Hold() { k.holds.Add(1) }

// Release ends a Hold. Nil is allowed.
func (k *Known) Release() {
	if k != nil {
		k.holds.Add(-1)
	}
}

// Recycle returns the memory of a Known and of its [View] to the pools. The caller guarantees that
// both are no longer used and that no new Hold can follow. With a Hold, Recycle does nothing.
func (k *Known) Recycle() {
	// A reader still has the memory. The garbage collector frees it later.
	if k.holds.Load() != 0 {
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

// RestoreKnown returns a Known from a snapshot of an earlier process: the hashes and roles of the
// blocks, the first of them tools, then the system section. Without positions and byte hashes it
// recognises no message, so the next request is read in full.
func RestoreKnown(blocks []Block, tools, system int, first Hash) *Known {
	return &Known{blocks: blocks, nTools: tools, nSystem: tools + system, first: first}
}

// Known returns the Known for the conversation's next request.
func (v *View) Known() *Known { return v.known }

// First returns the hash of the first turn (all messages before the first answer), the key for
// recalling the conversation.
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

// Tools returns a hash of the tool definitions, zero for none.
func (k *Known) Tools() Hash { return hashBlocks(k.blocks[:k.nTools]) }

// Front returns the blocks of the tools and system sections, in order.
func (k *Known) Front() (tools, system []Block) {
	return k.blocks[:k.nTools], k.blocks[k.nTools:k.nSystem]
}

// Blocks returns all blocks in order, with the number of blocks in the tools and system sections.
func (k *Known) Blocks() (blocks []Block, tools, system int) {
	return k.blocks, k.nTools, k.nSystem - k.nTools
}

// Size returns the size of the Known in memory, in bytes.
func (k *Known) Size() int {
	return int(unsafe.Sizeof(*k)) + cap(k.blocks)*int(unsafe.Sizeof(Block{})) +
		cap(k.messages)*int(unsafe.Sizeof(Message{})) + cap(k.raw)*8 + cap(k.runs)*int(unsafe.Sizeof(run{}))
}

// First returns the hash of the conversation's first turn, see [Known.First]. It is zero for an
// empty first turn.
func (v *View) First() Hash { return v.known.First() }

// remember looks up the conversation once its first turn has been read.
func (p *Parser) remember() {
	if p.recognition.recall == nil || p.recognition.known != nil || len(p.Blocks) == p.front {
		return
	}
	first := hashBlocks(p.Blocks[p.front:])
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
	p.Blocks, p.front = blocks, k.nSystem
	p.programs = programs{any: k.programs || p.programs.any}
	messages := append(messageSlices.Make(max(len(k.messages), len(p.View.Messages))+4), p.View.Messages...)
	for i := range messages {
		messages[i].First += int32(p.front)
		messages[i].End += int32(p.front)
	}
	p.View.Messages = messages
	p.recognition.raw = append(rawSlices.Make(len(k.messages)+4), p.recognition.raw...)
	if len(k.messages) >= runLength {
		p.recognition.runs = runSlices.Make(len(k.runs) + 1)
	}
}

// recallMessage recognises message i at b[at] by a hash of its bytes. It returns the index after
// the message, or 0.
func (p *Parser) recallMessage(i, at int) int {
	k := p.recognition.known
	if k == nil || i >= len(k.messages) {
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

// recognition is the state of a parser for recognising a conversation.
type recognition struct {
	recall    func(Hash) *Known
	known     *Known   // the recalled conversation
	raw       []uint64 // seeded hash of each message's bytes
	runs      []run    // and of each complete run
	firstTurn int      // messages before the first answer
	grown     bool     // items joined the last message since its hash
}
