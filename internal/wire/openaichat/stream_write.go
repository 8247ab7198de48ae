// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"strconv"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamWriter writes a stream of chat completions.
type streamWriter struct {
	*translate.Buffer
	flow *translate.Flow
	head []byte // the beginning of every chunk
	next int
	last []byte // calls for the last chunk
}

func (w *streamWriter) Start(m *translate.Answer) {
	w.head = append(w.head, `{"id":"`...)
	w.head = rawjson.AppendEscaped(w.head, m.ID)
	w.head = append(w.head, `","object":"chat.completion.chunk","created":`...)
	w.head = strconv.AppendInt(w.head, w.flow.Asked.Created, 10)
	w.head = append(w.head, `,"model":"`...)
	w.head = rawjson.AppendEscaped(w.head, m.Model)
	w.head = append(w.head, `","choices":[`...)
	w.chunk()
	w.Raw(`"role":"assistant","content":""`)
	w.endChunk()
}

// chunk begins a chunk, up to the members of its delta.
func (w *streamWriter) chunk() {
	w.Data()
	w.Buf = append(w.Buf, w.head...)
	w.Raw(`{"index":0,"delta":{`)
}

func (w *streamWriter) endChunk() {
	w.Raw(`},"finish_reason":null}]}`)
	w.Buffer.End()
}

func (w *streamWriter) Open(b *translate.Block) {
	if b.Kind != translate.CallBlock {
		return
	}
	b.At = w.next
	w.next++
	if w.whole(b) {
		return
	}
	w.chunk()
	w.Raw(`"tool_calls":[{"index":`)
	w.Int(int64(b.At))
	w.Raw(`,"id":`)
	w.Str(w.flow.CallID(b))
	w.Raw(`,"type":"function","function":{"name":`)
	w.Str(w.flow.Asked.Names.Client(b.Name).Name)
	w.Raw(`,"arguments":""}}]`)
	w.endChunk()
}

// whole reports whether a call is sent in one piece.
func (w *streamWriter) whole(b *translate.Block) bool {
	return w.flow.Asked.BufferCalls || w.flow.Asked.Names.Client(b.Name).Custom
}

func (w *streamWriter) Delta(b *translate.Block, text string) {
	if b.Kind == translate.CallBlock && w.whole(b) {
		b.Content = append(b.Content, text...)
		return
	}
	w.chunk()
	switch b.Kind {
	case translate.CallBlock:
		w.Raw(`"tool_calls":[{"index":`)
		w.Int(int64(b.At))
		w.Raw(`,"function":{"arguments":`)
		w.Inside(text)
		w.Raw("}}]")
	case translate.TextBlock:
		w.Raw(`"content":`)
		w.Inside(text)
	case translate.ImageBlock:
		w.Raw(`"images":[`)
		w.Buf = appendImage(w.Buf, b.Name, text)
		w.Raw("]")
	default:
		w.Raw(`"reasoning_content":`)
		w.Inside(text)
		if !w.flow.SameFormat() {
			b.Content = append(b.Content, text...)
		}
	}
	w.endChunk()
}

func (w *streamWriter) Close(b *translate.Block) {
	switch {
	case b.Kind != translate.CallBlock || !w.whole(b):
	case w.flow.Asked.JoinCalls:
		if w.last != nil {
			w.last = append(w.last, ',')
		}
		w.last = appendCall(w.last, w.flow, b, b.At)
	default:
		w.chunk()
		w.Raw(`"tool_calls":[`)
		w.Buf = appendCall(w.Buf, w.flow, b, b.At)
		w.Raw("]")
		w.endChunk()
	}
	if b.Kind != translate.ThinkingBlock || b.Signature == "" {
		return
	}
	w.chunk()
	w.Raw(`"reasoning_details":[`)
	w.Buf = appendSealed(w.Buf, w.flow.Seal(b, rawjson.Plain(rawjson.View(b.Content))))
	w.Raw("]")
	w.endChunk()
}

func (w *streamWriter) Finish(m *translate.Answer) {
	w.Data()
	w.Buf = append(w.Buf, w.head...)
	w.Raw(`{"index":0,"delta":{`)
	if w.last != nil {
		w.Raw(`"tool_calls":[`)
		w.Buf = append(w.Buf, w.last...)
		w.Raw("]")
	}
	w.Raw(`},"finish_reason":"`)
	w.Buf = rawjson.AppendEscaped(w.Buf, finishReason(m))
	w.Raw(`"}]`)
	if m.Usage.Reported && !w.flow.Asked.Usage {
		w.Raw(`,"usage":`)
		w.Buf = appendUsage(w.Buf, m)
	}
	w.Raw("}")
	w.Buffer.End()
	if m.Usage.Reported && w.flow.Asked.Usage {
		w.Data()
		w.Buf = append(w.Buf, w.head...)
		w.Raw(`],"usage":`)
		w.Buf = appendUsage(w.Buf, m)
		w.Raw("}")
		w.Buffer.End()
	}
	w.Raw("data: [DONE]")
	w.Buffer.End()
}

func (w *streamWriter) Fail(f *translate.Failure) {
	w.Data()
	w.Buf = f.Append(w.Buf, w.flow.Client)
	w.Buffer.End()
}

func (w *streamWriter) Ping() {
	w.Raw(": ping\n") // openai-go fails on an event without data, so no blank line follows
}
