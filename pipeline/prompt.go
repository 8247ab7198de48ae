// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Prompt is what goes upstream in the place of a client's request.
type Prompt struct {
	// Body is what to send upstream: the client's own bytes where nothing was
	// edited, or where the policy only observes.
	Body []byte
	// Edited reports whether Body differs from the client's bytes.
	Edited bool
	// OriginalTokens and SentTokens are estimates of the prompt as the client
	// sent it and as the policy would have it. Where the policy only observes,
	// SentTokens is what would have been sent.
	OriginalTokens, SentTokens int
	// Fired are the stages that did something, markers included.
	Fired []stage.Fired
	// Compressed is what words that were left out come to.
	Compressed Compressed
	// Applied is what is cleared in Body because the client has ordered it, nil where
	// it has not, or where that is the upstream's to do.
	Applied *wire.Cleared
	// Markers is the number of cache markers added.
	Markers int
	// Err is set when the edits could not be applied, and so none were but those
	// that the conversation is bound to.
	Err error

	edits  []wire.Edit // that Body was made by
	marked bool        // Body may hold stubs and notes
}

// make applies the edits of a request. Where they contradict each other, it applies
// as much as can be of what the conversation is bound to, and reports that.
func (p *Prompt) make(r *request, markers []wire.Edit) (impossible bool) {
	p.Markers, p.Fired = len(markers), fired(r, len(markers))
	edits := r.edits(markers)
	if len(edits) == 0 && !r.marking.long && r.offer.tools == nil || r.o.Policy == Observe {
		return false
	}
	body, err := r.View.Splice(edits)
	if err == nil {
		body, err = r.lengthenAuto(body)
	}
	if err == nil {
		body, err = r.redefined(body)
	}
	if err != nil {
		p.Err, impossible = err, true
		p.reset(r)
		if edits, body = r.committed(); edits == nil {
			return true
		}
		p.Fired = fired(r, 0)
	}
	p.Body, p.Edited, p.edits = body, !bytes.Equal(body, r.View.Raw), edits
	p.mark(r)
	return impossible
}

// mark notes whether the edits may leave marks.
func (p *Prompt) mark(r *request) {
	p.marked = false
	for i := range r.States {
		p.marked = p.marked || marks(r.States[i].Edit)
	}
}

// reset takes every edit out: the original is sent.
func (p *Prompt) reset(r *request) {
	p.Body, p.Edited, p.Fired, p.Markers, p.Compressed = r.View.Raw, false, nil, 0, Compressed{}
	p.Applied = nil
	p.SentTokens = p.OriginalTokens
}

// again makes what is sent after a rejection: the original, or what the
// conversation is bound to.
func (p *Prompt) again(r *request) {
	p.reset(r)
	if edits := r.edits(nil); len(edits) > 0 {
		if body, err := r.View.Splice(edits); err == nil {
			p.Body, p.Edited, p.Fired, p.edits = body, true, fired(r, 0), edits
			p.mark(r)
		}
	}
}

// committed applies as much as can be of what the conversation is bound to, where
// the edits of a request contradict each other: its ledger, or, if the fault is in
// that, no more than the tool that its prompts begin with. The original alone would
// break the prefix.
func (r *request) committed() ([]wire.Edit, []byte) {
	r.marking.long, r.offer.tools = false, nil
	for i := range r.ledger.fresh {
		r.undo(i)
	}
	for range 2 {
		edits := r.edits(nil)
		if len(edits) == 0 {
			break
		}
		if body, err := r.View.Splice(edits); err == nil {
			return edits, body
		}
		for i := range r.States {
			r.States[i].Edit, r.States[i].Inserted = nil, nil
		}
	}
	r.offer.expand = expandNone
	return nil, nil
}

// fired counts edits by stage.
func fired(r *request, markers int) []stage.Fired {
	var t stage.Tally
	t.Add(stage.Breakpoints, markers, 0)
	if r.offer.expand == expandDeclared {
		t.Add(stage.Expand, 1, 0)
	}
	if r.offer.tools != nil {
		t.Add(stage.Tools, 1, -r.session.Calibration.PerByte(wire.KindToolDef)*float64(len(r.offer.tools)))
	}
	for i := range r.States {
		if r.States[i].Inserted != nil {
			t.Add(stage.Expand, 1, 0)
		}
		if e := r.States[i].Edit; e != nil {
			t.Edit(e, &r.Blocks[i], &r.session.Calibration)
		}
	}
	return t.Fired()
}
