// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

// responsesWriter writes a stream of the Responses API. Its last event repeats
// the whole answer.
type responsesWriter struct {
	*output
	collected
	sequence int64
}

// event begins an event, up to the members of its own.
func (w *responsesWriter) event(name string) {
	w.sse(name)
	w.raw(`{"type":"`)
	w.raw(name)
	w.raw(`","sequence_number":`)
	w.int(w.sequence)
	w.sequence++
}

func (w *responsesWriter) endEvent() {
	w.raw("}")
	w.output.end()
}

// of writes which item, and which part of it, an event is about.
func (w *responsesWriter) of(b *block, part string) {
	w.raw(`,"item_id":`)
	w.string(b.item)
	w.raw(`,"output_index":`)
	w.int(int64(b.at))
	w.raw(part)
}

func (w *responsesWriter) start(m *message) {
	w.collected.start(m)
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		w.event(name)
		w.raw(`,"response":`)
		w.buf = appendResponse(w.buf, &w.collected, "in_progress")
		w.endEvent()
	}
}

func (w *responsesWriter) open(b *block) {
	b.at = len(w.blocks)
	w.collected.open(b)
	w.event("response.output_item.added")
	w.raw(`,"output_index":`)
	w.int(int64(b.at))
	w.raw(`,"item":`)
	w.buf = appendResponseItem(w.buf, w.flow, b, "in_progress")
	w.endEvent()
	if b.kind == blockText {
		w.event("response.content_part.added")
		w.of(b, `,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)
		w.endEvent()
	}
}

func (w *responsesWriter) delta(b *block, text string) {
	first := len(b.content) == 0
	w.collected.delta(b, text)
	switch b.kind {
	case blockText:
		w.event("response.output_text.delta")
		w.of(b, `,"content_index":0,"delta":`)
		w.inside(text)
		w.raw(`,"logprobs":[]`)
	case blockCall:
		if w.flow.asked.Names.Client(b.name).Custom { // its text stands inside the arguments
			return
		}
		w.event("response.function_call_arguments.delta")
		w.of(b, `,"delta":`)
		w.inside(text)
	default:
		if first {
			w.event("response.reasoning_summary_part.added")
			w.of(b, `,"summary_index":0,"part":{"type":"summary_text","text":""}`)
			w.endEvent()
		}
		w.event("response.reasoning_summary_text.delta")
		w.of(b, `,"summary_index":0,"delta":`)
		w.inside(text)
	}
	w.endEvent()
}

func (w *responsesWriter) close(b *block) {
	text := view(b.content)
	switch {
	case b.kind == blockText:
		w.event("response.output_text.done")
		w.of(b, `,"content_index":0,"text":`)
		w.inside(text)
		w.raw(`,"logprobs":[]`)
		w.endEvent()
		w.event("response.content_part.done")
		w.of(b, `,"content_index":0,"part":{"type":"output_text","text":`)
		w.inside(text)
		w.raw(`,"annotations":[]}`)
		w.endEvent()
	case b.kind == blockThinking && text != "":
		w.event("response.reasoning_summary_text.done")
		w.of(b, `,"summary_index":0,"text":`)
		w.inside(text)
		w.endEvent()
		w.event("response.reasoning_summary_part.done")
		w.of(b, `,"summary_index":0,"part":{"type":"summary_text","text":`)
		w.inside(text)
		w.raw("}")
		w.endEvent()
	case b.kind == blockCall && w.flow.asked.Names.Client(b.name).Custom:
		for _, name := range [...][2]string{{"response.custom_tool_call_input.delta", `,"delta":`}, {"response.custom_tool_call_input.done", `,"input":`}} {
			w.event(name[0])
			w.of(b, name[1])
			w.buf = appendCustomInput(w.buf, text)
			w.endEvent()
		}
	case b.kind == blockCall:
		w.event("response.function_call_arguments.done")
		w.of(b, `,"name":`)
		w.string(w.flow.asked.Names.Client(b.name).Name)
		w.raw(`,"arguments":`)
		w.inside(text)
		w.endEvent()
	}
	w.event("response.output_item.done")
	w.raw(`,"output_index":`)
	w.int(int64(b.at))
	w.raw(`,"item":`)
	w.buf = appendResponseItem(w.buf, w.flow, b, "completed")
	w.endEvent()
}

func (w *responsesWriter) finish(m *message) {
	name := "response.completed"
	if responseStatus(m) == "incomplete" {
		name = "response.incomplete"
	}
	w.event(name)
	w.raw(`,"response":`)
	w.buf = appendResponse(w.buf, &w.collected, "")
	w.endEvent()
}

// fail ends the stream as the API does; before it has begun there is no
// response to speak of.
func (w *responsesWriter) fail(f *Failure) {
	names := f.in(w.flow.client)
	code := openAICode(f, names)
	if code == "" {
		code = "server_error"
		if names.kind != "server_error" {
			code = "invalid_prompt"
		}
	}
	if w.message == nil {
		w.event("error")
		w.raw(`,"code":`)
		w.string(code)
		w.raw(`,"message":`)
		w.string(f.text(w.flow.client))
		w.raw(`,"param":null`)
		w.endEvent()
		return
	}
	w.event("response.failed")
	w.raw(`,"response":`)
	w.buf = appendResponseHead(w.buf, &w.collected, "failed")
	w.raw(`,"error":{"code":`)
	w.string(code)
	w.raw(`,"message":`)
	w.string(f.text(w.flow.client))
	w.raw(`},"incomplete_details":null,"output":[],"usage":null}`)
	w.endEvent()
}

func (w *responsesWriter) ping() {
	w.raw(": ping")
	w.output.end()
}
