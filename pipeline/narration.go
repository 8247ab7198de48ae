// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strings"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

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
	if o.Mode == stage.Off {
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
