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

// Known is what a parse leaves behind for the next request of the same
// conversation: where its blocks stood, their hashes, and a hash of the bytes
// of each message and section. It holds no content. It is immutable.
type Known struct {
	format          Format
	blocks          []Block
	messages        []Message
	raw             []uint64 // of each message's bytes
	runs            []run    // of all whole runs of messages
	tools, system   section
	nTools, nSystem int
	first           Hash
	programs        bool         // whether any block is a KindProgram
	holds           atomic.Int32 // those who may be reading it
}

var (
	blockSlices   = reuse.Slices[Block]{Plain: true}
	messageSlices = reuse.Slices[Message]{Plain: true}
	rawSlices     = reuse.Slices[uint64]{Plain: true}
	runSlices     = reuse.Slices[run]{Plain: true}
)

// Hold keeps the memory of a Known from being recycled until Release.
func (k *Known) Hold() { k.holds.Add(1) }

// Release ends what Hold began. Nil is allowed.
func (k *Known) Release() {
	if k != nil {
		k.holds.Add(-1)
	}
}

// Recycle gives the memory of a Known, and so of its [View], back. Nothing may
// use them from here on, and nobody can take a hold of it any more; if somebody
// has, nothing happens.
func (k *Known) Recycle() {
	if k.holds.Load() != 0 {
		return
	}
	blockSlices.Recycle(k.blocks)
	messageSlices.Recycle(k.messages)
	rawSlices.Recycle(k.raw)
	runSlices.Recycle(k.runs)
	k.blocks, k.messages, k.raw, k.runs = nil, nil, nil, nil
}

// section is the whole value of tools or system.
type section struct {
	span rawjson.Span
	hash uint64
}

// rawSeed makes the hashes of bytes unpredictable, so that nobody can make two
// messages look the same. They never leave the process.
var rawSeed = maphash.String(maphash.MakeSeed(), "raw")

// rawHash is what a known conversation costs for each of its bytes.
func rawHash(b []byte) uint64 { return xxh3.HashSeed(b, rawSeed) }

// RestoreKnown makes a Known of what has outlived a process: the hashes and the roles
// of the blocks, so many of them tools and so many of the system section. It holds
// no places and no hashes of bytes: no request is recognised by it that has not
// been read.
func RestoreKnown(blocks []Block, tools, system int, first Hash) *Known {
	return &Known{blocks: blocks, nTools: tools, nSystem: tools + system, first: first}
}

// Known returns what to remember of the request.
func (v *View) Known() *Known { return v.known }

// First returns the hash by which a conversation is recalled: that of its first turn, all
// messages in front of the first answer.
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

// Tools returns a hash of the tool definitions, zero if there are none.
func (k *Known) Tools() Hash { return hashBlocks(k.blocks[:k.nTools]) }

// Front returns the blocks of the tools and of the system section, in order.
func (k *Known) Front() (tools, system []Block) {
	return k.blocks[:k.nTools], k.blocks[k.nTools:k.nSystem]
}

// Blocks returns all blocks in order, and how many of them are tools and how many
// stand in the system section.
func (k *Known) Blocks() (blocks []Block, tools, system int) {
	return k.blocks, k.nTools, k.nSystem - k.nTools
}

// Size returns the memory that the Known holds, in bytes.
func (k *Known) Size() int {
	return int(unsafe.Sizeof(*k)) + cap(k.blocks)*int(unsafe.Sizeof(Block{})) +
		cap(k.messages)*int(unsafe.Sizeof(Message{})) + cap(k.raw)*8 + cap(k.runs)*int(unsafe.Sizeof(run{}))
}

// First returns the hash of the conversation's first turn, see [Known.First]; zero if
// it is empty.
func (v *View) First() Hash { return v.known.First() }

// remember asks for what is known, once that has been read by which a
// conversation is recalled.
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

// adopt takes up what is known of the conversation, if anything is.
func (p *Parser) adopt(first Hash) {
	p.recognition.known = p.recognition.recall(first)
	if p.recognition.known == nil || p.recognition.known.format != p.View.Format {
		p.recognition.known = nil
		return
	}
	// Room for what is known and a little more, tools and system in front.
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

// recallMessage recognises message i at b[at] and returns the index behind it,
// or 0.
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

// take appends known messages and their blocks, which now stand at b[at].
func (p *Parser) take(known []Message, at int) {
	k, blocks, messages := p.recognition.known, len(p.Blocks), len(p.View.Messages)
	first := known[0].First
	p.Blocks = append(p.Blocks, k.blocks[first:known[len(known)-1].End]...)
	p.View.Messages = append(p.View.Messages, known...)
	p.View.Recalled += len(p.Blocks) - blocks
	if by := int32(at) - known[0].Span.Start; by != 0 {
		move(p.Blocks[blocks:], by)
		for i := range known {
			m := &p.View.Messages[messages+i]
			m.Span, m.Content = m.Span.Shift(by), m.Content.Shift(by)
		}
	}
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

// recognition is how a parser recognises a conversation, and has it recognised later.
type recognition struct {
	recall    func(Hash) *Known
	known     *Known   // what was recalled
	raw       []uint64 // seeded hash of each message's bytes
	runs      []run    // and those of each whole run
	firstTurn int      // messages in front of the first answer
	grown     bool     // the last message has grown since it was hashed
}
