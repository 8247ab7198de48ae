// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission shortens tool results, and the replaced text in calls of edits, before they are
// first sent.
//
// It is pure: its result depends on the text, its call and the blocks before it.
package admission

import (
	"bytes"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// Edit shortens tool results, and the replaced text in calls of edits, from block from on. Blocks
// before short keep their length. local reports whether the upstream caches its own output. Edit
// calls enter with the new value of a block before it looks at the next block.
//
// The edits depend only on the result, its call, and the blocks before it. Another process
// therefore makes the same edits again.
func (o *Options) Edit(h *content.History, from, short int, local bool, enter func(i int, value []byte)) {
	if o.Mode == stage.Off {
		return
	}
	for i := from; i < len(h.Blocks); i++ {
		b := &h.Blocks[i]
		if b.Kind != wire.KindToolResult {
			continue
		}
		// A call is first sent together with its result, which reports whether the edit succeeded.
		// Until then, no provider has cached the call. Local servers have: they cache their own
		// output.
		if !local && enabled(o.Replaced) && !b.Has(wire.FlagError) {
			if call := h.Call(i); call >= max(h.Known, short) {
				if value := replaced(h, call); value != nil {
					enter(call, value)
				}
			}
		}
		if b.Body.Len() < minAdmission || h.States[i].Edit != nil || h.Unread(i) {
			continue
		}
		value := o.result(h, i) // also for an unshortened result: a later pointer may refer to it
		if i >= short && len(value) > 0 && b.Body.Len()-len(value) >= stage.MinGain {
			enter(i, value)
		}
	}
}

// result returns the new content of a tool result, nil if it stays unchanged.
func (o *Options) result(h *content.History, i int) []byte {
	b := &h.Blocks[i]
	from := originOfResult(h, i)
	if enabled(o.Rereads) && pointable(b) {
		if p := reread(h, i, h.Text(i)); p != "" {
			return content.Append(nil, p)
		}
	}
	body := h.View.Bytes(b.Body)
	if body[0] == '"' {
		value := o.shortened(body, h.Text(i), from)
		if enabled(o.Overlaps) && pointable(b) && !content.MaybeWrapped(body) {
			if less := overlap(h, i, value); less != "" {
				return content.Append(nil, less)
			}
		}
		return value
	}
	if body[0] == '[' {
		return o.admitParts(body, from)
	}
	return nil
}

// shortened returns the new content of a tool result that is a JSON string, nil if the rules do not
// change it. text is the decoded string, without an envelope around it.
func (o *Options) shortened(body []byte, text string, from *origin) []byte {
	wrapped := content.MaybeWrapped(body)
	if wrapped {
		text = content.Unquote(body)
	}
	if from.source == sourceRead && !wrapped && len(text) >= minAdmission {
		// Files are the bulk of a conversation, and the padding is all that a rule removes from them. It
		// is removed from the client's bytes.
		if !from.numbered || from.failed || !enabled(o.LineNumbers) {
			return nil
		}
		return quoted.unpadded(unsafe.String(unsafe.SliceData(body), len(body)))
	}
	if t := o.admitted(text, from); len(t) < len(text) {
		return content.Append(nil, t)
	}
	return nil
}

// admitParts shortens the texts in a content of several parts. Other parts keep the client's bytes.
// It returns nil if no text changes.
func (o *Options) admitParts(body []byte, from *origin) []byte {
	var out []byte
	copied := 0
	gjson.ParseBytes(body).ForEach(func(_, part gjson.Result) bool {
		v := part.Get("text")
		if !content.IsText(part) || v.Type != gjson.String {
			return true
		}
		text := v.String()
		t := o.admitted(text, from)
		if len(t) == len(text) {
			return true
		}
		if v.Index < copied || !bytes.HasPrefix(body[v.Index:], []byte(v.Raw)) {
			return true
		}
		out = content.Append(append(out, body[copied:v.Index]...), t)
		copied = v.Index + len(v.Raw)
		return true
	})
	if copied == 0 {
		return nil
	}
	return append(out, body[copied:]...)
}
