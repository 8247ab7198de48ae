// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openairesponses

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/openai"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamWriter writes a stream of the Responses API. It collects the answer, since the last event
// repeats it.
type streamWriter struct {
	*translate.Buffer
	translate.Collected
	sequence int64
}

// event begins an event, up to the members of its type.
func (w *streamWriter) event(name string) {
	w.SSE(name)
	w.Raw(`{"type":"`)
	w.Raw(name)
	w.Raw(`","sequence_number":`)
	w.Int(w.sequence)
	w.sequence++
}

func (w *streamWriter) endEvent() {
	w.Raw("}")
	w.Buffer.End()
}

// of writes the item and the part that an event belongs to.
func (w *streamWriter) of(b *translate.Block, part string) {
	w.Raw(`,"item_id":`)
	w.Str(b.Item)
	w.Raw(`,"output_index":`)
	w.Int(int64(b.At))
	w.Raw(part)
}

func (w *streamWriter) Start(m *translate.Answer) {
	w.Collected.Start(m)
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		w.event(name)
		w.Raw(`,"response":`)
		w.Buf = appendAnswer(w.Buf, &w.Collected, "in_progress")
		w.endEvent()
	}
}

func (w *streamWriter) Open(b *translate.Block) {
	b.At = len(w.Blocks)
	w.Collected.Open(b)
	w.event("response.output_item.added")
	w.Raw(`,"output_index":`)
	w.Int(int64(b.At))
	w.Raw(`,"item":`)
	w.Buf = appendItem(w.Buf, w.Flow, b, "in_progress")
	w.endEvent()
	if b.Kind == translate.TextBlock {
		w.event("response.content_part.added")
		w.of(b, `,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)
		w.endEvent()
	}
}

func (w *streamWriter) Delta(b *translate.Block, text string) {
	first := len(b.Content) == 0
	w.Collected.Delta(b, text)
	switch b.Kind {
	case translate.TextBlock:
		w.event("response.output_text.delta")
		w.of(b, `,"content_index":0,"delta":`)
		w.Inside(text)
		w.Raw(`,"logprobs":[]`)
	case translate.CallBlock:
		if w.Flow.Asked.Names.Client(b.Name).Custom { // its text is a member of the arguments, so it waits for their end
			return
		}
		w.event("response.function_call_arguments.delta")
		w.of(b, `,"delta":`)
		w.Inside(text)
	default:
		if first {
			w.event("response.reasoning_summary_part.added")
			w.of(b, `,"summary_index":0,"part":{"type":"summary_text","text":""}`)
			w.endEvent()
		}
		w.event("response.reasoning_summary_text.delta")
		w.of(b, `,"summary_index":0,"delta":`)
		w.Inside(text)
	}
	w.endEvent()
}

func (w *streamWriter) Close(b *translate.Block) {
	text := rawjson.View(b.Content)
	switch {
	case b.Kind == translate.TextBlock:
		w.event("response.output_text.done")
		w.of(b, `,"content_index":0,"text":`)
		w.Inside(text)
		w.Raw(`,"logprobs":[]`)
		w.endEvent()
		w.event("response.content_part.done")
		w.of(b, `,"content_index":0,"part":{"type":"output_text","text":`)
		w.Inside(text)
		w.Raw(`,"annotations":[]}`)
		w.endEvent()
	case b.Kind == translate.ThinkingBlock && text != "":
		w.event("response.reasoning_summary_text.done")
		w.of(b, `,"summary_index":0,"text":`)
		w.Inside(text)
		w.endEvent()
		w.event("response.reasoning_summary_part.done")
		w.of(b, `,"summary_index":0,"part":{"type":"summary_text","text":`)
		w.Inside(text)
		w.Raw("}")
		w.endEvent()
	case b.Kind == translate.CallBlock && w.Flow.Asked.Names.Client(b.Name).Custom:
		for _, name := range [...][2]string{
			{"response.custom_tool_call_input.delta", `,"delta":`},
			{"response.custom_tool_call_input.done", `,"input":`},
		} {
			w.event(name[0])
			w.of(b, name[1])
			w.Buf = openai.AppendCustomInput(w.Buf, text)
			w.endEvent()
		}
	case b.Kind == translate.CallBlock:
		w.event("response.function_call_arguments.done")
		w.of(b, `,"name":`)
		w.Str(w.Flow.Asked.Names.Client(b.Name).Name)
		w.Raw(`,"arguments":`)
		w.Inside(text)
		w.endEvent()
	}
	w.event("response.output_item.done")
	w.Raw(`,"output_index":`)
	w.Int(int64(b.At))
	w.Raw(`,"item":`)
	w.Buf = appendItem(w.Buf, w.Flow, b, "completed")
	w.endEvent()
}

func (w *streamWriter) Finish(m *translate.Answer) {
	name := "response.completed"
	if statusOf(m) == "incomplete" {
		name = "response.incomplete"
	}
	w.event(name)
	w.Raw(`,"response":`)
	w.Buf = appendAnswer(w.Buf, &w.Collected, "")
	w.endEvent()
}

// Fail ends the stream with response.failed.
func (w *streamWriter) Fail(f *translate.Failure) {
	names := f.In(w.Flow.Client)
	code := openai.Code(f, names)
	if code == "" {
		code = "server_error"
		if names.Type != "server_error" {
			code = "invalid_prompt"
		}
	}
	// Even an answer that has not begun ends in response.failed. Codex does not know the event
	// "error": it takes the stream for broken and retries.
	if w.Answer == nil {
		w.Flow.Answer.ID = w.Flow.Invent("resp", 0)
		w.Start(&w.Flow.Answer)
	}
	w.event("response.failed")
	w.Raw(`,"response":`)
	w.Buf = appendHead(w.Buf, &w.Collected, "failed")
	w.Raw(`,"error":{"code":`)
	w.Str(code)
	w.Raw(`,"message":`)
	w.Str(f.Text(w.Flow.Client))
	w.Raw(`},"incomplete_details":null,"output":[],"usage":null}`)
	w.endEvent()
}

func (w *streamWriter) Ping() {
	w.Raw(": ping\n") // openai-go fails on an event without data, so no blank line follows
}
