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

import "strconv"

// chatWriter writes a stream of chat completions.
type chatWriter struct {
	*output
	flow *flow
	head []byte // how every chunk begins
	next int
	last []byte // calls that go into the last chunk
}

func (w *chatWriter) start(m *message) {
	w.head = append(w.head, `{"id":"`...)
	w.head = appendEscaped(w.head, m.id)
	w.head = append(w.head, `","object":"chat.completion.chunk","created":`...)
	w.head = strconv.AppendInt(w.head, w.flow.asked.Created, 10)
	w.head = append(w.head, `,"model":"`...)
	w.head = appendEscaped(w.head, m.model)
	w.head = append(w.head, `","choices":[`...)
	w.chunk()
	w.raw(`"role":"assistant","content":""`)
	w.endChunk()
}

// chunk begins a chunk up to the members of its delta.
func (w *chatWriter) chunk() {
	w.data()
	w.buf = append(w.buf, w.head...)
	w.raw(`{"index":0,"delta":{`)
}

func (w *chatWriter) endChunk() {
	w.raw(`},"finish_reason":null}]}`)
	w.output.end()
}

func (w *chatWriter) open(b *block) {
	if b.kind != blockCall {
		return
	}
	b.at = w.next
	w.next++
	if w.whole(b) {
		return
	}
	w.chunk()
	w.raw(`"tool_calls":[{"index":`)
	w.int(int64(b.at))
	w.raw(`,"id":`)
	w.string(w.flow.callID(b))
	w.raw(`,"type":"function","function":{"name":`)
	w.string(w.flow.asked.Names.Client(b.name).Name)
	w.raw(`,"arguments":""}}]`)
	w.endChunk()
}

// whole reports whether a call goes out in one piece.
func (w *chatWriter) whole(b *block) bool {
	return w.flow.asked.BufferCalls || w.flow.asked.Names.Client(b.name).Custom
}

func (w *chatWriter) delta(b *block, text string) {
	if b.kind == blockCall && w.whole(b) {
		b.content = append(b.content, text...)
		return
	}
	w.chunk()
	switch b.kind {
	case blockCall:
		w.raw(`"tool_calls":[{"index":`)
		w.int(int64(b.at))
		w.raw(`,"function":{"arguments":`)
		w.inside(text)
		w.raw("}}]")
	case blockText:
		w.raw(`"content":`)
		w.inside(text)
	default:
		w.raw(`"reasoning_content":`)
		w.inside(text)
		if !w.flow.own() {
			b.content = append(b.content, text...)
		}
	}
	w.endChunk()
}

func (w *chatWriter) close(b *block) {
	switch {
	case b.kind != blockCall || !w.whole(b):
	case w.flow.asked.JoinCalls:
		if w.last != nil {
			w.last = append(w.last, ',')
		}
		w.last = appendChatCall(w.last, w.flow, b, b.at)
	default:
		w.chunk()
		w.raw(`"tool_calls":[`)
		w.buf = appendChatCall(w.buf, w.flow, b, b.at)
		w.raw("]")
		w.endChunk()
	}
	if b.kind != blockThinking || b.signature == "" {
		return
	}
	w.chunk()
	w.raw(`"reasoning_details":[`)
	w.buf = appendChatSealed(w.buf, w.flow.seal(b, plain(view(b.content))))
	w.raw("]")
	w.endChunk()
}

func (w *chatWriter) finish(m *message) {
	w.data()
	w.buf = append(w.buf, w.head...)
	w.raw(`{"index":0,"delta":{`)
	if w.last != nil {
		w.raw(`"tool_calls":[`)
		w.buf = append(w.buf, w.last...)
		w.raw("]")
	}
	w.raw(`},"finish_reason":"`)
	w.raw(chatReasons[m.reason()])
	w.raw(`"}]`)
	if m.usage.Reported && !w.flow.asked.Usage {
		w.raw(`,"usage":`)
		w.buf = appendChatUsage(w.buf, m)
	}
	w.raw("}")
	w.output.end()
	if m.usage.Reported && w.flow.asked.Usage {
		w.data()
		w.buf = append(w.buf, w.head...)
		w.raw(`],"usage":`)
		w.buf = appendChatUsage(w.buf, m)
		w.raw("}")
		w.output.end()
	}
	w.raw("data: [DONE]")
	w.output.end()
}

func (w *chatWriter) fail(f *Failure) {
	w.data()
	w.buf = f.append(w.buf, w.flow.client)
	w.output.end()
}

func (w *chatWriter) ping() {
	w.raw(": ping")
	w.output.end()
}
