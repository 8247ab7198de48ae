// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Some clients (Codex's local compaction, Zed) omit their tools when they ask for a summary of the
// conversation. Tools are the first part of the prompt: without them, the cache finds no part of
// the conversation, and the longest prompt of all is read again. So the pipeline adds the tools
// again, and forbids calls.

// mostDefinitions limits the stored tools of a conversation, in bytes.
const mostDefinitions = 256 << 10

// fits is the share of the context window that the last prompt and its response may take. The rest
// is room for tools and a summary.
const fits = 0.9

// restoreTools adds the conversation's tools to a request for a summary, if the upstream's cache then
// finds the conversation.
func (r *request) restoreTools() {
	v, l := r.View, r.match.Lineage
	if len(l.Tools) == 0 || r.o.Policy == Observe || r.cached.cold || r.ledger.turned || l.Model != v.Model || r.match.Common < l.Len() {
		return
	}
	// The request has no tools, and may be given some.
	if v.OffersTools() || !v.Conversation.Thread.Empty() || v.Traits().NoCalls == "" || r.upstream.Traits().NoCalls == "" || !content.Compacts(v) {
		return
	}
	if _, system := l.Known().Front(); !sameBlocks(system, v.Blocks[:v.System]) {
		return
	}
	// The tools must not push the prompt over the context window.
	if w := r.rules.ContextWindow; w > 0 && float64(l.Last.Prompt()+l.Last.Output) > fits*float64(w) {
		return
	}
	r.offer.tools = l.Tools
	// The expand tool came last in the conversation's requests.
	if l.Expand {
		r.offer.tools = bytes.Join([][]byte{l.Tools[:len(l.Tools)-1], append(r.expandDefinition(), ']')}, []byte(","))
	}
}

// definitions returns the tools to store with a conversation: the request's, or the stored ones if
// the request has none. It copies them only after a change. The session is locked.
func definitions(v *wire.View, before *sessioncache.Lineage) []byte {
	if v.Tools == 0 || v.Conversation.Partial {
		if before == nil {
			return nil
		}
		return before.Tools
	}
	last := v.Tools - 1
	span := rawjson.Span{Start: v.Blocks[0].Span.Start, End: v.Blocks[last].Span.End}
	if v.Traits().NoCalls == "" || span.Len() > mostDefinitions {
		return nil
	}
	if before != nil && before.Tools != nil {
		if tools, _ := before.Known().Front(); sameBlocks(tools, v.Blocks[:v.Tools]) {
			return before.Tools
		}
	}
	out := append(make([]byte, 0, span.Len()+2), '[')
	return append(append(out, v.Bytes(span)...), ']')
}
