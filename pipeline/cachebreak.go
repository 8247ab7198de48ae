// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Break is the reason why the upstream's cache did not hold what it was expected
// to hold of a conversation.
type Break string

// The reasons. The first that applies counts, in this order, except that an edit
// of ours and new messages are kept apart by which of them stands in front.
const (
	// NoBreak: the cache held what was expected.
	NoBreak Break = ""
	// BreakExpired: the lifetime had passed since the last request.
	BreakExpired Break = "expired"
	// BreakModel: the client asked for another model.
	BreakModel Break = "model"
	// BreakTools: the client changed the definitions of its tools.
	BreakTools Break = "tools"
	// BreakSystem: the client changed the system prompt.
	BreakSystem Break = "system"
	// BreakMessages: the client wrote earlier messages anew.
	BreakMessages Break = "messages"
	// BreakServerEdit: the provider itself left other parts of the history out than
	// before, as the client asked it to, or summed it up.
	BreakServerEdit Break = "server_edit"
	// BreakEdit: an edit of ours changed what had been sent.
	BreakEdit Break = "edit"
	// BreakUnknown: nothing that can be seen from here.
	BreakUnknown Break = "unknown"
)

// held is the share of the last prompt that has to be found again for the cache
// to count as whole: usage is reported in steps, and the last block of a prompt
// may not have been cached.
const held = 0.7

// attribute says why a request found less in the cache than the last request of
// its lineage left there. It compares the usage reported with the last one, and
// the request with what is remembered of the last.
func (x *Exchange) attribute(u wire.Usage, t *wire.Turn) Break {
	left, cause := x.standing.before.left, x.standing.before.cause
	if u.Prompt() == 0 || left < int64(max(x.req.rules.MinTokens, 1)) || float64(u.Read) >= held*float64(left) {
		return NoBreak
	}
	if (cause == BreakEdit || cause == BreakMessages || cause == BreakUnknown) && x.cutByServer(t) {
		return BreakServerEdit
	}
	return cause
}

// cutByServer reports whether the provider has cut the history otherwise than in the
// request before: what stands behind the cut was not to be found, whatever was sent.
func (x *Exchange) cutByServer(t *wire.Turn) bool {
	return t.Compacted || t.Cleared != (wire.Cleared{}) && t.Cleared != x.cleared()
}

// cleared is what the provider had left out of the request before.
func (x *Exchange) cleared() wire.Cleared {
	c, l := x.standing.before.cleared, x.standing.match.Lineage
	if x.standing.lineage == nil && l != nil {
		c = l.Cleared
	}
	return c
}

// left says what the last request of a lineage has left in the cache, and the
// reason for it if this one does not find it there.
func (x *Exchange) left(prev *sessioncache.Lineage) (left int64, cause Break) {
	if x.req.View.Conversation.Partial {
		return 0, NoBreak
	}
	left = prev.Last.Prompt()
	if prev.Last.Read+prev.Last.Write5m+prev.Last.Write1h > 0 {
		left -= prev.Last.Uncached // behind the last marker
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
	case x.change.deep && x.Prompt.Edited && x.change.broken <= x.standing.match.Common:
		return left, BreakEdit
	case x.standing.match.Common < prev.Len():
		return left, BreakMessages
	}
	return left, BreakUnknown
}

// Vanished tells, once the exchange is committed, that nothing of what the
// upstream must have had in its cache was there, and that it cannot be seen from
// here why: it was restarted, or its model was unloaded.
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
	// overrun is the share by which a fold may turn out dearer than planned
	// before the planner grows more careful in that lineage.
	overrun = 0.25
	// maxCaution bounds that.
	maxCaution = 8
)

// learnCost compares what a fold has cost with what was planned. A lineage in
// which a fold turned out dearer counts on fewer requests to come, and on more to
// be written again, until folds cost what is planned once more.
func (x *Exchange) learnCost(l *sessioncache.Lineage, u wire.Usage) {
	d := &x.Decision
	if d.Folded == 0 || d.Rewritten == 0 || x.Policy == Observe || !u.Reported {
		return
	}
	planned := float64(d.Rewritten + x.req.session.Calibration.Tokens(&x.sizing.grown))
	dearer := float64(u.Prompt()-u.Read)/max(planned, 1) - 1
	switch {
	case dearer > overrun:
		l.Caution = min(max(l.Caution, 1)*(1+dearer), maxCaution)
	case l.Caution > 1:
		l.Caution = max(1, l.Caution/2)
	}
}
