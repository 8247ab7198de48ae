// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamWriter writes a stream.
type streamWriter struct {
	*translate.Buffer
	flow  *translate.Flow
	steps int
}

// end ends an event with its name, which the API writes as the last member.
func (w *streamWriter) end(name string) {
	w.Raw(`,"event_type":"`)
	w.Raw(name)
	w.Raw(`"}`)
	w.Buffer.End()
}

// of begins an event of a step.
func (w *streamWriter) of(name string, b *translate.Block) {
	w.SSE(name)
	w.Raw(`{"index":`)
	w.Int(int64(b.At))
}

func (w *streamWriter) Start(m *translate.Answer) {
	w.SSE("interaction.created")
	w.Raw(`{"interaction":`)
	w.Buf = append(appendHead(w.Buf, m, "in_progress"), `,"object":"interaction"}`...)
	w.end("interaction.created")
}

func (w *streamWriter) Open(b *translate.Block) {
	b.At = w.steps
	w.steps++
	w.of("step.start", b)
	w.Raw(`,"step":`)
	switch b.Kind {
	case translate.ThinkingBlock:
		w.Raw(`{"type":"thought"}`)
	case translate.TextBlock, translate.ImageBlock:
		w.Raw(`{"type":"model_output"}`)
	default:
		w.Buf = append(appendCall(w.Buf, w.flow, b), `{}}`...)
	}
	w.end("step.start")
}

func (w *streamWriter) Delta(b *translate.Block, text string) {
	w.of("step.delta", b)
	switch b.Kind {
	case translate.ThinkingBlock:
		w.Raw(`,"delta":{"content":{"text":`)
		w.Inside(text)
		w.Raw(`,"type":"text"},"type":"thought_summary"}`)
	case translate.ImageBlock:
		w.Raw(`,"delta":`)
		w.Buf = appendImage(w.Buf, b.Name, text)
	case translate.TextBlock:
		w.Raw(`,"delta":{"text":`)
		w.Inside(text)
		w.Raw(`,"type":"text"}`)
	default:
		w.Raw(`,"delta":{"arguments":`)
		w.Inside(text)
		w.Raw(`,"type":"arguments_delta"}`)
	}
	w.end("step.delta")
}

func (w *streamWriter) Close(b *translate.Block) {
	if b.Kind == translate.ThinkingBlock {
		if s := w.flow.Seal(b, ""); s != "" {
			w.of("step.delta", b)
			w.Raw(`,"delta":{"signature":`)
			w.Str(s)
			w.Raw(`,"type":"thought_signature"}`)
			w.end("step.delta")
		}
	}
	w.of("step.stop", b)
	w.end("step.stop")
}

func (w *streamWriter) Finish(m *translate.Answer) {
	w.SSE("interaction.completed")
	w.Raw(`{"interaction":`)
	w.Buf = append(appendTail(appendHead(w.Buf, m, statuses[m.Reason()]), w.flow, m), '}')
	w.end("interaction.completed")
	w.SSE("done")
	w.Raw("[DONE]")
	w.Buffer.End()
}

// Fail ends the stream with an error event. Nothing follows it.
func (w *streamWriter) Fail(f *translate.Failure) {
	w.SSE("error")
	w.Buf = f.Append(w.Buf, w.flow.Client)
	w.Buf = w.Buf[:len(w.Buf)-1]
	w.end("error")
}

func (w *streamWriter) Ping() {
	w.Raw(": ping\n") // openai-go fails on an event without data, so no blank line follows
}
