// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// refusal is what upstreams have refused of an exchange and of its conversation before.
type refusal struct {
	// off are the kinds of edits that the exchange goes without.
	off wire.EditKinds
	// sent are the kinds that were taken out of the request when it was rejected.
	sent wire.EditKinds
	// refused are the kinds that the conversation goes without from here on.
	refused wire.EditKinds
	// accepted reports that the upstream took the request without its edits.
	accepted bool
}

// Without returns the kinds of edits that the exchange goes without because the upstream
// has refused them.
func (x *Exchange) Without() wire.EditKinds { return x.refusal.off }

// Rejected notes that the upstream refused the request. Body is then what to send in its
// place: the client's original, or, where earlier thinking has seen edits and is bound to
// them, the request with those alone. [Exchange.Accepted] or [Exchange.Cleared] is to
// follow once the upstream's answer to that is known.
func (x *Exchange) Rejected() {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	before := x.Prompt.held(x.req)
	x.req.keep(x.standing.match)
	x.req.withdraw(x.standing.match)
	x.req.marking.long, x.req.offer.tools = false, nil
	x.change.deep = true // what was estimated is not what was sent
	x.Prompt.again(x.req)
	x.refusal.sent = 0
	for kind, n := range x.Prompt.held(x.req) {
		if n < before[kind] { // else it goes out once more
			x.refusal.sent |= 1 << kind
		}
	}
}

// Accepted notes, after Rejected, that the upstream took the request without its edits: the
// conversation goes without their kinds from here on. Also are the kinds of edits that were
// made outside of the pipeline. It returns all of them.
func (x *Exchange) Accepted(also wire.EditKinds) wire.EditKinds {
	x.refusal.accepted = true
	x.refusal.refused |= x.refusal.sent | also
	return x.refusal.sent | also
}

// Cleared notes, after Rejected, that the upstream refused the request without its edits,
// too, or that nothing is known: the conversation is edited as before.
func (x *Exchange) Cleared() { x.refusal.sent = 0 }

// held counts the edits that a prompt goes out with, by kind.
func (p *Prompt) held(r *request) (n [3]int) {
	if !p.Edited {
		return n
	}
	for _, f := range p.Fired {
		kind := 2 // wire.EditText
		switch f.Stage {
		case stage.Breakpoints:
			kind = 1
		case stage.Expand, stage.Tools:
			kind = 0
		}
		n[kind] += f.Count
	}
	if r.marking.long {
		n[1]++
	}
	return n
}

// bound reports whether thinking in the request is bound to what earlier requests were
// sent with: without those edits it would be refused as well.
func (r *request) bound(m sessioncache.Match) bool {
	if !r.rules.BindsThinking || m.Lineage == nil || m.Lineage.Observed {
		return false
	}
	for i := range r.Blocks {
		if content.IsThinking(&r.Blocks[i]) {
			return true
		}
	}
	return false
}

// freeze has the conversation go without the edits that the upstream has refused. The
// session is locked.
func (x *Exchange) freeze() {
	l := x.standing.match.Lineage
	if l == nil || !x.refusal.accepted {
		return
	}
	x.req.session.Refused(x.req.View)
	l.Refused |= x.refusal.refused
	if x.req.bound(x.standing.match) {
		return
	}
	text, tools := x.refusal.refused.Has(wire.EditText), x.refusal.refused.Has(wire.EditTools)
	for i := range l.States {
		s := &l.States[i]
		if e := s.Edit; e != nil && (e.Stage == stage.Expand && tools || e.Stage != stage.Expand && text) {
			s.Edit = nil
		}
		if tools {
			s.Inserted = nil
		}
	}
	l.Expand = l.Expand && !tools
}

// Abandon notes that the answer failed or was cut off. Nothing is remembered, except that
// a conversation in which edits were refused goes without them, and that a call held a mark.
func (x *Exchange) Abandon() {
	if !x.refusal.accepted && !x.Interceptor.copied {
		return
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if l := x.standing.match.Lineage; l != nil {
		l.Copied = x.Interceptor.copied
		x.freeze()
		return
	}
	l := x.req.session.Commit(x.standing.match, x.req.View, x.req.States)
	l.Refused, l.Copied = x.refusal.refused, x.Interceptor.copied
	l.Created, l.Started, l.Model = x.start, x.start, x.req.View.Model
}
