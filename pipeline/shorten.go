// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// admit runs admission over the new blocks.
func (r *request) admit() {
	short := beyondMinimum(r.View, r.rules.MinTokens)
	r.o.Admission.Edit(&r.History, max(r.Known, r.cached.held), short, r.rules.Regime == pricing.KV, r.admitted)
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

// beyondMinimum returns the first message block that has at least the minimum cacheable prefix
// before it, by a low estimate.
func beyondMinimum(v *wire.View, minTokens int) int {
	const bytesPerToken = 4
	left := bytesPerToken * minTokens
	for i := range v.Blocks {
		if left <= 0 {
			// Blocks before it are not shortened: a prompt below the minimum would not be cached,
			// and cost more than before.
			return max(0, i-v.System)
		}
		if v.Blocks[i].Kind != wire.KindProgram { // not part of the prompt
			left -= v.Blocks[i].Span.Len()
		}
	}
	return len(v.MessageBlocks())
}

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
		if t == "" || r.States[i].Pinned || b.Kind != wire.KindToolResult || int(r.States[i].Unused) < after || b.Has(wire.FlagError) || !r.zones.Middle(b) || !r.may(i) {
			continue
		}
		if e := r.States[i].Edit; e != nil && e.Stage == stage.Prune || r.Size(i) < content.MinTrait || !r.pays(o.Mode, i, r.Size(i)-minStub) {
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
	over := *o.Over
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
	return fmt.Sprintf("%s%d lines, %d chars]\n%s", content.CompactedNote, content.CountLines(text), chars, strings.Join(content.HeadLines(text, 1, 120), ""))
}

// openers are the beginnings of filler sentences of coding agents.
var openers = []string{
	"Let me ", "Let's ", "Now let me ", "Now let's ", "Now I'll ", "Now I will ", "Now I need to ", "I'll ", "I will ",
	"I need to ", "I'm going to ", "Next, I'll ", "Next, let me ", "First, let me ", "First, I'll ", "Sure", "Great", "Good",
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
	for i := range r.Blocks {
		if r.may(i) && r.pays(o.Mode, i, r.Blocks[i].Span.Len()) && r.announces(i) {
			r.set(i, stage.Narration, wire.OpRemove, nil)
		}
	}
}

// announces reports whether a block is a removable text that only announces the call beside it.
func (r *request) announces(i int) bool {
	b, under := &r.Blocks[i], *r.o.StripNarration.Under
	if b.Kind != wire.KindText || b.Role != wire.RoleAssistant || b.Body.Len() < 3 || b.Body.Len() > 6*under ||
		r.States[i].Edit != nil || !b.Marker.Empty() || !r.zones.Middle(b) || !besideCall(&r.History, i) || !r.View.Removable(r.View.System+i) {
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
