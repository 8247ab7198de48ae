// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/planner"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// admit runs admission over the new blocks.
func (r *request) admit() {
	// A prompt below the minimum cacheable prefix would not be cached, and cost more than before. By a
	// low estimate of its tokens, the blocks that make up the minimum are not shortened.
	const bytesPerToken = 4
	short, left := len(r.Blocks), bytesPerToken*r.rules.MinTokens
	for i := range r.View.Blocks {
		if left <= 0 {
			short = max(0, i-r.View.System)
			break
		}
		if b := &r.View.Blocks[i]; b.Kind != wire.KindProgram { // not part of the prompt
			left -= b.Span.Len()
		}
	}
	r.o.Admission.Edit(&r.History, max(r.Known, r.cached.unmodified), short, r.rules.Regime == pricing.KV, r.admitted)
}

// admitted enters the shortened value of a block into the ledger.
func (r *request) admitted(i int, value []byte) {
	if r.presumed(i) {
		r.States[i].Edit = &sessioncache.Edit{Stage: stage.Admission, Op: wire.OpReplace, Value: value}
		return
	}
	r.set(i, stage.Admission, wire.OpReplace, value)
}

// presumed reports whether a block was probably forwarded before, with the same edit, by another
// process. In a run of tool calls, the thinking may be bound to that edit.
func (r *request) presumed(i int) bool { return r.Known == 0 && i < r.cached.forwarded && r.run.loop }

// minStub is a lower limit for the length of a stub.
const minStub = 80

// prune replaces tool results of the middle zone by stubs after K responses without a reference. A
// compacted result is pruned only if that saves more.
func (r *request) prune() {
	o := &r.o.Prune
	if o.Mode == stage.Off || r.zones == (content.Zones{}) {
		return
	}
	after := *o.After
	for i := range r.Blocks {
		b := &r.Blocks[i]
		t := r.States[i].Trait
		if t == "" || r.States[i].Pinned || b.Kind != wire.KindToolResult || int(r.States[i].Unused) < after ||
			b.Has(wire.FlagError) || !r.zones.Middle(b) || !r.may(i) {
			continue
		}
		if e := r.States[i].Edit; e != nil && e.Stage == stage.Prune || r.Size(i) < content.MinTrait ||
			!r.pays(o.Mode, i, r.Size(i)-minStub) {
			continue
		}
		value := content.WithText(r.View, b, r.stub(i, *o.Preview))
		if saving := r.Size(i) - len(value); saving >= stage.MinGain && r.pays(o.Mode, i, saving) {
			r.set(i, stage.Prune, wire.OpReplace, value)
		}
	}
}

// compactToolResults replaces long tool results of the middle zone by their size and a preview of
// their first line.
func (r *request) compactToolResults() {
	o := &r.o.CompactToolResults
	if o.Mode == stage.Off || r.zones == (content.Zones{}) {
		return
	}
	over := *o.MinChars
	for i := range r.Blocks {
		b := &r.Blocks[i]
		// Errors stay: the model must know the cause of a failure. Non-text parts stay too.
		if b.Kind != wire.KindToolResult || !r.open(i) || r.Size(i) <= over ||
			b.Has(wire.FlagError) || !r.zones.Middle(b) || !r.may(i) || r.Unread(i) {
			continue
		}
		text := content.Unheaded(r.Text(i))
		chars := utf8.RuneCountInString(text)
		if chars <= over {
			continue
		}
		value := content.WithText(r.View, b, compacted(text, chars))
		if saving := r.Size(i) - len(value); saving > 0 && r.pays(o.Mode, i, saving) {
			r.set(i, stage.ToolResults, wire.OpReplace, value)
		}
	}
}

// open reports whether a block has no edit other than by admission.
func (r *request) open(i int) bool {
	e := r.States[i].Edit
	return e == nil || e.Stage == stage.Admission
}

func compacted(text string, chars int) string {
	return fmt.Sprintf("%s%d lines, %d chars]\n%s", content.CompactedNote, content.CountLines(text), chars,
		strings.Join(content.HeadLines(text, 1, 120), ""))
}

// openers are the beginnings of filler sentences of coding agents.
var openers = []string{
	"Let me ", "Let's ", "Now let me ", "Now let's ", "Now I'll ", "Now I will ", "Now I need to ", "I'll ", "I will ",
	"I need to ", "I'm going to ", "Next, I'll ", "Next, let me ", "First, let me ", "First, I'll ", "Sure",
	"Great", "Good",
	"Perfect", "Excellent", "OK, ", "Okay, ", "Alright", "Certainly", "Of course",
}

// maxOpener exceeds the length of every opener. It limits the bytes to compare.
const maxOpener = 32

// stripNarration removes short assistant texts in the middle zone that only announce the tool call
// beside them.
func (r *request) stripNarration() {
	o := &r.o.StripNarration
	if o.Mode == stage.Off || r.zones == (content.Zones{}) {
		return
	}
	for i := r.firstMay(); i < len(r.Blocks); i++ {
		if r.pays(o.Mode, i, r.Blocks[i].Span.Len()) && r.announces(i) {
			r.set(i, stage.Narration, wire.OpRemove, nil)
		}
	}
}

// announces reports whether a block is a removable text that only announces the call beside it.
func (r *request) announces(i int) bool {
	b, under := &r.Blocks[i], *r.o.StripNarration.MaxChars
	if b.Kind != wire.KindText || b.Role != wire.RoleAssistant || b.Body.Len() < 3 || b.Body.Len() > 6*under ||
		r.States[i].Edit != nil || !b.Marker.Empty() || !r.zones.Middle(b) || !besideCall(&r.History, i) ||
		!r.View.Removable(r.View.System+i) {
		return false
	}
	raw := r.View.Bytes(b.Body)
	return opens(string(raw[1:min(len(raw), maxOpener)])) && isNarration(r.Text(i), under)
}

// besideCall reports whether the block's message also contains a tool call.
func besideCall(h *content.History, i int) bool {
	first, end := h.Message(i)
	// The call makes the announcement superfluous, and keeps the message from being empty without
	// it.
	for j := first; j < end; j++ {
		if h.Blocks[j].Kind == wire.KindToolUse {
			return true
		}
	}
	return false
}

func isNarration(text string, under int) bool {
	text = strings.TrimSpace(text)
	if utf8.RuneCountInString(text) > under || strings.Contains(text, "\n") {
		return false
	}
	return opens(text)
}

func opens(text string) bool {
	for _, o := range openers {
		if strings.HasPrefix(text, o) {
			return true
		}
	}
	return false
}

// stripThinking removes the thinking of all assistant messages except the last.
func (r *request) stripThinking() {
	if !r.strips() || r.zones == (content.Zones{}) {
		return
	}
	end := r.LastAnswer()
	// Some providers want the thinking of an open run of tool calls back (Messages API, "Preserving
	// thinking blocks").
	if !r.View.Traits().ServersVary && r.run.loop {
		end = min(end, r.run.task)
	}
	for i := range r.Blocks[:end] {
		if !r.Blocks[i].IsThinking() || r.Removed(i) {
			continue
		}
		// Removed thinking is always a run from the first thinking on, never one in the middle.
		if !r.may(i) || !r.removable(i) || (r.o.StripThinking.Mode != stage.On && !r.free(i)) {
			return
		}
		r.set(i, stage.Thinking, wire.OpRemove, nil)
	}
}

// strips reports whether thinking may be removed at all.
func (r *request) strips() bool {
	return r.o.StripThinking.Mode == stage.On || r.o.StripThinking.Mode != stage.Off && !r.sealed
}

// removable reports whether a block can be removed without leaving an empty message.
func (r *request) removable(i int) bool {
	b := &r.Blocks[i]
	return b.Marker.Empty() && !b.Has(wire.FlagSigned) && !r.Alone(i)
}

// bindThinking upholds the guarantee of models with checked thinking: no block before a thinking
// block has changed since the model wrote it.
func (r *request) bindThinking() {
	if len(r.ledger.fresh) == 0 {
		return
	}
	r.bindReasoning()
	if !r.rules.BindsThinking || len(r.ledger.fresh) == 0 {
		return
	}
	for {
		// For each fresh edit before remaining thinking, either all later thinking is removed or
		// the edit is undone.
		first, last := r.firstFresh(), r.lastKept()
		if first > last {
			return
		}
		// Providers allow the removal of thinking between two tasks.
		if !r.run.loop && r.stripBehind(first) {
			return
		}
		// Edits before thinking that must stay are not possible.
		for i := range r.ledger.fresh {
			if i <= last && !r.Blocks[i].IsThinking() {
				r.undo(i)
			}
		}
		if r.run.loop {
			return
		}
	}
}

// bindReasoning reverts edits before the model's reasoning in the running task.
func (r *request) bindReasoning() {
	if !r.rules.BindsReasoning || !r.run.loop {
		return
	}
	// OpenAI's newer models silently drop reasoning items after a change of earlier blocks (guide
	// "Keep the prefix unchanged", autumn 2026). Between two tasks, this is no loss: clients of
	// other providers drop reasoning there, too.
	last := r.lastReasoning()
	for i := range r.ledger.fresh {
		if i < last {
			r.undo(i)
		}
	}
}

// lastReasoning returns the last reasoning item, -1 if there is none. Thinking that is sent as a
// reasoning item counts.
func (r *request) lastReasoning() int {
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if r.Blocks[i].Kind == wire.KindReasoning || r.sealed && r.Blocks[i].IsThinking() {
			return i
		}
	}
	return -1
}

// firstFresh returns the first block with a fresh edit.
func (r *request) firstFresh() int {
	first := len(r.Blocks)
	for i := range r.ledger.fresh {
		// Later thinking is not bound to earlier thinking, so a removal of thinking does not count.
		if i < first && !r.Blocks[i].IsThinking() {
			first = i
		}
	}
	return first
}

// lastKept returns the last thinking block that is sent, -1 if none.
func (r *request) lastKept() int {
	for i := len(r.Blocks) - 1; i >= 0; i-- {
		if r.Blocks[i].IsThinking() && !r.Removed(i) {
			return i
		}
	}
	return -1
}

// stripBehind removes all thinking after a block, or none if some of it must stay.
func (r *request) stripBehind(first int) bool {
	var done []int
	for i := first; i < len(r.Blocks); i++ {
		if !r.Blocks[i].IsThinking() || r.Removed(i) {
			continue
		}
		if !r.removable(i) {
			for _, j := range done {
				r.undo(j)
			}
			return false
		}
		r.set(i, stage.Thinking, wire.OpRemove, nil)
		done = append(done, i)
	}
	return true
}

// Compress configures the removal of words from prose. The short texts are computed after
// responses; a request uses only known ones. Errors, calls and human texts keep all their words.
type Compress struct {
	// MinBytes is the minimum size of a text in bytes.
	MinBytes int
	// Kinds are the kinds of texts to compress.
	Kinds []Prose
	// Find returns the known result for a block's text, by the block's hash.
	Find func(s *sessioncache.Session, block wire.Hash) (Shortened, bool)
}

// Prose is a kind of text.
type Prose string

// The kinds of texts: results of other tools, results of file reads, output of searches and
// commands, and the model's own texts.
const (
	ProseResults Prose = "results"
	ProseFiles   Prose = "files"
	ProseOutput  Prose = "output"
	ProseAnswers Prose = "answers"
)

// CheckProse returns an error for the first unknown or repeated kind.
func CheckProse(kinds []Prose) error {
	for i, k := range kinds {
		switch k {
		case ProseResults, ProseFiles, ProseOutput, ProseAnswers:
		default:
			return fmt.Errorf("kinds must be one of results, files, output, answers, got %q", k)
		}
		if slices.Contains(kinds[:i], k) {
			return fmt.Errorf("kinds: %s is given twice", k)
		}
	}
	return nil
}

// Shortened is the result of compressing a text.
type Shortened struct {
	// Text is the short text, "" if the original should stay.
	Text string
	// Took is the time that the compression took.
	Took time.Duration
}

// Compressed sums up the compressed texts of a request.
type Compressed struct {
	// Texts is the number of compressed texts, Tokens their estimated saving.
	Texts, Tokens int
	// Took is the compression time of the texts that are short in this request for the first time.
	Took time.Duration
}

// spared is the number of turns at the end of a conversation that keep all their words.
const spared = 4

// compress replaces texts by their known short forms.
func (r *request) compress() {
	if r.p.Compress == nil || len(r.States) == 0 {
		return
	}
	last := r.States[len(r.States)-1].Turn
	// Only texts that the upstream reads again anyway: others would invalidate cached bytes.
	for i := r.firstAnew(); i < len(r.Blocks); i++ {
		b, s := &r.Blocks[i], &r.States[i]
		if s.Turn+spared > last || !r.zones.Middle(b) || !r.open(i) || !r.wordy(i) {
			continue
		}
		short, ok := r.p.Compress.Find(r.session, b.Hash)
		if !ok {
			r.wanted = append(r.wanted, i)
		}
		if short.Text == "" {
			continue
		}
		text := content.ShortenedResult(r.View, i, r.stubName(i), r.Text(i), r.back(i), short.Text)
		if value := content.Quote(text); len(value)+stage.MinGain <= r.Size(i) {
			r.set(i, stage.Compress, wire.OpReplace, value)
			r.took += short.Took
		}
	}
}

// wordy reports whether a block may be compressed, by all criteria except its text.
func (r *request) wordy(i int) bool {
	b := &r.Blocks[i]
	if b.Body.Len() < r.p.Compress.MinBytes || r.States[i].Pinned || b.Has(wire.FlagError) || b.Has(wire.FlagMedia) ||
		b.Has(wire.FlagSigned) {
		return false
	}
	kind := ProseResults
	switch {
	case b.Kind == wire.KindText && b.Role == wire.RoleAssistant && r.offer.expand != expandNone:
		kind = ProseAnswers // there is no call to run again
	case b.Kind != wire.KindToolResult:
		return false
	default:
		switch r.States[i].Class {
		case sessioncache.ClassOther:
		case sessioncache.ClassRead:
			kind = ProseFiles
		case sessioncache.ClassSearch, sessioncache.ClassCommand:
			kind = ProseOutput
		default:
			return false
		}
	}
	return slices.Contains(r.p.Compress.Kinds, kind)
}

// Unread calls f, after a response, with the compressible texts of the request without a known
// result: new texts, and texts that compress looked up in vain. It stops when f returns false.
func (x *Transaction) Unread(f func(block wire.Hash, text string) bool) {
	r := &x.req
	if x.conversation == nil || r.p.Compress == nil {
		return
	}
	r.session.Lock()
	defer r.session.Unlock()
	offer := func(i int) bool {
		b := &r.Blocks[i]
		if _, ok := r.p.Compress.Find(r.session, b.Hash); ok {
			return true
		}
		return f(b.Hash, content.Of(r.View, b))
	}
	for i := r.Known; i < len(r.Blocks); i++ {
		if r.wordy(i) && !offer(i) {
			return
		}
	}
	for _, i := range r.wanted {
		if i < r.Known && !offer(i) {
			return
		}
	}
}

// compressed sums up the compressed texts. The session is locked.
func (r *request) compressed() (c Compressed) {
	e, tokens := newEstimator(&r.session.Calibration, r.match.Conversation), 0.0
	for _, i := range r.entries {
		if edit := r.States[i].Edit; edit != nil && edit.Stage == stage.Compress {
			c.Texts++
			tokens += e.Tokens(r.Blocks[i].Kind, r.Blocks[i].Body.Len()-len(edit.Value))
		}
	}
	c.Tokens, c.Took = int(tokens), r.took
	return c
}

// Clearing carries out context management for upstreams without it. A placeholder replaces the
// results of old calls, and the thinking of old tasks is removed.
//
// Cleared blocks stay cleared, in the same bytes, for the whole conversation. The trigger applies
// to the edited prompt, so no further block is cleared until that prompt has grown beyond the
// trigger again. Meanwhile the upstream's cache finds the whole prefix.

// clear carries out the client's orders if the upstream does not.
func (r *request) clear() {
	if r.orders.ours {
		editCleared(&r.History, &r.orders.given, newEstimator(&r.session.Calibration, r.match.Conversation).Tokens,
			func(i int, op wire.Op, value []byte) {
				r.set(i, stage.Clearing, op, value)
			})
		if r.rules.BindsThinking {
			r.bindThinking()
		}
	}
	if r.mode == ordered {
		r.decision = planner.Decision{
			Epoch: planner.NoEpoch, Reason: "the client says what is cleared",
			Folded: len(r.ledger.fresh),
		}
	}
}

// applied sums up the blocks cleared on the client's order, nil if the client expects no report.
// The session is locked.
func (r *request) applied() *wire.Cleared {
	if r.orders.given.Results == nil && r.orders.given.Thinking == 0 || r.o.Policy == Observe {
		return nil
	}
	c := sumCleared(&r.History, newEstimator(&r.session.Calibration, r.match.Conversation).Tokens)
	return &c
}

var placeholder, noInput = content.Quote(content.ClearedPlaceholder), []byte("{}")

// estimateTokens returns the estimated tokens of some bytes in a kind of block.
type estimateTokens func(k wire.Kind, bytes int) float64

// enterEdit enters an edit of a block into the ledger.
type enterEdit func(i int, op wire.Op, value []byte)

// use is a call and its result.
type use struct{ call, result int }

// editCleared clears the blocks that the orders name.
func editCleared(h *content.History, m *wire.Management, tokens estimateTokens, enter enterEdit) {
	if m.Thinking > 0 {
		clearThinking(h, m.Thinking, enter)
	}
	if m.Results != nil {
		clearResults(h, m.Results, tokens, enter)
	}
}

func clearResults(h *content.History, c *wire.Clearing, tokens estimateTokens, enter enterEdit) {
	uses := usesOf(h)
	if !triggered(h, c, uses, tokens) {
		return
	}
	old := uses[:max(len(uses)-c.Keep, 0)]
	type edit struct {
		block int
		value []byte
	}
	var edits []edit
	gain := 0.0
	propose := func(i int, value []byte) {
		if less := h.Size(i) - len(value); less > 0 {
			edits = append(edits, edit{i, value})
			gain += tokens(h.Blocks[i].Kind, less)
		}
	}
	unread := h.LastSaid() // the model has not read the results after it
	for _, u := range old {
		tool := ""
		if u.call >= 0 {
			tool = h.View.Text(h.Blocks[u.call].Name)
		}
		// Without its call, the tool of a result is unknown and may be an excluded one.
		if u.result > unread || c.Excludes(tool) || u.call < 0 && len(c.Exclude) > 0 {
			continue
		}
		if !isCleared(h, u.result) {
			propose(u.result, placeholder)
		}
		if u.call >= 0 && c.ClearsInput(tool) && !h.Blocks[u.call].Has(wire.FlagSigned) && !isCleared(h, u.call) {
			propose(u.call, noInput)
		}
	}
	// Clearing invalidates cached bytes, so the client can demand a minimum gain (clear_at_least).
	if gain <= 0 || gain < float64(c.AtLeast) {
		return
	}
	for _, e := range edits {
		enter(e.block, wire.OpReplace, e.value)
	}
}

// triggered reports whether the edited prompt exceeds the trigger. Only calls with an uncleared
// result count.
func triggered(h *content.History, c *wire.Clearing, uses []use, tokens estimateTokens) bool {
	if c.Calls > 0 {
		n := int64(0)
		for _, u := range uses {
			if !isCleared(h, u.result) {
				n++
			}
		}
		return n > c.Calls
	}
	sum := 0.0
	for i := range h.View.Blocks[:h.View.System] {
		b := &h.View.Blocks[i]
		sum += tokens(b.Kind, b.Span.Len())
	}
	for i := range h.Blocks {
		sum += tokens(h.Blocks[i].Kind, h.Sent(i))
	}
	return sum > float64(c.Tokens)
}

// usesOf lists the results with their calls.
func usesOf(h *content.History) (uses []use) {
	for i := range h.Blocks {
		if b := &h.Blocks[i]; b.Kind == wire.KindToolResult && !h.Removed(i) {
			uses = append(uses, use{h.Call(i), i})
		}
	}
	return uses
}

// clearThinking removes the thinking of all tasks except the last keep tasks with thinking. A task
// is a human prompt with all its calls.
func clearThinking(h *content.History, keep int, enter enterEdit) {
	task, tasks := uint16(0), 0
	for i := len(h.Blocks) - 1; i >= 0; i-- {
		if !h.Blocks[i].IsThinking() {
			continue
		}
		if t := h.States[i].Task; tasks == 0 || t != task {
			task, tasks = t, tasks+1
		}
		if b := &h.Blocks[i]; tasks > keep && !h.Removed(i) && b.Marker.Empty() && !b.Has(wire.FlagSigned) && !h.Alone(i) {
			enter(i, wire.OpRemove, nil)
		}
	}
}

// isCleared reports whether a block was cleared before.
func isCleared(h *content.History, i int) bool {
	e := h.States[i].Edit
	return e != nil && e.Stage == stage.Clearing
}

// sumCleared sums up the cleared blocks in the form of a response's applied edits.
func sumCleared(h *content.History, tokens estimateTokens) (c wire.Cleared) {
	task, some := uint16(0), false
	for i := range h.Blocks {
		if !isCleared(h, i) {
			continue
		}
		b := &h.Blocks[i]
		n := int64(tokens(b.Kind, b.Span.Len()-h.Sent(i)))
		c.Tokens += n
		switch {
		case b.Kind == wire.KindToolResult:
			c.ToolUses++
		case b.IsThinking():
			c.ThinkingTokens += n
			if t := h.States[i].Task; !some || t != task {
				task, some = t, true
				c.Thinking++
			}
		}
	}
	return c
}
