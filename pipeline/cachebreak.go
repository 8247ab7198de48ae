// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Break is the reason why the upstream's cache held less of a conversation than expected.
type Break string

// The reasons, in order of precedence. Of an own edit and changed messages, the one earlier in the
// prompt counts.
const (
	// NoBreak: the cache held the expected prefix.
	NoBreak Break = ""
	// BreakExpired: the lifetime has passed since the last request.
	BreakExpired Break = "expired"
	// BreakModel: the client requested another model.
	BreakModel Break = "model"
	// BreakTools: the client changed its tool definitions.
	BreakTools Break = "tools"
	// BreakSystem: the client changed the system prompt.
	BreakSystem Break = "system"
	// BreakMessages: the client rewrote earlier messages.
	BreakMessages Break = "messages"
	// BreakServerEdit: the provider cleared other parts of the history than before, on the client's
	// order, or summarized it.
	BreakServerEdit Break = "server_edit"
	// BreakEdit: an edit of the pipeline changed blocks that had been sent.
	BreakEdit Break = "edit"
	// BreakUnknown: no reason visible from here.
	BreakUnknown Break = "unknown"
)

// held is the share of the last prompt that must be read from the cache for it to count as whole.
// Providers report usage in steps, and the last block may not have been cached.
const held = 0.7

// attribute returns the reason why a request read less from the cache than the conversation's last
// request left there. It compares usage and request with those of the last request.
func (x *Exchange) attribute(u wire.Usage, t *wire.Turn) Break {
	left, cause := x.before.left, x.before.cause
	if u.Prompt() == 0 || left < int64(max(x.req.rules.MinTokens, 1)) || float64(u.Read) >= held*float64(left) {
		return NoBreak
	}
	// A cut by the provider takes precedence over these reasons.
	if (cause == BreakEdit || cause == BreakMessages || cause == BreakUnknown) && x.cutByServer(t) {
		return BreakServerEdit
	}
	return cause
}

// observe notes what a usage tells of the cache of a model whose rules are assumed.
func (x *Exchange) observe(u wire.Usage) {
	if x.req.rules.AssumedFrom == "" || !u.Reported {
		return
	}
	b := &x.before
	s := pricing.Sighting{Held: u.Read + u.Write5m + u.Write1h}
	// A long lifetime that was asked for says nothing of the usual one.
	if prev := x.req.match.Lineage; b.continued && prev != nil && prev.TTL <= x.req.rules.TTL && (b.cause == BreakUnknown || b.cause == BreakExpired) {
		s.Left, s.Found, s.Pause = b.left, u.Read, b.pause
	}
	x.req.rules.Observe(s)
}

// cutByServer reports whether the provider cut the history differently than in the last request.
// The cache cannot hold the blocks after such a cut.
func (x *Exchange) cutByServer(t *wire.Turn) bool {
	return t.Compacted || t.Cleared != (wire.Cleared{}) && t.Cleared != x.cleared()
}

// cleared returns the parts that the provider cleared from the last request.
func (x *Exchange) cleared() wire.Cleared {
	c, l := x.before.cleared, x.req.match.Lineage
	if x.lineage == nil && l != nil {
		c = l.Cleared
	}
	return c
}

// left returns the tokens that the last request left in the cache, and the reason if this request
// does not find them.
func (x *Exchange) left(prev *sessioncache.Lineage) (left int64, cause Break) {
	if x.req.View.Conversation.Partial {
		return 0, NoBreak
	}
	left = prev.Last.Prompt()
	if prev.Last.Read+prev.Last.Write5m+prev.Last.Write1h > 0 {
		left -= prev.Last.Uncached // the tokens after the last marker
	}
	tools, system := prev.Known().Front()
	v := x.req.View
	switch {
	case x.req.cached.cold:
		return left, BreakExpired
	case prev.Model != v.Model:
		return left, BreakModel
	case !sameBlocks(tools, v.Blocks[:v.Tools]):
		return left, BreakTools
	case !sameBlocks(system, v.Blocks[v.Tools:v.System]):
		return left, BreakSystem
	case x.req.change.deep && x.Prompt.Edited && x.req.change.broken <= x.req.match.Common:
		return left, BreakEdit
	case x.req.match.Common < prev.Len():
		return left, BreakMessages
	}
	return left, BreakUnknown
}

// Vanished reports, after Commit, that the upstream's cache was lost for no visible reason. The
// server was restarted, or its model was unloaded.
func (x *Exchange) Vanished(t *wire.Turn) bool {
	return x.Lesson.Break == BreakUnknown && x.req.rules.Regime == pricing.KV && t.Usage.Read == 0
}

func sameBlocks(a, b []wire.Block) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Hash != b[i].Hash {
			return false
		}
	}
	return true
}

const (
	// overrun is the share by which a fold may exceed its planned cost before the planner becomes
	// more careful in the conversation.
	overrun = 0.25
	// maxCaution limits the caution.
	maxCaution = 8
)

// learnCost compares the cost of a fold with the plan. After a fold that cost more, the planner
// expects fewer further requests and more tokens to write again, until folds cost as planned.
func (x *Exchange) learnCost(l *sessioncache.Lineage, u wire.Usage) {
	d := &x.Decision
	if d.Folded == 0 || d.Rewritten == 0 || x.Policy == Observe || !u.Reported {
		return
	}
	planned := float64(d.Rewritten + x.req.session.Calibration.Tokens(&x.req.sizing.grown))
	dearer := float64(u.Prompt()-u.Read)/max(planned, 1) - 1
	switch {
	case dearer > overrun:
		l.Caution = min(max(l.Caution, 1)*(1+dearer), maxCaution)
	case l.Caution > 1:
		l.Caution = max(1, l.Caution/2)
	}
}
