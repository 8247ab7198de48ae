// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Prompt is the request to send upstream in place of the client's.
type Prompt struct {
	// Body is the body to send: the client's own bytes without edits, or under observe.
	Body *wire.Body
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
	original := sessioncache.Sizes(r.View.Sizes())
	s, p, l := &r.sizing, r.prompt, r.match.Conversation
	*s = sizing{sent: original}
	for i := r.Known; i < len(r.Blocks); i++ {
		s.grown[r.Blocks[i].Kind] += r.Blocks[i].Span.Len()
	}
	r.listEntries()
	for _, at := range r.entries {
		i := int(at)
		more := r.Sent(i) - r.Blocks[i].Span.Len()
		inserted := 0
		if w := r.States[i].Inserted; w != nil {
			inserted = w.Size()
		}
		s.sent[r.Blocks[i].Kind] += more
		s.sent[wire.KindToolResult] += inserted
		if i >= r.Known {
			s.grown[r.Blocks[i].Kind] += more
			s.grown[wire.KindToolResult] += inserted
		}
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

// listEntries lists the blocks with an entry in the ledger. A known block had its entry before, or has
// a fresh edit.
func (r *request) listEntries() {
	known, _ := slices.BinarySearch(r.entries, int32(r.Known))
	entries := append(make([]int32, 0, known+len(r.ledger.fresh)+4), r.entries[:known]...)
	for i := range r.ledger.fresh {
		if i < r.Known {
			entries = append(entries, int32(i))
		}
	}
	if len(entries) > known {
		slices.Sort(entries)
		entries = slices.Compact(entries)
	}
	entries = slices.DeleteFunc(entries, func(i int32) bool { return !r.States[i].HasEntry() })
	for i := r.Known; i < len(r.States); i++ {
		if r.States[i].HasEntry() {
			entries = append(entries, int32(i))
		}
	}
	r.entries = entries
}

// estimator converts bytes of a conversation to tokens.
type estimator struct {
	calibration *sessioncache.Calibration
	rate        float64
}

// newEstimator returns the estimator of a conversation, l nil for a new one. The session must be
// locked during its use.
func newEstimator(c *sessioncache.Calibration, l *sessioncache.Conversation) estimator {
	return estimator{c, returnRate(l)}
}

// Tokens estimates the tokens of some bytes in a kind of block.
func (e estimator) Tokens(k wire.Kind, bytes int) float64 {
	return e.rate * e.calibration.PerByte(k) * float64(bytes)
}

// returnRate corrects estimates by the actual size of the conversation's last prompt.
func returnRate(l *sessioncache.Conversation) float64 {
	if l == nil || l.Estimate == 0 || l.Last.Prompt() == 0 {
		return 1
	}
	return min(max(float64(l.Last.Prompt())/float64(l.Estimate), 0.25), 4)
}

// splice applies the edits of the request. If they contradict each other, it applies the committed
// ones as far as possible.
func (r *request) splice() {
	p := r.prompt
	p.Body, p.Markers = &wire.Body{Raw: r.View.Raw}, len(r.marking.added)
	r.change = change{broken: len(r.Blocks), settled: r.hot(), stake: r.marking.stake}
	for i := range r.ledger.fresh {
		r.change.deep = r.change.deep || i < r.cached.forwarded
		r.change.broken = min(r.change.broken, i)
	}
	if r.o.Policy == Observe {
		p.Fired = r.fired(len(r.marking.added))
		r.computed = p.Markers > 0 || r.marking.long || r.offer.tools != nil ||
			slices.ContainsFunc(r.entries, func(i int32) bool { return r.States[i].Edit != nil })
		return
	}
	edits := r.edits(r.marking.added)
	if len(edits) == 0 && !r.marking.long && r.offer.tools == nil {
		return
	}
	p.Fired = r.fired(len(r.marking.added))
	body, err := r.View.Edited(edits)
	if err == nil && r.marking.long {
		body, err = r.lengthenAuto(body)
	}
	if err == nil && r.offer.tools != nil {
		body, err = patched(body, wire.Member{Name: "tools", Value: r.offer.tools},
			wire.Member{Name: "tool_choice", Value: []byte(r.View.Traits().NoCalls)})
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

// patched returns a body with changed members.
func patched(body *wire.Body, members ...wire.Member) (*wire.Body, error) {
	out, err := wire.Patch(body.Bytes(), members...)
	return &wire.Body{Raw: out}, err
}

// send makes a body with edits the one to send.
func (r *request) send(edits []wire.Edit, body *wire.Body) {
	p := r.prompt
	p.Body, p.Edited, p.edits, p.marked = body, !body.Equal(r.View.Raw), edits, false
	for _, i := range r.entries {
		p.marked = p.marked || marks(r.States[i].Edit)
	}
}

// editSlices recycles the edits of finished requests: a long conversation has hundreds.
var editSlices reuse.Slices[wire.Edit]

// edits returns all edits of the body: the ledger's, the markers, the intercepted calls, and the
// declaration of the expand tool.
func (r *request) edits(markers []wire.Edit) (edits []wire.Edit) {
	if n := len(markers) + len(r.entries); n > 0 {
		edits = editSlices.Make(n + 1)
	}
	for _, i := range r.entries {
		if e := r.States[i].Edit; e != nil {
			edits = append(edits, wire.Edit{Block: r.View.System + int(i), Op: e.Op, Value: e.Value})
		}
	}
	if r.marking.long {
		edits = r.lengthened(edits)
	}
	edits = append(edits, markers...)
	for _, i := range r.entries {
		if w := r.States[i].Inserted; w != nil {
			for _, in := range w.Inserts {
				edits = append(edits, wire.Edit{Block: r.View.System + int(i), Op: in.Op, Value: in.Value})
			}
		}
	}
	for to, from := range r.offer.order {
		if int(from) != to {
			edits = append(edits, wire.Edit{Block: to, Op: wire.OpPut, Value: r.View.Bytes(r.View.Blocks[from].Span)})
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
	if r.offer.order != nil {
		t.Add(stage.Tools, 1, 0)
	}
	for _, i := range r.entries {
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
func (r *request) committed() ([]wire.Edit, *wire.Body) {
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
		if body, err := r.View.Edited(edits); err == nil {
			return edits, body
		}
		for _, i := range r.entries {
			r.States[i].Edit, r.States[i].Inserted = nil, nil
		}
		r.offer.order = nil
	}
	r.offer.expand = expandNone
	return nil, nil
}

// reset makes the client's original the body to send.
func (r *request) reset() {
	*r.prompt = Prompt{
		Body: &wire.Body{Raw: r.View.Raw}, OriginalTokens: r.prompt.OriginalTokens, SentTokens: r.prompt.OriginalTokens,
		Err: r.prompt.Err,
	}
}

// ledger holds the edits that a request adds to its conversation's.
type ledger struct {
	// fresh holds the edits made in this request, by block: the value is the edit before. An edit
	// can be undone until the request is sent.
	fresh map[int]*sessioncache.Edit
	// broken is the first message that differs from the upstream's cache, because of a fresh edit
	// in it or in the results of its calls, or 0 after a change of the prefix.
	broken int32
	// turned reports that the conversation's edits were only computed so far and are sent from now
	// on, or the reverse.
	turned bool
}

// smallGain is the minimum saving, in bytes, of an edit that invalidates cached bytes. A smaller
// saving does not pay for writing the blocks after it again, at least the hot zone.
const smallGain = 320

// may reports whether the policy allows a new edit of a block now.
func (r *request) may(i int) bool {
	return r.o.Policy == Eager || r.anew(i)
}

// anew reports whether the upstream reads a block without its cache in any case.
func (r *request) anew(i int) bool {
	return i >= r.cached.forwarded || r.cached.cold || r.Blocks[i].Message >= r.ledger.broken
}

// firstMay returns the first block of which may holds: it holds of all blocks from there on.
func (r *request) firstMay() int {
	if r.o.Policy == Eager {
		return 0
	}
	return r.firstAnew()
}

// firstAnew is firstMay for anew.
func (r *request) firstAnew() int {
	i := len(r.Blocks)
	for i > 0 && r.anew(i-1) {
		i--
	}
	return i
}

// pays reports whether an edit with this saving is worth making now. With mode on, every edit is.
// With auto, a small edit waits until it is free.
func (r *request) pays(m stage.Mode, i, saving int) bool {
	return m == stage.On || saving >= smallGain || r.free(i)
}

// free reports whether an edit of a block invalidates no cached bytes: the block was never
// forwarded, the cache is cold, or an earlier edit broke the prefix.
func (r *request) free(i int) bool {
	return i >= r.Known || r.cached.cold || r.Blocks[i].Message >= r.ledger.broken
}

// set enters an edit of a block in the ledger.
func (r *request) set(i int, name string, op wire.Op, value []byte) {
	if r.ledger.fresh == nil {
		r.ledger.fresh = make(map[int]*sessioncache.Edit)
	}
	// undo restores the edit from before the request, not one made since.
	if _, again := r.ledger.fresh[i]; !again {
		r.ledger.fresh[i] = r.States[i].Edit
	}
	r.States[i].Edit = &sessioncache.Edit{Stage: name, Op: op, Value: value}
	message := r.Blocks[i].Message
	if r.Blocks[i].Kind == wire.KindToolResult && message > 0 {
		message-- // only calls stand between a result's message and this one
	}
	r.ledger.broken = min(r.ledger.broken, message)
}

// undo reverts a fresh edit.
func (r *request) undo(i int) {
	r.States[i].Edit = r.ledger.fresh[i]
	delete(r.ledger.fresh, i)
}

// refusal holds the edits that the upstream has refused in a transaction and in its conversation.
type refusal struct {
	// sent are the kinds that were removed after a rejection.
	sent wire.EditKinds
	// refused are the kinds that the conversation goes without from now on.
	refused wire.EditKinds
	// accepted reports that the upstream accepted the request without its edits.
	accepted bool
}

// Without returns the kinds of edits that the transaction goes without after refusals.
func (x *Transaction) Without() wire.EditKinds { return x.req.off }

// Rejected reports that the upstream refused the request, and sets Body to the next request: the
// client's original, or the edits that bound thinking has seen. [Transaction.Accepted] or
// [Transaction.Cleared] must follow after the upstream's response to it.
func (x *Transaction) Rejected() {
	r := &x.req
	r.session.Lock()
	defer r.session.Unlock()
	before := r.countKinds()
	r.revertText()
	r.revertTools()
	r.marking.long, r.offer.tools = false, nil
	r.change.deep = true // the estimate does not match the sent prompt
	r.reset()
	if edits := r.edits(nil); len(edits) > 0 {
		if body, err := r.View.Edited(edits); err == nil {
			r.send(edits, body)
			r.prompt.Fired = r.fired(0)
		}
	}
	x.refusal.sent = 0
	for kind, n := range r.countKinds() {
		if n < before[kind] { // otherwise the edit is sent again, bound to thinking
			x.refusal.sent |= 1 << kind
		}
	}
}

// Accepted reports, after Rejected, that the upstream accepted the request without its edits. The
// conversation goes without these kinds from now on. also are kinds of edits made outside the
// pipeline. It returns all of them.
func (x *Transaction) Accepted(also wire.EditKinds) wire.EditKinds {
	x.refusal.accepted = true
	x.refusal.refused |= x.refusal.sent | also
	return x.refusal.sent | also
}

// Cleared reports, after Rejected, that the upstream also refused the request without edits, or
// that its response is unknown. The conversation is edited as before.
func (x *Transaction) Cleared() { x.refusal.sent = 0 }

// countKinds counts the edits of the prompt to send, by kind.
func (r *request) countKinds() (n [3]int) {
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
	case r.match.Conversation == nil:
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
		if !r.match.Conversation.Expand {
			r.offer.expand = expandNone
		}
		return
	}
	r.offer.expand, r.offer.order = expandNone, nil
	for i := range r.States {
		r.States[i].Inserted = nil
	}
}

// bound reports whether thinking in the request is bound to the edits of earlier requests. Without
// them, the provider would refuse it as well.
func (r *request) bound() bool {
	if l := r.match.Conversation; !r.rules.BindsThinking || l == nil || l.Observed {
		return false
	}
	for i := range r.Blocks {
		if r.Blocks[i].IsThinking() {
			return true
		}
	}
	return false
}

// freeze removes the refused kinds of edits from the conversation. The session is locked.
func (x *Transaction) freeze() {
	l := x.req.match.Conversation
	if l == nil {
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
func (x *Transaction) Abandon() {
	if !x.refusal.accepted && !x.Answerer.copied {
		return
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if l := x.req.match.Conversation; l != nil {
		if l.Copied = x.Answerer.copied; x.refusal.accepted {
			x.freeze()
		}
		return
	}
	l := x.req.session.Commit(x.req.match, x.req.View, x.req.States)
	l.Refused, l.Copied = x.refusal.refused, x.Answerer.copied
	l.Created, l.Started, l.Model = x.req.start, x.req.start, x.req.View.Model
}
