// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// compactToolResults replaces long tool results of the middle zone by their size and a preview of
// their first line.
func (r *request) compactToolResults() {
	o := &r.o.CompactToolResults
	if o.Mode == stage.Off {
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
