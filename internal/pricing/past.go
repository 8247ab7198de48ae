// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Providers that bind thinking sign the content before a block into its signature, so that they need no memory to
// check it. The simulator cannot read signatures, and remembers that content instead. It has two parts: the blocks
// that are not thinking must be the same, and of the thinking a run at the start may be missing. All the thinking of a
// request is thus an unbroken run, and removed thinking stays away from all later blocks.

// history is the state of a walk along a request.
type history struct {
	blocks wire.Hash // chain over the blocks that are not thinking
	last   wire.Hash // the last thinking block, zero if there was none
	count  int32     // number of thinking blocks
}

// endsLike reports whether a block with the past was may stand behind h: the same blocks, and a run of thinking
// with the same end.
func (h history) endsLike(was history) bool {
	return h.blocks == was.blocks && (h.count == 0 || h.last == was.last && h.count <= was.count)
}

// origin is the signed content of a thinking block.
type origin struct {
	before history
	block  wire.Hash
}

type signed struct {
	id   wire.Hash
	from origin
}

// request is an accepted request.
type request struct {
	messages int32
	end      history
}

const (
	recentRequests = 32
	maxOrigins     = 1 << 16
	// maxTwins bounds the blocks with one signature. A provider makes no two, but a simulated model may think the
	// same twice.
	maxTwins         = 64
	maxConversations = 256
)

// conversation is the past of one conversation.
type conversation struct {
	recent [recentRequests]request
	next   int
	blocks []wire.Hash // of the last request, without thinking
	used   uint64
}

// past is an account's memory of thinking.
type past struct {
	origins       map[wire.Hash][]origin
	conversations map[wire.Hash]*conversation
	clock         uint64
}

// found is the result of a check, kept if the request is accepted.
type found struct {
	conversation wire.Hash
	request      request
	blocks       []wire.Hash
	origins      []signed
	drop         []bool
}

// check compares the thinking of a request with its origins.
func (p *past) check(c Call, r Rules) (found, *APIError) {
	v := c.View
	manual := manualThinking(v)
	if !v.Traits().BindsThinking || r.Regime != Markers || !r.BindsThinking && !manual {
		return found{}, nil
	}
	f := found{conversation: conversationKey(c)}
	// A fixed thinking budget forbids edits of the open tool loop's thinking on every model.
	if manual && inToolLoop(v) {
		if err := p.unmodified(c); err != nil {
			return found{}, err
		}
	}
	drops := member(v, v.Reply.Thinking, "block_binding.prefix_mismatch_behavior") == "drop_block"
	f.blocks = make([]wire.Hash, 0, len(v.Blocks))
	var at, turn history // now, and at the start of the message
	message, conv := int32(-1), p.conversations[f.conversation]
	for i := range v.Blocks {
		b := &v.Blocks[i]
		if b.Has(wire.FlagDeferred) {
			continue
		}
		if b.Message != message {
			message, turn = b.Message, at
		}
		if !b.IsThinking() {
			at.blocks = link(at.blocks, b.Hash)
			f.blocks = append(f.blocks, b.Hash)
			continue
		}
		sig := signature(v, b)
		// Nothing binds thinking without a signature.
		if sig == "" {
			continue
		}
		id := hashOf(sig)
		if r.BindsThinking {
			from, ok := p.origin(id, at, turn, b, conv, c)
			if !ok && !drops {
				return found{}, f.mismatch(v, i, conv)
			}
			if !ok {
				// The client has asked for omission in place of an error.
				if f.drop == nil {
					f.drop = make([]bool, len(v.Blocks))
				}
				f.drop[i] = true
				continue
			}
			f.origins = append(f.origins, signed{id, from})
		} else {
			f.origins = append(f.origins, signed{id, origin{block: b.Hash}})
		}
		at.last, at.count = id, at.count+1
	}
	f.request = request{int32(len(v.Messages)), at}
	return f, nil
}

// origin returns the origin of a thinking block, and whether the block may stand behind at, in a message behind
// turn.
func (p *past) origin(id wire.Hash, at, turn history, b *wire.Block, conv *conversation, c Call) (origin, bool) {
	known := p.origins[id]
	here := false // the same blocks, but other thinking, before it
	for _, o := range known {
		if at.endsLike(o.before) {
			return o, true
		}
		here = here || at.blocks == o.before.blocks
	}
	asked := false
	if conv != nil && !here {
		for n := range recentRequests { // the latest first
			q := &conv.recent[(conv.next+recentRequests-1-n)%recentRequests]
			// The model wrote the block in answer to a request with as many messages as stand before the answer.
			if q.messages == 0 || q.messages != b.Message {
				continue
			}
			asked = true
			if !turn.endsLike(q.end) {
				continue
			}
			before := history{blocks: at.blocks, last: at.last, count: q.end.count + at.count - turn.count}
			if at.count == turn.count {
				before.last = q.end.last
			}
			// The view may have lost edited blocks of the same answer; the client's copy still has them.
			if c.Client != nil {
				before.blocks = answered(c.Client, int(b.Message), id, q.end.blocks, at.blocks)
			}
			return origin{before, b.Hash}, at.endsLike(before)
		}
	}
	// With no such request the conversation began elsewhere, and the block is taken at its word. If there was one
	// and none reads the same, the past has been changed.
	return origin{at, b.Hash}, !asked && len(known) == 0
}

// answered returns the chain up to a thinking block of an answer to a request that ends with asked, or otherwise if
// the client does not show the block.
func answered(client *wire.View, message int, id, asked, otherwise wire.Hash) wire.Hash {
	if message >= len(client.Messages) {
		return otherwise
	}
	msg := &client.Messages[message]
	for i := msg.First; i < msg.End; i++ {
		b := &client.Blocks[i]
		if !b.IsThinking() {
			asked = link(asked, b.Hash)
		} else if hashOf(signature(client, b)) == id {
			return asked
		}
	}
	return otherwise
}

// unmodified checks that the latest answer's thinking is unchanged or wholly absent.
func (p *past) unmodified(c Call) *APIError {
	v, m := c.View, lastAnswer(c.View)
	if m < 0 {
		return nil
	}
	refused := func(i int32) *APIError {
		return invalidf("%s: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "+
			"These blocks must remain as they were in the original response.", path(v, int(i)))
	}
	sent := thinkingOf(v, m)
	for _, i := range sent {
		b := &v.Blocks[i]
		for _, o := range p.origins[hashOf(signature(v, b))] {
			if o.block != b.Hash {
				return refused(i)
			}
		}
	}
	// All gone is allowed.
	if c.Client == nil || len(sent) == 0 || lastAnswer(c.Client) != m {
		return nil
	}
	wrote := thinkingOf(c.Client, m)
	for k, i := range sent {
		if k >= len(wrote) || v.Blocks[i].Hash != c.Client.Blocks[wrote[k]].Hash {
			return refused(i)
		}
	}
	// Removal of a part counts as a modification.
	if len(sent) < len(wrote) {
		return refused(sent[len(sent)-1])
	}
	return nil
}

func thinkingOf(v *wire.View, message int) []int32 {
	var blocks []int32
	msg := &v.Messages[message]
	for i := msg.First; i < msg.End; i++ {
		if v.Blocks[i].IsThinking() {
			blocks = append(blocks, i)
		}
	}
	return blocks
}

// mismatch words the refusal of a thinking block.
func (f *found) mismatch(v *wire.View, block int, conv *conversation) *APIError {
	text := path(v, block) + ": Invalid `signature` in `thinking` block. The block is bound to a different conversation." +
		" Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"." +
		" That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
	if conv == nil {
		return invalid(text)
	}
	// The API names the first changed block, so count the blocks in common with the last request.
	n := 0
	for n < len(f.blocks) && n < len(conv.blocks) && f.blocks[n] == conv.blocks[n] {
		n++
	}
	for i := range v.Blocks[:block] {
		if b := &v.Blocks[i]; b.IsThinking() || b.Has(wire.FlagDeferred) {
			continue
		}
		if n == 0 {
			return invalid(text + " Content before this block differs from when it was created, first at `" + path(v, i) + "`.")
		}
		n--
	}
	return invalid(text)
}

func (p *past) accept(f found) {
	if f.blocks == nil {
		return // nothing was checked
	}
	if p.conversations == nil {
		p.conversations = make(map[wire.Hash]*conversation)
	}
	// Without origins, signatures are checked against recent requests only.
	if p.origins == nil || len(p.origins) > maxOrigins {
		p.origins = make(map[wire.Hash][]origin)
	}
	for _, s := range f.origins {
		of := p.origins[s.id]
		if slices.Contains(of, s.from) {
			continue
		}
		if len(of) == maxTwins {
			of = slices.Delete(of, 0, 1)
		}
		p.origins[s.id] = append(of, s.from)
	}
	p.clock++
	conv := p.conversations[f.conversation]
	if conv == nil {
		if len(p.conversations) >= maxConversations {
			p.forget()
		}
		conv = new(conversation)
		p.conversations[f.conversation] = conv
	}
	conv.recent[conv.next] = f.request
	conv.next = (conv.next + 1) % recentRequests
	conv.blocks, conv.used = f.blocks, p.clock
}

func (p *past) forget() {
	var oldest wire.Hash
	first := true
	for k, c := range p.conversations {
		if first || c.used < p.conversations[oldest].used {
			oldest, first = k, false
		}
	}
	delete(p.conversations, oldest)
}

// conversationKey identifies a conversation.
func conversationKey(c Call) wire.Hash {
	if c.Conversation != "" {
		return hashOf("call", c.Conversation)
	}
	if c.View.Session != "" {
		return hashOf("body", c.View.Session)
	}
	// Without a name the first message identifies it.
	first := hashOf("first")
	msg := &c.View.Messages[0]
	for i := msg.First; i < msg.End; i++ {
		first = link(first, c.View.Blocks[i].Hash)
	}
	return first
}
