// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// refusal holds the edits that the upstream has refused in an exchange and in its conversation.
type refusal struct {
	// sent are the kinds that were removed after a rejection.
	sent wire.EditKinds
	// refused are the kinds that the conversation goes without from now on.
	refused wire.EditKinds
	// accepted reports that the upstream accepted the request without its edits.
	accepted bool
}

// Without returns the kinds of edits that the exchange goes without after refusals.
func (x *Exchange) Without() wire.EditKinds { return x.req.off }

// Rejected reports that the upstream refused the request, and sets Body to the next request: the
// client's original, or the edits that bound thinking has seen. [Exchange.Accepted] or
// [Exchange.Cleared] must follow after the upstream's response to it.
func (x *Exchange) Rejected() {
	r := &x.req
	r.session.Lock()
	defer r.session.Unlock()
	before := r.heldKinds()
	r.revertText()
	r.revertTools()
	r.marking.long, r.offer.tools = false, nil
	r.change.deep = true // the estimate does not match the sent prompt
	r.reset()
	if edits := r.edits(nil); len(edits) > 0 {
		if body, err := r.View.Splice(edits); err == nil {
			r.send(edits, body)
			r.prompt.Fired = r.fired(0)
		}
	}
	x.refusal.sent = 0
	for kind, n := range r.heldKinds() {
		if n < before[kind] { // otherwise the edit is sent again, bound to thinking
			x.refusal.sent |= 1 << kind
		}
	}
}

// Accepted reports, after Rejected, that the upstream accepted the request without its edits. The
// conversation goes without these kinds from now on. also are kinds of edits made outside the
// pipeline. It returns all of them.
func (x *Exchange) Accepted(also wire.EditKinds) wire.EditKinds {
	x.refusal.accepted = true
	x.refusal.refused |= x.refusal.sent | also
	return x.refusal.sent | also
}

// Cleared reports, after Rejected, that the upstream also refused the request without edits, or
// that its response is unknown. The conversation is edited as before.
func (x *Exchange) Cleared() { x.refusal.sent = 0 }

// heldKinds counts the edits of the prompt to send, by kind.
func (r *request) heldKinds() (n [3]int) {
	if !r.prompt.Edited {
		return n
	}
	for _, f := range r.prompt.Fired {
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

// withdraw reverts edits that the conversation has committed to but the request must go without.
func (r *request) withdraw() {
	kinds := r.refused
	switch {
	case r.mode == retained:
		// The provider has the history as it was sent.
		kinds = wire.EditText | wire.EditTools
	case r.match.Lineage == nil:
		// A conversation keeps its tool even where later requests make no such edits.
		kinds = r.off & wire.EditTools
	}
	if kinds.Has(wire.EditText) {
		r.revertText()
	}
	if kinds.Has(wire.EditTools) {
		r.revertTools()
	}
}

// revertText reverts every edit, except those that bound thinking has seen: the original would be
// refused as well.
func (r *request) revertText() {
	seen := r.bound()
	for i := range r.States {
		if _, made := r.ledger.fresh[i]; made {
			r.undo(i)
		}
		// Known counts the blocks of the last request when this one began. The conversation may
		// have continued since, here or in another process.
		if e := r.States[i].Edit; !seen || i >= r.Known && (e == nil || e.Stage != stage.Expand) {
			r.States[i].Edit = nil
		}
	}
	r.ledger.fresh = nil
}

// revertTools removes the tool and all intercepted calls from the request, unless thinking is bound
// to them.
func (r *request) revertTools() {
	if r.bound() {
		if !r.match.Lineage.Expand {
			r.offer.expand = expandNone
		}
		return
	}
	r.offer.expand = expandNone
	for i := range r.States {
		r.States[i].Inserted = nil
	}
}

// bound reports whether thinking in the request is bound to the edits of earlier requests. Without
// them, the provider would refuse it as well.
func (r *request) bound() bool {
	if l := r.match.Lineage; !r.rules.BindsThinking || l == nil || l.Observed {
		return false
	}
	for i := range r.Blocks {
		if content.IsThinking(&r.Blocks[i]) {
			return true
		}
	}
	return false
}

// freeze removes the refused kinds of edits from the conversation. The session is locked.
func (x *Exchange) freeze() {
	l := x.req.match.Lineage
	if l == nil || !x.refusal.accepted {
		return
	}
	x.req.session.Refused(x.req.View)
	l.Refused |= x.refusal.refused
	if x.req.bound() {
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

// Abandon reports that the response failed or was cut off. It stores nothing, except refused kinds
// of edits and calls with a mark.
func (x *Exchange) Abandon() {
	if !x.refusal.accepted && !x.Interceptor.copied {
		return
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if l := x.req.match.Lineage; l != nil {
		l.Copied = x.Interceptor.copied
		x.freeze()
		return
	}
	l := x.req.session.Commit(x.req.match, x.req.View, x.req.States)
	l.Refused, l.Copied = x.refusal.refused, x.Interceptor.copied
	l.Created, l.Started, l.Model = x.req.start, x.req.start, x.req.View.Model
}
