// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

const (
	pointerMark = Note + "same content as the result of "
	// maxPointer exceeds the length of every pointer, in bytes. It spares a look at the text of most edits, which is in no
	// cache of the processor.
	maxPointer = 1 << 10
)

// reread returns a pointer to an equal earlier result, "" if there is none.
func reread(h *content.History, i int, text string) string {
	essence := content.Essence(text)
	if len(essence) < minAdmission {
		return ""
	}
	hash := content.Hash(essence)
	h.States[i].Content = hash
	looks := 0
	for j := range h.Alike(i, hash) {
		if looks++; looks > content.MaxAlike {
			break
		}
		if !visible(h, j) || content.Essence(content.Of(h.View, &h.Blocks[j])) != essence {
			continue
		}
		// The pointer refers to the earlier result, which must stay.
		h.States[j].Unused = 0
		id := ""
		if b := &h.Blocks[j]; !b.ID.Empty() { // results of Gemini may have no id
			id = " (" + h.View.Text(b.ID) + ")"
		}
		return fmt.Sprintf("%s%s above%s, %d lines]", pointerMark, calledFor(h, j), id, content.CountLines(essence))
	}
	return ""
}

// visible reports whether a result is sent, at least as admitted.
func visible(h *content.History, j int) bool {
	e := h.States[j].Edit
	return e == nil || e.Stage == stage.Admission && !Points(e)
}

// Points reports whether an edit replaces a block by a pointer to an earlier one.
func Points(e *sessioncache.Edit) bool {
	return e != nil && e.Stage == stage.Admission && len(e.Value) < maxPointer &&
		bytes.HasPrefix(e.Value, []byte(`"`+pointerMark))
}

// calledFor describes the call of a result in a few words.
func calledFor(h *content.History, i int) string {
	if j := h.Call(i); j >= 0 {
		return content.DescribeCall(h.View, &h.Blocks[j])
	}
	return "a call"
}

// pointable reports whether a result may become a pointer, or the target of one.
func pointable(b *wire.Block) bool { return !b.Has(wire.FlagError) && !b.Has(wire.FlagMedia) }
