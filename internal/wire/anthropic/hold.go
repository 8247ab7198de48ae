// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// holder holds tool_use blocks from their start to their stop.
type holder struct {
	open []heldBlock
}

type heldBlock struct {
	index       int64
	start, args []byte
}

func (h *holder) Event(o *translate.Buffer, name string, data []byte, root gjson.Result) bool {
	at, index := -1, root.Get("index").Int()
	for i := range h.open {
		if h.open[i].index == index {
			at = i
		}
	}
	kind := root.Get("type").Str
	switch {
	case kind == "content_block_start" && root.Get("content_block.type").Str == "tool_use":
		h.open = append(h.open, heldBlock{index: index, start: bytes.Clone(data)})
		return false
	case at >= 0 && kind == "content_block_delta":
		h.open[at].args = append(h.open[at].args, rawjson.Inner(root.Get("delta.partial_json"))...)
		return false
	case at >= 0 && kind == "content_block_stop":
		h.open[at].send(o)
		h.open = slices.Delete(h.open, at, at+1)
	}
	o.Pass(name, data)
	return kind == "message_stop"
}

// send sends a block as far as it has come.
func (b *heldBlock) send(o *translate.Buffer) {
	o.Pass("content_block_start", b.start)
	if len(b.args) > 0 {
		o.SSE("content_block_delta")
		o.Raw(`{"type":"content_block_delta","index":`)
		o.Raw(strconv.FormatInt(b.index, 10))
		o.Raw(`,"delta":{"type":"input_json_delta","partial_json":`)
		o.Inside(rawjson.View(b.args))
		o.Raw("}}")
		o.End()
	}
}

func (h *holder) Flush(o *translate.Buffer) {
	for i := range h.open {
		h.open[i].send(o)
	}
	h.open = nil
}

func (h *holder) Weight() (n int) {
	for i := range h.open {
		n += translate.HeldWeight + len(h.open[i].start) + len(h.open[i].args)
	}
	return n
}
