// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
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

// sizing holds the sizes of a prompt by kinds of blocks, with their estimates.
type sizing struct {
	sent     sessioncache.Sizes // the sent prompt
	grown    sessioncache.Sizes // its new blocks
	estimate int                // the sent prompt in tokens, before correction
	original int                // the client's prompt in tokens, before correction
}

// estimate estimates the lengths of the client's prompt and of the sent prompt, and sums up edits
// whose saving is told in tokens.
func (r *request) estimate() {
	var original sessioncache.Sizes
	s, p, l := &r.sizing, r.prompt, r.match.Lineage
	*s = sizing{}
	for i := range r.View.Blocks {
		b := &r.View.Blocks[i]
		n := b.Span.Len()
		original[b.Kind] += n
		if j := i - r.View.System; j >= 0 {
			switch e := r.States[j].Edit; {
			case e == nil:
			case e.Op == wire.OpRemove:
				n = 0
			default:
				n += len(e.Value) - b.Body.Len()
			}
			if j >= r.Known {
				s.grown[b.Kind] += n
			}
			if w := r.States[j].Inserted; w != nil {
				s.sent[wire.KindToolResult] += w.Size()
				if j >= r.Known {
					s.grown[wire.KindToolResult] += w.Size()
				}
			}
		}
		s.sent[b.Kind] += n
	}
	if r.offer.expand == expandDeclared {
		s.sent[wire.KindToolDef] += len(r.expandDefinition())
	}
	s.sent[wire.KindToolDef] += len(r.offer.tools)
	calibration, rate := &r.session.Calibration, returnRate(l)
	s.estimate, s.original = calibration.Tokens(&s.sent), calibration.Tokens(&original)
	p.SentTokens, p.OriginalTokens = int(rate*float64(s.estimate)), int(rate*float64(s.original))
	if r.mode == retained && l != nil && l.Last.Prompt() > 0 {
		// The request contains only its end: the last prompt, the response and the new blocks make
		// up the whole prompt.
		var more sessioncache.Sizes
		for i := range r.Blocks {
			more[r.Blocks[i].Kind] += r.Blocks[i].Span.Len()
		}
		p.SentTokens = int(l.Last.Prompt()+l.Last.Output) + calibration.Tokens(&more)
		p.OriginalTokens = p.SentTokens + l.Less
	}
	if r.p.Compress != nil {
		p.Compressed = r.compressed()
	}
	if r.orders.ours {
		p.Applied = r.applied()
	}
}

// estimator converts bytes of a conversation to tokens.
type estimator struct {
	calibration *sessioncache.Calibration
	rate        float64
}

// newEstimator returns the estimator of a conversation, l nil for a new one. The session must be
// locked during its use.
func newEstimator(c *sessioncache.Calibration, l *sessioncache.Lineage) estimator {
	return estimator{c, returnRate(l)}
}

// Tokens estimates the tokens of some bytes in a kind of block.
func (e estimator) Tokens(k wire.Kind, bytes int) float64 {
	return e.rate * e.calibration.PerByte(k) * float64(bytes)
}

// returnRate corrects estimates by the actual size of the conversation's last prompt.
func returnRate(l *sessioncache.Lineage) float64 {
	if l == nil || l.Estimate == 0 || l.Last.Prompt() == 0 {
		return 1
	}
	return min(max(float64(l.Last.Prompt())/float64(l.Estimate), 0.25), 4)
}

// splice applies the edits of the request. If they contradict each other, it applies the committed
// ones as far as possible.
func (r *request) splice() {
	p := r.prompt
	p.Body, p.Markers, p.Fired = r.View.Raw, len(r.marking.added), r.fired(len(r.marking.added))
	r.change = change{broken: len(r.Blocks), settled: r.hot(), stake: r.marking.stake}
	for i := range r.ledger.fresh {
		r.change.deep = r.change.deep || i < r.cached.forwarded
		r.change.broken = min(r.change.broken, i)
	}
	if r.o.Policy == Observe {
		r.computed = p.Markers > 0 || r.marking.long || r.offer.tools != nil || slices.ContainsFunc(r.States, func(s sessioncache.BlockState) bool { return s.Edit != nil })
		return
	}
	edits := r.edits(r.marking.added)
	if len(edits) == 0 && !r.marking.long && r.offer.tools == nil {
		return
	}
	body, err := r.View.Splice(edits)
	if err == nil && r.marking.long {
		body, err = r.lengthenAuto(body)
	}
	if err == nil && r.offer.tools != nil {
		body, err = wire.Patch(body, wire.Member{Name: "tools", Value: r.offer.tools}, wire.Member{Name: "tool_choice", Value: []byte(r.View.Traits().NoCalls)})
	}
	if err != nil {
		r.change.deep = true // the estimate does not match the sent prompt
		r.reset()
		p.Err = err
		if edits, body = r.committed(); edits == nil {
			return
		}
		p.Fired = r.fired(0)
	}
	r.send(edits, body)
}

// send makes a body with edits the one to send.
func (r *request) send(edits []wire.Edit, body []byte) {
	p := r.prompt
	p.Body, p.Edited, p.edits, p.marked = body, !bytes.Equal(body, r.View.Raw), edits, false
	for i := range r.States {
		p.marked = p.marked || marks(r.States[i].Edit)
	}
}

// edits returns all edits of the body: the ledger's, the markers, the intercepted calls, and the
// declaration of the expand tool.
func (r *request) edits(markers []wire.Edit) (edits []wire.Edit) {
	n := len(markers)
	for i := range r.States {
		if r.States[i].Edit != nil {
			n++
		}
	}
	if n > 0 {
		edits = make([]wire.Edit, 0, n+1)
	}
	for i := range r.States {
		if e := r.States[i].Edit; e != nil {
			edits = append(edits, wire.Edit{Block: r.View.System + i, Op: e.Op, Value: e.Value})
		}
	}
	if r.marking.long {
		edits = r.lengthened(edits)
	}
	edits = append(edits, markers...)
	for i := range r.States {
		if w := r.States[i].Inserted; w != nil {
			for _, in := range w.Inserts {
				edits = append(edits, wire.Edit{Block: r.View.System + i, Op: in.Op, Value: in.Value})
			}
		}
	}
	if r.offer.expand == expandDeclared {
		edits = append(edits, wire.Edit{Block: content.LastDefinition(r.View), Op: wire.OpAfter, Value: r.expandDefinition()})
	}
	return edits
}

// fired counts the edits by stage.
func (r *request) fired(markers int) []stage.Fired {
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

// reset makes the client's original the body to send.
func (r *request) reset() {
	*r.prompt = Prompt{Body: r.View.Raw, OriginalTokens: r.prompt.OriginalTokens, SentTokens: r.prompt.OriginalTokens, Err: r.prompt.Err}
}
