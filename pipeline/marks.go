// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/admission"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// marks reports whether an edit may leave marks in a block: stubs or notes.
func marks(e *sessioncache.Edit) bool {
	if e == nil || e.Op == wire.OpRemove {
		return false
	}
	switch e.Stage {
	case stage.Admission, stage.GiveBack, stage.ToolResults, stage.Clearing:
		return true
	}
	return content.Folded(e)
}

// marksIn appends the marks in the plain text of an edit: stubs up to their name, notes up to the
// first closing bracket.
func marksIn(texts []string, e *sessioncache.Edit, text string) []string {
	named := func(frame string) {
		for rest := text; ; {
			_, after, ok := strings.Cut(rest, frame)
			if !ok {
				return
			}
			if rest = after; len(rest) >= content.IDLen {
				texts = append(texts, frame+rest[:content.IDLen])
			}
		}
	}
	noted := func(begins string) {
		for rest := text; ; {
			i := strings.Index(rest, begins)
			if i < 0 {
				return
			}
			rest = rest[i:]
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return
			}
			texts = append(texts, rest[:end+1])
			rest = rest[len(begins):]
		}
	}
	named(content.StubFrame)
	named(ReturnedFrame)
	noted(admission.Note)
	switch e.Stage {
	case stage.ToolResults:
		noted(content.CompactedNote)
	case stage.Clearing:
		noted(content.ClearedPlaceholder)
	}
	return texts
}

// foreign removes the texts that the client's own content contains.
func (r *request) foreign(texts []string) []string {
	front := r.View.System // tools and system prompt
	for i := range r.View.Blocks {
		b := &r.View.Blocks[i]
		if len(texts) == 0 {
			return nil
		}
		if i >= front && !r.States[i-front].Quotes || i < front && !content.QuotesMarks(r.View.Bytes(b.Span)) {
			continue
		}
		// The client may work on files with such texts. The model's earlier output does not count
		// as the client's own.
		text := hidden.Plain(string(r.View.Bytes(b.Span)))
		texts = slices.DeleteFunc(texts, func(t string) bool { return strings.Contains(text, t) })
	}
	return texts
}
