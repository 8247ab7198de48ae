// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Tools are the first part of the prompt, so with another order of the same tools the cache finds no part of
// the conversation. Some clients list their tools in a new order in each request, or insert those of an MCP
// server that connects late. The order means nothing to a model.

// orderTools sends the tools in the order of the conversation's last request, followed by new ones.
func (r *request) orderTools() {
	v := r.View
	// The overlay orders the tools of local servers.
	if r.o.Policy == Observe || r.rules.Regime == pricing.KV || r.cached.cold && !r.rules.BindsThinking ||
		!r.newTools() || !movable(v) {
		return
	}
	rest := make(map[wire.Hash]int32, v.Tools)
	for i := range v.Blocks[:v.Tools] {
		rest[v.Blocks[i].Hash] = int32(i)
	}
	if len(rest) < v.Tools {
		return // providers refuse a tool that is listed twice
	}
	sent := sentTools(r.match.Conversation)
	order := make([]int32, 0, v.Tools)
	found, common := 0, 0 // tools in common with the last request from the start on, in the new and the client's order
	for n, h := range sent {
		i, ok := rest[h]
		if !ok {
			continue
		}
		if len(order) == n {
			found++
		}
		if common == n && int(i) == n {
			common++
		}
		order = append(order, i)
		delete(rest, h)
	}
	if found == common {
		return // the cache finds no more of the new order
	}
	for i := range v.Blocks[:v.Tools] {
		if _, ok := rest[v.Blocks[i].Hash]; ok {
			order = append(order, int32(i))
		}
	}
	r.offer.order = order
}

// movable reports whether the tools are the elements of one array, and may be put in any order.
func movable(v *wire.View) bool {
	marked := 0
	for i := range v.Blocks[:v.Tools] {
		b := &v.Blocks[i]
		if !b.Marker.Empty() {
			marked++
		}
		if i > 0 && string(bytes.TrimSpace(v.Raw[v.Blocks[i-1].Span.End:b.Span.Start])) != "," {
			return false
		}
	}
	return marked <= 1 // markers of the long lifetime must come first
}

// sentTools returns the hashes of the tools of a conversation's last request, in the order sent.
func sentTools(l *sessioncache.Conversation) []wire.Hash {
	if l.Order != nil {
		return l.Order
	}
	tools, _ := l.Known().Prefix()
	return hashes(tools, nil)
}

// hashes returns the hashes of blocks in an order, nil for their own.
func hashes(blocks []wire.Block, order []int32) []wire.Hash {
	out := make([]wire.Hash, len(blocks))
	for i := range blocks {
		from := i
		if order != nil {
			from = int(order[i])
		}
		out[i] = blocks[from].Hash
	}
	return out
}

// newTools reports whether the request's tools, in the order in which they are sent, differ from those of the
// conversation's last request.
func (r *request) newTools() bool {
	known, _ := r.match.Conversation.Known().Prefix()
	last, now := r.match.Conversation.Order, r.View.Blocks[:r.View.Tools]
	if len(known) != len(now) {
		return true
	}
	for i := range now {
		h, from := &known[i].Hash, i
		if last != nil {
			h = &last[i]
		}
		if r.offer.order != nil {
			from = int(r.offer.order[i])
		}
		if now[from].Hash != *h {
			return true
		}
	}
	return false
}

// comparePrefix finds out whether the client has changed its tools or the system prompt.
func (r *request) comparePrefix() {
	v, l := r.View, r.match.Conversation
	known, system := l.Known().Prefix()
	// A local server gets the overlay's prefix.
	if r.rules.Regime == pricing.KV || l.Partial {
		return
	}
	// Side requests have fewer tools or none, and the cache may still hold the conversation before them.
	if v.Tools < len(known) || len(known) == 0 && v.Tools > 0 || len(system) == 0 && v.System > v.Tools {
		return
	}
	if r.newTools() || !sameSystem(l, v) {
		r.cached.replaced, r.ledger.broken = true, 0
	}
}

// sameSystem reports whether a request has the system prompt of the conversation's last request, and its system
// messages at the start.
func sameSystem(l *sessioncache.Conversation, v *wire.View) bool {
	_, system := l.Known().Prefix()
	if !sameBlocks(system, v.Blocks[v.Tools:v.System]) {
		return false
	}
	chain, blocks := l.Known().Chain(), v.MessageBlocks()
	n := wire.SystemMessages(blocks)
	return len(chain) >= n && sameBlocks(chain[:n], blocks[:n])
}

// definitions returns the tools to store with a conversation, in the order sent: the request's, or the stored
// ones if the request has none. It copies them only after a change. The session is locked.
func (r *request) definitions() []byte {
	v, before := r.View, r.match.Conversation
	if v.Tools == 0 || v.Conversation.Partial {
		if before == nil {
			return nil
		}
		return before.Tools
	}
	span := rawjson.Span{Start: v.Blocks[0].Span.Start, End: v.Blocks[v.Tools-1].Span.End}
	if v.Traits().NoCalls == "" || span.Len() > maxDefinitions {
		return nil
	}
	if before != nil && before.Tools != nil && !r.newTools() {
		return before.Tools
	}
	out := append(make([]byte, 0, span.Len()+2), '[')
	if r.offer.order == nil {
		return append(append(out, v.Bytes(span)...), ']')
	}
	for _, i := range r.offer.order {
		out = append(append(out, v.Bytes(v.Blocks[i].Span)...), ',')
	}
	out[len(out)-1] = ']'
	return out
}

// sentOrder returns the order of the tools to store with a conversation.
func (r *request) sentOrder() []wire.Hash {
	if r.offer.order == nil {
		return nil
	}
	return hashes(r.View.Blocks[:r.View.Tools], r.offer.order)
}
