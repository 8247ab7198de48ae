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

// compactToolResults replaces long tool results of the middle zone by their
// size and a preview of their first line. Errors stay, because the model needs
// to know what went wrong; parts that are not text stay too.
func (r *request) compactToolResults() {
	o := &r.o.CompactToolResults
	if o.Mode == stage.Off {
		return
	}
	over := *o.Over
	for i := range r.Blocks {
		b := &r.Blocks[i]
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

// open reports whether nothing has been done to a block but to admit it.
func (r *request) open(i int) bool {
	e := r.States[i].Edit
	return e == nil || e.Stage == stage.Admission
}

func compacted(text string, chars int) string {
	return fmt.Sprintf("%s%d lines, %d chars]\n%s", content.CompactedNote, content.CountLines(text), chars, strings.Join(content.HeadLines(text, 1, 120), ""))
}
