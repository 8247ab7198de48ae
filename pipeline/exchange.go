// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Exchange is one request, from the decision about its edits to the end of its response. One
// goroutine at a time may call its methods.
type Exchange struct {
	// Prompt is the request to send.
	Prompt Prompt
	// Interceptor answers the intercepted calls.
	Interceptor Interceptor
	// Policy is the policy in force.
	Policy Policy
	// Decision says why history was edited or left alone.
	Decision planner.Decision
	// Lineage is the number of the conversation within its session, -1 for a new one before Commit.
	Lineage int
	// Lesson is set by Commit.
	Lesson Lesson

	req     request
	before  before                // the conversation before the exchange became part of it
	lineage *sessioncache.Lineage // set by Join or Commit
	account account
	refusal refusal
}

// Lesson holds the observations of a turn about its conversation.
type Lesson struct {
	// Break is the reason why the upstream's cache held less than expected, NoBreak if it did not.
	Break Break
	// Regret counts the signs of a missed fold.
	Regret missSigns
	// CutShort tells that the upstream has left a part of the prompt out.
	CutShort bool
}

// Claim makes new edits durable and visible to other processes before they are forwarded. Call it
// before sending the request. It returns false if another process has forwarded some of the blocks
// in another form; then the request needs a new decision.
func (x *Exchange) Claim(ctx context.Context, store *sessioncache.Store) bool {
	r := &x.req
	if !x.Prompt.Edited || r.off.Has(wire.EditText) || r.View.Conversation.Partial || !x.adds() {
		return true
	}
	return store.Claim(ctx, r.session, r.match, r.View, r.States, func(l *sessioncache.Lineage) {
		l.Observed, l.Diverged = false, true
		l.Model, l.Kind = r.View.Model, sessioncache.RequestKind(r.View)
		l.Expand = r.offer.keeps(l.Expand)
	})
}

// adds reports whether a request contains edits that its conversation has not committed to.
func (x *Exchange) adds() bool {
	r, l := &x.req, x.req.match.Lineage
	r.session.Lock()
	defer r.session.Unlock()
	if l == nil && r.offer.expand == expandDeclared {
		return true
	}
	for i := range r.States {
		s := &r.States[i]
		if s.Edit == nil && s.Inserted == nil {
			continue
		}
		if l == nil || i >= min(r.match.Common, len(l.States)) || l.States[i].Edit != s.Edit || l.States[i].Inserted != s.Inserted {
			return true
		}
	}
	return false
}

// OffersTools reports whether the model is offered any tool, including tools retained by the
// provider.
func (x *Exchange) OffersTools() bool {
	if v := x.req.View; v.OffersTools() || !v.InheritsTools() {
		return v.OffersTools()
	}
	l := x.req.match.Lineage
	// The start of a conversation that began elsewhere is unknown: assume tools.
	return l == nil || l.Partial || l.Kind>>16 > 0
}

// Summarizes reports whether the request asks for a summary of the conversation.
func (x *Exchange) Summarizes() bool { return x.req.View != nil && content.Compacts(x.req.View) }

// Continues returns the number of the conversation that the request continues, or false for a new
// one.
func (x *Exchange) Continues() (lineage int, ok bool) {
	if x.req.match.Lineage == nil {
		return 0, false
	}
	return x.req.match.Lineage.ID(), true
}

// Start is the start of the request, by the caller's clock.
func (x *Exchange) Start() time.Time { return x.req.start }

// Rules returns the cache rules in force for the request.
func (x *Exchange) Rules() pricing.Rules { return x.req.rules }

// History returns the conversation in the request, block by block, with the stored state of each
// block. It is valid until Commit.
func (x *Exchange) History() *content.History { return &x.req.History }

// Loops reports whether the request continues a run of tool calls.
func (x *Exchange) Loops() bool { return x.req.run.loop }

// charsPerToken is the approximate number of bytes per token in tools and system prompts.
const charsPerToken = 4

// Front returns the hash of the prefix that a new conversation shares with others, tools and system
// prompt, and its lifetime in the cache. It returns false if the provider does not cache that
// prefix separately.
func (x *Exchange) Front() (prefix wire.Hash, lifetime time.Duration, ok bool) {
	v, rules := x.req.View, &x.req.rules
	// Sub-agents that start together share the prefix; continued conversations have longer ones.
	if x.req.match.Lineage != nil || v.Conversation.Partial || !v.Conversation.Thread.Empty() || !v.OffersTools() || rules.TTL == 0 || rules.Read >= rules.Write {
		return prefix, 0, false
	}
	end := v.System
	// System messages at the start belong to the prefix.
	for end < len(v.Blocks) && v.Blocks[end].Role == wire.RoleSystem {
		end++
	}
	switch rules.Regime {
	case pricing.Markers, pricing.Breakpoints: // entries end at markers
		for end > 0 && !x.marked(end-1) {
			end--
		}
	case pricing.Automatic:
		if rules.Provider == "gemini" || rules.Provider == "vertex" { // these providers promise no entry
			return prefix, 0, false
		}
	default:
		return prefix, 0, false
	}
	h, size := sha256.New(), 0
	if rules.Regime != pricing.Markers {
		_, _ = h.Write([]byte(v.Session)) // prompt_cache_key: a cache does not share entries between keys
	}
	for i := range v.Blocks[:end] {
		_, _ = h.Write(v.Blocks[i].Hash[:])
		size += v.Blocks[i].Span.Len()
	}
	// The provider does not cache a prefix below its minimum.
	if size/charsPerToken < max(rules.MinTokens, 1) {
		return prefix, 0, false
	}
	copy(prefix[:], h.Sum(nil))
	return prefix, rules.TTL, true
}

// marked reports whether a block is sent with a marker.
func (x *Exchange) marked(i int) bool {
	return !x.req.View.Blocks[i].Marker.Empty() || slices.ContainsFunc(x.req.marking.added, func(e wire.Edit) bool { return e.Block == i })
}
