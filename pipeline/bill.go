// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Bill is the cost of a turn, and the cost of the client's own bytes in its place.
type Bill struct {
	// Actual is the usage reported by the upstream.
	Actual wire.Usage
	// Client is the simulated usage of the client's own bytes, by the cache rules. Its output is
	// the output of Actual.
	Client wire.Usage
	// Cost and ClientCost are the costs of both, output included, in uncached input tokens.
	Cost, ClientCost float64
	// Dollars and ClientDollars are the same in US dollars, 0 if the prices are unknown.
	Dollars, ClientDollars float64
	// Simulated is the cost of the client's own bytes by the simulation. It differs from ClientCost where edits
	// are only computed: there ClientCost is the cost that the upstream reported.
	Simulated float64
	// Estimated reports whether the upstream did not report all of the usage.
	Estimated bool
	// WouldSave and WouldSaveDollars are the net saving of edits that were only computed, negative
	// for a loss.
	WouldSave, WouldSaveDollars float64
	// Translation and TranslationDollars are the saving of the marker that a translation adds. It
	// is also part of the client's side.
	Translation, TranslationDollars float64
}

// Mark computes the saving of the translation's marker.
func (b *Bill) Mark(r *pricing.Rules) {
	// Without the marker, no part of the client's prompt is cached.
	bare := wire.Usage{Uncached: b.Client.Prompt(), Output: b.Client.Output}
	b.Translation = r.Cost(bare) + r.CostOutput(bare) - b.ClientCost
	b.TranslationDollars = b.Translation * r.Input / 1e6
}

// Compare computes the saving of edits that were only computed.
func (b *Bill) Compare(r *pricing.Rules, client, would wire.Usage) {
	// Both sides are simulated, so errors of the simulation affect both.
	b.WouldSave = min(r.Cost(client)-r.Cost(would), r.Cost(b.Actual)) // at most the cost of the prompt
	b.WouldSaveDollars = b.WouldSave * r.Input / 1e6
}

// newBill returns the bill of a turn with these calls of the model. The client's side starts equal.
func newBill(r *pricing.Rules, calls ...wire.Usage) (b Bill) {
	for _, u := range calls {
		b.Actual = b.Actual.Add(u)
		b.Cost += r.Cost(u) + r.CostOutput(u) // price tiers depend on the prompt of each call
	}
	b.Dollars = b.Cost * r.Input / 1e6
	b.Client, b.ClientCost, b.ClientDollars, b.Simulated = b.Actual, b.Cost, b.Dollars, b.Cost
	return b
}

// SetClient sets the usage of one call with the client's own bytes.
func (b *Bill) SetClient(r *pricing.Rules, client wire.Usage) {
	b.Client, b.ClientCost = client, r.Cost(client)+r.CostOutput(client)
	b.ClientDollars, b.Simulated = b.ClientCost*r.Input/1e6, b.ClientCost
}

// account holds the cost of a turn.
type account struct {
	bill   Bill
	billed bool
	prefix uint64       // hash of the client's prompt before its first message block
	calls  []wire.Usage // the calls of the model that make up the bill
}

// Bill returns the cost of the turn, committed or not. Usage that the upstream did not report is
// estimated, see [Bill.Estimated]. Without a response, or with one that failed before it began,
// the bill is zero.
func (x *Transaction) Bill(t *wire.Turn) Bill {
	if t == nil {
		return x.account.bill
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.computeBill(t)
	return x.account.bill
}

// computeBill computes the bill, once. The session is locked.
func (x *Transaction) computeBill(t *wire.Turn) {
	if x.account.billed {
		return
	}
	x.readBefore()
	calls, estimated := x.complete(t)
	if estimated {
		// The turn itself keeps the reported usage.
		completed := *t
		completed.Usage = sum(calls)
		t = &completed
	}
	a := &x.account
	if t.Usage.Prompt() > 0 {
		rules := x.req.rules.Served(x.Service(t))
		a.calls, a.bill, a.billed = calls, x.compare(t, calls, &rules), true
		if x.req.marking.translated {
			a.bill.Mark(&rules)
		}
	}
	a.bill.Estimated = estimated
}

func sum(calls []wire.Usage) (all wire.Usage) {
	for _, u := range calls {
		all = all.Add(u)
	}
	return all
}

// Continuations returns the cost of each continuation of the turn, as part of [Transaction.Bill].
func (x *Transaction) Continuations(t *wire.Turn) (out []Bill) {
	if t == nil || len(x.Answerer.calls) == 0 || len(x.account.calls) == 0 {
		return nil
	}
	rules := x.req.rules.Served(x.Service(t))
	for _, u := range x.account.calls[1:] {
		b := newBill(&rules, u)
		out = append(out, Bill{Actual: b.Actual, Cost: b.Cost, Dollars: b.Dollars})
	}
	return out
}

// calls returns the usage of each call of the model in a turn.
func (x *Transaction) calls(t *wire.Turn) []wire.Usage {
	switch {
	case len(x.Answerer.calls) > 0:
		return x.Answerer.calls
	case len(t.Iterations) > 0:
		return t.Iterations
	}
	return []wire.Usage{t.Usage}
}

// Bound limits reported usage to the model's window and the request's maximum output, call by call.
// It reports whether any usage exceeded them.
func (x *Transaction) Bound(t *wire.Turn) (bounded bool) {
	if t == nil {
		return false
	}
	calls := x.calls(t)
	for i := range calls {
		u, more := x.req.rules.Bound(calls[i], x.req.View.Reply.MaxTokens)
		calls[i], bounded = u, bounded || more
	}
	if bounded {
		t.Usage = sum(calls)
		t.Final, _ = x.req.rules.Bound(t.Final, x.req.View.Reply.MaxTokens)
		x.Answerer.first, _ = x.req.rules.Bound(x.Answerer.first, x.req.View.Reply.MaxTokens)
	}
	return bounded
}

// Service returns the service of the request, as the response names it, or else as the request
// asked for it.
func (x *Transaction) Service(t *wire.Turn) wire.Service {
	if x.req.upstream != x.req.View.Format {
		// A translated request names no service in the upstream's own terms.
		return t.Service
	}
	return t.Service.Or(x.req.View.Reply.Service)
}

// compare computes both sides of the bill, and simulates the cache entries that the client's own
// bytes would have left. The session is locked.
func (x *Transaction) compare(t *wire.Turn, calls []wire.Usage, rules *pricing.Rules) Bill {
	u := t.LastUsage()
	bill := newBill(rules, calls...)
	if len(x.Answerer.calls) > 0 {
		// Without folds, the model would have given its last output at once.
		u = calls[0]
		u.Output = calls[len(calls)-1].Output
		bill.SetClient(rules, u)
	}
	if x.req.View.Conversation.Partial { // its blocks do not show the provider's history
		if l := x.req.match.Conversation; l != nil && l.Less > 0 {
			client := bill.Client
			// The provider retains the edited history. The client's own would be longer by these
			// tokens.
			client.Read += int64(l.Less)
			bill.SetClient(rules, client)
		}
		return bill
	}
	r := billedRequest{
		View: x.req.View, States: x.req.States, Edited: x.req.entries, Start: x.req.start, Rules: rules,
		Calibration: &x.req.session.Calibration, Cache: &x.req.session.Counterfactual,
		Markers: x.Prompt.Markers, Marked: x.req.marking.translated, Previous: x.before.previous,
		// The client's own order of tools would have read nothing.
		Diverged: x.before.diverged || x.req.offer.order != nil,
	}
	if x.Prompt.Edited && x.Prompt.SentTokens > 0 {
		r.Removed = int64(x.Prompt.OriginalTokens - x.Prompt.SentTokens)
	}
	var would *billedRequest
	if x.Policy == Observe {
		would = x.would(r)
		// With the edits, the simulation would have stopped following the reported usage there.
		r.Diverged = r.Diverged || x.before.departed
	} else {
		x.req.session.Hypothetical = nil
	}
	client, prefix := counterfactual(r, u)
	// Both sides are equal as long as only the client's own bytes went out. They also count as
	// equal if the provider cut the history itself: it would have cut the client's own bytes, too,
	// with an unknown effect on the cache.
	x.account.prefix = prefix
	comparable := !t.Final.Reported && !x.cutByServer(t)
	switch {
	case would != nil:
		sent, _ := counterfactual(*would, u)
		bill.Compare(rules, client, sent)
		if comparable {
			bill.Simulated = rules.Cost(client) + rules.CostOutput(client)
		}
	case (x.Prompt.Edited || r.Diverged) && comparable:
		bill.SetClient(rules, client)
	}
	return bill
}

// would returns the request with the edits that were only computed. It returns nil as long as these
// edits have changed nothing in the conversation. It must run before the client's side is
// simulated. The session is locked.
func (x *Transaction) would(r billedRequest) *billedRequest {
	s := x.req.session
	if s.Hypothetical == nil {
		if !x.req.computed {
			return nil
		}
		s.Hypothetical = s.Counterfactual.Clone()
	}
	w := r
	w.Sent, w.Marks, w.Long, w.Cache = true, x.req.marking.added, x.req.marking.long, s.Hypothetical
	w.Markers, w.Diverged = len(x.req.marking.added), x.before.departed
	w.Removed = int64(x.Prompt.SentTokens - x.Prompt.OriginalTokens)
	// The computed edit would have broken the cached prefix here.
	w.Previous.Common = min(r.Previous.Common, x.req.change.broken)
	return &w
}

// complete returns the usage of each call in a turn, with estimates for unreported usage, and
// whether there are any estimates. The session is locked.
func (x *Transaction) complete(t *wire.Turn) (calls []wire.Usage, estimated bool) {
	calls = slices.Clone(x.calls(t))
	var received sessioncache.Sizes // by the client
	received[wire.KindText] = len(t.Text) + len(t.Thinking)
	for i := range t.Calls {
		received[wire.KindToolUse] += len(t.Calls[i].Name) + len(t.Calls[i].Arguments)
	}
	output, last := int64(x.req.session.Calibration.Tokens(&received)), len(calls)-1
	if t.Usage.Prompt() == 0 {
		if t.Failed() && output == 0 {
			return calls, false // the upstream refused the request in the form of a response
		}
		u := x.expected()
		u.Output, u.Reported = t.Usage.Output, t.Usage.Reported
		calls, last, estimated = []wire.Usage{u}, 0, true
	}
	// The last call may have been cut off before its usage arrived, after earlier calls reported
	// theirs.
	for i := range calls {
		if calls[i].Prompt() == 0 && len(x.Answerer.calls) > 0 {
			u := x.expected()
			u.Output = calls[i].Output
			calls[i], estimated = u, true
		}
	}
	// A stream that was cut off has reported at most its first count: Anthropic's message_start
	// says about 1, and only message_delta the whole.
	if reported := sum(calls).Output; (!t.Done || reported == 0) && output > reported {
		calls[last].Output += output - reported
		estimated = true
	}
	return calls, estimated
}

// expected returns the expected usage of the sent prompt. The session is locked.
func (x *Transaction) expected() wire.Usage {
	prompt := int64(x.Prompt.SentTokens)
	if x.Policy == Observe {
		prompt = int64(x.Prompt.OriginalTokens)
	}
	var u wire.Usage
	// The last request's cache entry counts as read, unless a reason speaks against it. The rest
	// counts as written if the provider writes this prompt to its cache.
	if b := &x.before; b.cause == BreakUnknown && b.left >= int64(x.req.rules.MinTokens) {
		u.Read = min(b.left, prompt)
	}
	switch rest := prompt - u.Read; x.writes() {
	case writesNothing:
		u.Uncached = rest
	case writesShort:
		u.Write5m = rest
	case writesLong:
		u.Write1h = rest
	}
	return u
}

// The price of the part of a prompt that is written to the cache.
const (
	writesNothing = iota
	writesShort   // for the short lifetime
	writesLong    // for the long lifetime
)

// writes returns the price class of the uncached part of the prompt, by the provider's rules and
// the request's markers.
func (x *Transaction) writes() int {
	v := x.req.View
	switch x.req.rules.Regime {
	case pricing.Breakpoints:
		return writesShort
	case pricing.Markers:
	default:
		return writesNothing
	}
	marks := [][]byte{v.Bytes(v.Caching.AutoMarker)}
	for i := range v.Marked() {
		marks = append(marks, v.Bytes(v.Blocks[i].Marker))
	}
	found := writesNothing
	for _, m := range marks {
		switch {
		case x.req.marking.long && len(m) > 0, bytes.Contains(m, []byte(`"1h"`)):
			return writesLong
		case len(m) > 0:
			found = writesShort
		}
	}
	if x.Prompt.Markers > 0 || x.req.marking.translated {
		return writesShort
	}
	return found
}

// billedRequest is the input of a simulated bill, besides the reported usage.
type billedRequest struct {
	// View is the client's request.
	View *wire.View
	// States holds the edits of its message blocks, and Edited the blocks with an edit.
	States []sessioncache.BlockState
	Edited []int32
	// Start is the start of the request, by the client's own clock.
	Start time.Time
	// Rules are the rules of the upstream's cache.
	Rules *pricing.Rules
	// Calibration estimates tokens.
	Calibration *sessioncache.Calibration
	// Cache is the upstream's simulated cache for the client's own bytes.
	Cache *sessioncache.CounterfactualCache
	// Previous is the request that it continues.
	Previous previousTurn
	// Removed is the number of tokens that edits removed from the prompt.
	Removed int64
	// Markers is the number of cache markers added.
	Markers int
	// Marked reports whether a translation marks the last block in any case.
	Marked bool
	// Diverged reports whether earlier requests differed from the client's own bytes at the
	// client's own times.
	Diverged bool
	// Sent selects the edited prompt instead of the client's own.
	Sent bool
	// Marks are the markers of the edited prompt.
	Marks []wire.Edit
	// Long reports whether the client's own markers would get the long lifetime.
	Long bool
}

// previousTurn is the previous request of the same conversation.
type previousTurn struct {
	// Prefix is a hash of its prompt before its first message block.
	Prefix uint64
	// Ago is the time since its start.
	Ago time.Duration
	// Common is the number of message blocks that both requests share, 0 without a previous
	// request.
	Common int
}

// counterfactual returns the simulated usage of the client's own bytes in place of u, and stores
// their cache entries. The simulation uses the client's blocks, markers and clock. prefix is a hash
// of the prompt up to its first message block, 0 if there is none.
func counterfactual(r billedRequest, u wire.Usage) (client wire.Usage, prefix uint64) {
	s := newSimulation(r)
	defer func() {
		*s = simulation{points: s.points[:0], runs: s.runs[:0], marks: s.marks[:0]}
		simulations.Put(s)
	}()
	// Token counts are the reported ones plus the estimate of the removed tokens.
	s.total = u.Prompt() + r.Removed
	switch {
	case s.end == 0:
		client.Uncached = s.total
	case r.Rules.Regime == pricing.Markers || r.Rules.Regime == pricing.Breakpoints:
		client = s.billMarkers(u)
	default:
		client = s.billPrefix()
	}
	client.Output, client.Reported = u.Output, true
	return client, s.prefix
}

// simulation is one client request as the upstream's cache would see it. Places in the prompt are
// numbers of blocks of the request before them.
type simulation struct {
	request  billedRequest
	weights  [wire.Kinds]float64 // estimated tokens per byte
	stripped int32               // thinking before this message is not part of the prompt
	points   []point             // the end of each block; in a run of messages not before readRun
	runs     []simulatedRun      // the runs of messages with a summary
	marks    []ask               // the entries that the client asks for, in order
	system   int                 // the end of tools and system prompt
	edited   int                 // the first edit, or the end
	end      int
	prefix   uint64 // hash of the prompt up to its first message block
	total    int64
}

// point is the end of a block.
type point struct {
	prefix uint64  // hash of the prompt up to here
	size   float64 // estimated tokens up to here
	sent   bool    // the block is part of the prompt
}

// simulatedRun is a run of messages with a summary.
type simulatedRun struct {
	start point // the end of the block before it
	read  bool  // its blocks have points
}

type ask struct {
	at   int
	long bool
}

var simulations = sync.Pool{New: func() any { return new(simulation) }}

func newSimulation(r billedRequest) *simulation {
	v := r.View
	s := simulations.Get().(*simulation)
	s.request, s.edited = r, len(v.Blocks)
	for k := range s.weights {
		s.weights[k] = r.Calibration.PerByte(wire.Kind(k))
	}
	// Such providers drop the thinking before the last human prompt.
	if !r.Rules.KeepsThinking && r.Rules.Regime != pricing.KV {
		s.stripped = lastPrompt(v)
	}
	s.points = slices.Grow(s.points, len(v.Blocks))[:len(v.Blocks)]
	at, _ := s.read(0, v.System, point{prefix: content.Hash(v.Model)})
	if v.System < len(v.Blocks) {
		at.prefix = wire.Chain(at.prefix, salt(v, r.Rules))
	}
	for n := range v.Summaries() {
		s.runs = append(s.runs, simulatedRun{start: at})
		at = s.passRun(n)
	}
	s.read(v.Run(len(s.runs)), len(v.Blocks), at)
	for s.end = len(v.Blocks); s.end > 0 && !s.point(s.end).sent; s.end-- {
	}
	for s.system = v.System; s.system > 0 && !s.point(s.system).sent; s.system-- {
	}
	for n := v.System + 1; n <= s.end; n++ {
		if p := s.point(n); p.sent {
			s.prefix = p.prefix
			break
		}
	}
	for _, i := range r.Edited {
		if at := v.System + int(i); r.States[i].Edit != nil && !s.drops(&v.Blocks[at]) {
			s.edited = at
			break
		}
	}
	s.ask()
	return s
}

// ask lists the entries that the client asks for.
func (s *simulation) ask() {
	r, v := &s.request, s.request.View
	if r.Rules.Regime == pricing.Breakpoints && s.end > 0 {
		s.marks = append(s.marks, ask{at: s.end})
		return
	}
	for i := range v.Marked() {
		if s.point(i + 1).sent {
			s.marks = append(s.marks, ask{i + 1, r.Long || content.IsLong(v.Bytes(v.Blocks[i].Marker))})
		}
	}
	for _, m := range r.Marks {
		if v.Blocks[m.Block].Marker.Empty() && s.point(m.Block+1).sent {
			s.marks = append(s.marks, ask{m.Block + 1, content.IsLong(m.Value)})
		}
	}
	slices.SortStableFunc(s.marks, func(a, b ask) int { return a.at - b.at })
	switch {
	case s.end == 0:
	case r.Marked:
		s.marks = append(s.marks, ask{at: s.end})
	case !v.Caching.AutoMarker.Empty():
		s.marks = append(s.marks, ask{s.end, r.Long || content.IsLong(v.Bytes(v.Caching.AutoMarker))})
	}
}

// drops reports whether the provider leaves a block out of the client's prompt.
func (s *simulation) drops(b *wire.Block) bool {
	return b.Message < s.stripped && b.IsThinking() || b.Has(wire.FlagDeferred)
}

// read computes the points of a range of blocks, from the end of the block before it. chain is the
// [wire.Chain] of the range alone.
func (s *simulation) read(from, to int, at point) (end point, chain uint64) {
	r, v := &s.request, s.request.View
	for i := from; i < to; i++ {
		b := &v.Blocks[i]
		hash, length := b.Hash.Short(), b.Span.Len()
		at.sent = !s.drops(b)
		if r.Sent && i >= v.System {
			if edit := r.States[i-v.System].Edit; edit != nil {
				at.sent = at.sent && edit.Op != wire.OpRemove
				hash, length = xxhash.Sum64(edit.Value), length+len(edit.Value)-b.Body.Len()
			}
		}
		if at.sent {
			at.prefix, chain = wire.Chain(at.prefix, hash), wire.Chain(chain, hash)
			at.size += s.weights[b.Kind] * float64(length)
		}
		s.points[i] = at
	}
	return at, chain
}

// passRun returns the end of a run of messages, by its summary where that suffices. The prefix there
// is a chain of the runs' own chains, so it does not depend on the way.
func (s *simulation) passRun(n int) point {
	v, at := s.request.View, s.runs[n].start
	sum := &v.Summaries()[n]
	first, end := int32(n*wire.RunLength), int32((n+1)*wire.RunLength)
	if sum.Deferred || first < s.stripped && s.stripped < end || s.request.Sent && s.edits(n) {
		return s.readRun(n)
	}
	chain, stripped := sum.Chain, end <= s.stripped
	if stripped {
		chain = sum.Spoken
	}
	at.prefix = wire.Chain(at.prefix, chain)
	for k, bytes := range sum.Bytes {
		if !stripped || k != int(wire.KindThinking) && k != int(wire.KindRedactedThinking) {
			at.size += s.weights[k] * float64(bytes)
		}
	}
	return at
}

// edits reports whether any block of a run of messages has an edit.
func (s *simulation) edits(n int) bool {
	edited, v := s.request.Edited, s.request.View
	i, _ := slices.BinarySearch(edited, int32(v.Run(n)-v.System))
	return i < len(edited) && int(edited[i]) < v.Run(n+1)-v.System
}

// readRun computes the points of a run of messages, and returns its end.
func (s *simulation) readRun(n int) point {
	run, v := &s.runs[n], s.request.View
	run.read = true
	at, chain := s.read(v.Run(n), v.Run(n+1), run.start)
	at.prefix = wire.Chain(run.start.prefix, chain)
	return at
}

// point returns the end of the first n blocks, n > 0.
func (s *simulation) point(n int) *point {
	if run := int(s.request.View.Blocks[n-1].Message) / wire.RunLength; n > s.request.View.System && run < len(s.runs) &&
		!s.runs[run].read {
		s.readRun(run)
	}
	return &s.points[n-1]
}

// salt hashes other parameters that the upstream's cache of messages depends on.
func salt(v *wire.View, r *pricing.Rules) uint64 {
	if r.Regime == pricing.KV {
		return 0
	}
	h := uint64(0)
	choice := v.Reply.ToolChoice
	if v.Traits().NoCalls != "" {
		choice = rawjson.Span{}
	}
	for _, span := range [...]rawjson.Span{
		choice, v.Reply.Thinking, v.Reply.OutputConfig,
		v.Conversation.ContextManagement,
	} {
		h = wire.Chain(h, xxhash.Sum64(v.Bytes(span)))
	}
	// The presence of media is part of the key.
	if v.HasMedia() {
		return h + 1
	}
	return h
}

// lastPrompt returns the index of the last human message. Some providers drop the thinking before
// it.
func lastPrompt(v *wire.View) int32 {
next:
	for m := len(v.Messages) - 1; m > 0; m-- {
		msg := &v.Messages[m]
		if msg.Role != wire.RoleUser {
			continue
		}
		for i := msg.First; i < msg.End; i++ {
			if k := v.Blocks[i].Kind; k == wire.KindToolResult || k == wire.KindProgram {
				continue next
			}
		}
		return int32(m)
	}
	return 0
}

// found is a prefix in the cache.
type found struct {
	blocks int
	tokens int64
}

// tokens is the length of the first n blocks. Between the found prefix and the end, it is in
// proportion to the estimates.
func (s *simulation) tokens(n int, f found) int64 {
	if n >= s.end {
		return s.total
	}
	size := func(n int) float64 {
		if n == 0 {
			return 0
		}
		return s.point(n).size
	}
	from, to := size(f.blocks), size(s.end)
	rest := s.total - f.tokens
	if n < f.blocks || rest <= 0 || to <= from {
		f = found{}
		from, rest = 0, s.total
	}
	return f.tokens + int64(float64(rest)*(size(n)-from)/(to-from))
}

// billMarkers reads and writes at breakpoints, as the simulator of package pricing does.
func (s *simulation) billMarkers(u wire.Usage) wire.Usage {
	r, at, entries := s.request.Rules, s.request.Start, s.request.Cache.Entries
	// The longest entry that a breakpoint of the request reaches.
	var f found
	best := -1
	for i := range entries {
		e := &entries[i]
		n := s.matched(e)
		if n <= f.blocks || !e.Live(at) || !s.reached(n, r) {
			continue
		}
		f, best = found{n, min(e.Tokens, s.total)}, i
	}
	if best >= 0 {
		entries[best].At = at // found, and so refreshed
	}
	// The client's own bytes would have read the same prefix before the first edit, as long as no
	// added marker played a part.
	if s.request.Markers == 0 && u.Read > f.tokens && !s.request.Diverged && u.Read <= s.tokens(s.edited, f) {
		f.tokens = u.Read
	}
	long, last := f.tokens, f.tokens
	for _, m := range s.marks {
		end := s.tokens(m.at, f)
		if end < int64(r.MinTokens) {
			continue
		}
		if m.at > f.blocks && end > last {
			last = end
			if m.long {
				long = end
			}
		}
		if !s.has(m.at) { // an existing entry is not written again
			s.put(m.at, end, r.Lifetime(m.long))
		}
	}
	return wire.Usage{Read: f.tokens, Write1h: long - f.tokens, Write5m: last - long, Uncached: max(s.total-last, 0)}
}

// matched returns the number of blocks of an entry that is a prefix of the request, 0 otherwise.
func (s *simulation) matched(e *sessioncache.CounterfactualEntry) int {
	if e.Blocks == 0 || e.Blocks > s.end {
		return 0
	}
	if p := s.point(e.Blocks); !p.sent || p.prefix != e.Prefix {
		return 0
	}
	return e.Blocks
}

// reached reports whether a breakpoint finds an entry of n blocks.
func (s *simulation) reached(n int, r *pricing.Rules) bool {
	blocks := s.request.View.Blocks
	for _, m := range s.marks {
		if m.at < n {
			continue
		}
		if r.LookBack == 0 || r.Regime == pricing.Breakpoints {
			return true
		}
		seen, last := 1, blocks[m.at-1].Kind
		for i := m.at - 1; i >= n && seen <= r.LookBack; i-- {
			if !s.point(i).sent {
				continue
			}
			kind := blocks[i-1].Kind
			if !r.CollapseRuns || kind != last || !kind.Collapses() {
				seen++
			}
			last = kind
		}
		if seen <= r.LookBack {
			return true
		}
	}
	return false
}

// granularity is the step in which automatic caches report reads, in tokens.
const granularity = 128

// billPrefix reads the longest known prefix: the one shared with the previous request, or else with
// another one of the session.
func (s *simulation) billPrefix() wire.Usage {
	r, last := s.request.Rules, &s.request.Previous
	var f found
	entries := s.request.Cache.Entries
	for i := range entries {
		e := &entries[i]
		if n := s.matched(e); n > f.blocks && e.Live(s.request.Start) {
			f = found{n, min(e.Tokens, s.total)}
		}
	}
	if last.Common > 0 && s.prefix != 0 {
		// The cache knows every prefix of the last request if tools and system prompt are the same.
		if last.Prefix == s.prefix && (r.TTL == 0 || last.Ago < r.TTL) {
			if n := min(s.request.View.System+last.Common, s.end); n > f.blocks {
				f = found{n, s.tokens(n, f)}
			}
		}
	}
	read := f.tokens
	if read < int64(r.MinTokens) {
		read = 0
	}
	if r.Regime == pricing.KV {
		// A local server always computes the last token.
		read = min(read, max(s.total-1, 0))
	} else {
		read = read / granularity * granularity
	}
	ttl := r.Lifetime(false)
	if s.system > 0 {
		s.put(s.system, s.tokens(s.system, f), ttl)
	}
	s.put(s.end, s.total, ttl)
	return wire.Usage{Read: read, Uncached: s.total - read}
}

// has reports whether a live entry ends after n blocks.
func (s *simulation) has(n int) bool {
	entries, prefix := s.request.Cache.Entries, s.point(n).prefix
	for i := range entries {
		e := &entries[i]
		if e.Prefix == prefix && e.Blocks == n {
			return e.Live(s.request.Start)
		}
	}
	return false
}

func (s *simulation) put(n int, tokens int64, ttl time.Duration) {
	s.request.Cache.Put(sessioncache.CounterfactualEntry{
		Prefix: s.point(n).prefix, Blocks: n, Tokens: tokens,
		At: s.request.Start, TTL: ttl,
	})
}
