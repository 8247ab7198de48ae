// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package admission shortens results of tools, and what calls say they have
// replaced, when they are seen for the first time.
//
// It is pure: what it does to a text depends on the text, its call and what stands
// in front of it.
package admission

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/stage"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/content"
)

// Edit takes out of tool results what says nothing, and out of calls what they
// have replaced, when they are seen for the first time: from a block on. What is
// done depends on the result, its call, and what stands in front of it, and on
// nothing that changes later: a process that has forgotten the conversation does
// the same again. What was forwarded before stays as it went out.
//
// Nothing in front of the block short is shortened. Local reports whether the upstream
// caches what it generates itself. What admission makes of a block is entered
// before the next is looked at.
func (o *Options) Edit(h *content.History, from, short int, local bool, enter func(i int, value []byte)) {
	if o.Mode == stage.Off {
		return
	}
	for i := from; i < len(h.Blocks); i++ {
		b := &h.Blocks[i]
		if b.Kind != wire.KindToolResult {
			continue
		}
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
		value := o.result(h, i) // of what is not shortened, too: it may be pointed to
		if i >= short && len(value) > 0 && b.Body.Len()-len(value) >= stage.MinGain {
			enter(i, value)
		}
	}
}

// result returns the new content of a tool result, nil if it stays.
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
		text := h.Text(i)
		wrapped := content.MaybeWrapped(body)
		if wrapped {
			text = content.Unquote(body)
		}
		t := o.admitted(text, from)
		if enabled(o.Overlaps) && pointable(b) && !wrapped {
			if less := overlap(h, i, t); less != "" {
				t = less
			}
		}
		if len(t) < len(text) {
			return content.Append(nil, t)
		}
		return nil
	}
	if body[0] == '[' {
		return o.admitParts(body, from)
	}
	return nil
}

// admitParts does the same for a content of several parts. All but the texts
// stays in the client's bytes. It returns nil if nothing changes.
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
