// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Prompt is the request to send upstream in place of the client's.
type Prompt struct {
	// Body is the body to send: the client's own bytes without edits, or under observe.
	Body []byte
	// Edited reports whether Body differs from the client's bytes.
	Edited bool
	// OriginalTokens and SentTokens are the estimated sizes of the client's prompt and of the
	// edited prompt. Under observe, SentTokens includes the edits that were only computed.
	OriginalTokens, SentTokens int
	// Fired lists the stages with edits, markers included.
	Fired []stage.Fired
	// Compressed sums up the compressed texts.
	Compressed Compressed
	// Applied sums up the blocks cleared in Body on the client's order. It is nil without an order,
	// or if the upstream carries it out.
	Applied *wire.Cleared
	// Markers is the number of cache markers added.
	Markers int
	// Err is the error of edits that could not be applied. Then Body contains only the edits that
	// the conversation is bound to.
	Err error

	edits  []wire.Edit // the edits of Body
	marked bool        // Body may hold stubs and notes
}

// make applies the edits of a request. If they contradict each other, it applies the committed ones
// as far as possible, and returns true.
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

// mark determines whether the edits may leave marks.
func (p *Prompt) mark(r *request) {
	p.marked = false
	for i := range r.States {
		p.marked = p.marked || marks(r.States[i].Edit)
	}
}

// reset removes every edit: the original is sent.
func (p *Prompt) reset(r *request) {
	p.Body, p.Edited, p.Fired, p.Markers, p.Compressed = r.View.Raw, false, nil, 0, Compressed{}
	p.Applied = nil
	p.SentTokens = p.OriginalTokens
}

// again makes the request to send after a rejection: the original, or the edits that the
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

// committed applies the edits that the conversation is bound to, after edits of a request
// contradicted each other. If the conversation's ledger is at fault, it applies only the
// declaration of the tool at the start of the prompt.
func (r *request) committed() ([]wire.Edit, []byte) {
	r.marking.long, r.offer.tools = false, nil
	for i := range r.ledger.fresh {
		r.undo(i)
	}
	// The original alone would break the cached prefix.
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

// fired counts the edits by stage.
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
