// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamWriter writes a stream of the Messages API.
type streamWriter struct {
	*translate.Buffer
	flow *translate.Flow
	next int
}

func (w *streamWriter) Start(m *translate.Answer) {
	w.SSE("message_start")
	w.Raw(`{"type":"message_start","message":`)
	w.Buf = appendHead(w.Buf, m)
	w.Raw(`,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`)
	w.Buf = appendUsage(w.Buf, m.Usage)
	w.Raw(`}}`)
	w.End()
}

func (w *streamWriter) Open(b *translate.Block) {
	b.At = w.next
	w.next++
	w.SSE("content_block_start")
	w.Raw(`{"type":"content_block_start","index":`)
	w.Int(int64(b.At))
	w.Raw(`,"content_block":`)
	switch {
	case b.Kind == translate.CallBlock:
		w.Raw(`{"type":"tool_use","id":`)
		w.Str(w.flow.CallID(b))
		w.Raw(`,"name":`)
		w.Str(w.flow.Asked.Names.Client(b.Name).Name)
		w.Raw(`,"input":{}}`)
	case b.Kind == translate.TextBlock:
		w.Raw(`{"type":"text","text":""}`)
	case w.opaque(b):
		w.Raw(`{"type":"redacted_thinking","data":`)
		w.Str(b.Signature)
		w.Raw("}")
	default:
		w.Raw(`{"type":"thinking","thinking":"","signature":""}`)
	}
	w.Raw("}")
	w.End()
}

// opaque reports whether the block is redacted_thinking from Anthropic itself.
func (w *streamWriter) opaque(b *translate.Block) bool {
	return b.Signs == wire.SignsRedacted && w.flow.SameFormat()
}

func (w *streamWriter) Delta(b *translate.Block, text string) {
	w.SSE("content_block_delta")
	w.Raw(`{"type":"content_block_delta","index":`)
	w.Int(int64(b.At))
	switch b.Kind {
	case translate.CallBlock:
		w.Raw(`,"delta":{"type":"input_json_delta","partial_json":`)
	case translate.TextBlock:
		w.Raw(`,"delta":{"type":"text_delta","text":`)
	default:
		w.Raw(`,"delta":{"type":"thinking_delta","thinking":`)
	}
	w.Inside(text)
	w.Raw("}}")
	w.End()
}

func (w *streamWriter) Close(b *translate.Block) {
	if b.Kind == translate.ThinkingBlock && !w.opaque(b) {
		w.SSE("content_block_delta")
		w.Raw(`{"type":"content_block_delta","index":`)
		w.Int(int64(b.At))
		w.Raw(`,"delta":{"type":"signature_delta","signature":`)
		w.Str(w.flow.Seal(b, ""))
		w.Raw("}}")
		w.End()
	}
	w.SSE("content_block_stop")
	w.Raw(`{"type":"content_block_stop","index":`)
	w.Int(int64(b.At))
	w.Raw("}")
	w.End()
}

func (w *streamWriter) Finish(m *translate.Answer) {
	w.SSE("message_delta")
	w.Raw(`{"type":"message_delta","delta":{`)
	w.Buf = appendStop(w.Buf, m)
	w.Raw(`},"usage":`)
	w.Buf = appendUsage(w.Buf, m.Usage)
	w.Raw("}")
	w.End()
	w.SSE("message_stop")
	w.Raw(`{"type":"message_stop"}`)
	w.End()
}

func (w *streamWriter) Fail(f *translate.Failure) {
	w.SSE("error")
	w.Buf = f.Append(w.Buf, w.flow.Client)
	w.End()
}

// Ping writes a ping event, or a comment before message_start.
func (w *streamWriter) Ping() {
	// Clients expect no event before message_start. A comment resets their timeouts as well.
	if !w.flow.Answer.Started {
		w.Raw(": ping\n")
		return
	}
	w.SSE("ping")
	w.Raw(`{"type":"ping"}`)
	w.End()
}
