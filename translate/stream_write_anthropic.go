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

// anthropicWriter writes a stream of the Messages API.
type anthropicWriter struct {
	*output
	flow *flow
	next int
}

func (w *anthropicWriter) start(m *message) {
	w.sse("message_start")
	w.raw(`{"type":"message_start","message":`)
	w.buf = appendAnthropicHead(w.buf, m)
	w.raw(`,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`)
	w.buf = appendAnthropicUsage(w.buf, m.usage)
	w.raw(`}}`)
	w.end()
}

func (w *anthropicWriter) open(b *block) {
	b.at = w.next
	w.next++
	w.sse("content_block_start")
	w.raw(`{"type":"content_block_start","index":`)
	w.int(int64(b.at))
	w.raw(`,"content_block":`)
	switch {
	case b.kind == blockCall:
		w.raw(`{"type":"tool_use","id":`)
		w.string(w.flow.callID(b))
		w.raw(`,"name":`)
		w.string(w.flow.asked.Names.Client(b.name).Name)
		w.raw(`,"input":{}}`)
	case b.kind == blockText:
		w.raw(`{"type":"text","text":""}`)
	case w.opaque(b):
		w.raw(`{"type":"redacted_thinking","data":`)
		w.string(b.signature)
		w.raw("}")
	default:
		w.raw(`{"type":"thinking","thinking":"","signature":""}`)
	}
	w.raw("}")
	w.end()
}

// opaque reports whether the block is redacted_thinking of Anthropic's own.
func (w *anthropicWriter) opaque(b *block) bool { return b.redacted && w.flow.own() }

func (w *anthropicWriter) delta(b *block, text string) {
	w.sse("content_block_delta")
	w.raw(`{"type":"content_block_delta","index":`)
	w.int(int64(b.at))
	switch b.kind {
	case blockCall:
		w.raw(`,"delta":{"type":"input_json_delta","partial_json":`)
	case blockText:
		w.raw(`,"delta":{"type":"text_delta","text":`)
	default:
		w.raw(`,"delta":{"type":"thinking_delta","thinking":`)
	}
	w.inside(text)
	w.raw("}}")
	w.end()
}

func (w *anthropicWriter) close(b *block) {
	if b.kind == blockThinking && !w.opaque(b) {
		w.sse("content_block_delta")
		w.raw(`{"type":"content_block_delta","index":`)
		w.int(int64(b.at))
		w.raw(`,"delta":{"type":"signature_delta","signature":`)
		w.string(w.flow.seal(b, ""))
		w.raw("}}")
		w.end()
	}
	w.sse("content_block_stop")
	w.raw(`{"type":"content_block_stop","index":`)
	w.int(int64(b.at))
	w.raw("}")
	w.end()
}

func (w *anthropicWriter) finish(m *message) {
	w.sse("message_delta")
	w.raw(`{"type":"message_delta","delta":{`)
	w.buf = appendAnthropicStop(w.buf, m)
	w.raw(`},"usage":`)
	w.buf = appendAnthropicUsage(w.buf, m.usage)
	w.raw("}")
	w.end()
	w.sse("message_stop")
	w.raw(`{"type":"message_stop"}`)
	w.end()
}

func (w *anthropicWriter) fail(f *Failure) {
	w.sse("error")
	w.buf = f.append(w.buf, w.flow.client)
	w.end()
}

// ping is a comment before the message has begun: clients count the bytes of
// either, but do not expect an event there.
func (w *anthropicWriter) ping() {
	if !w.flow.started {
		w.raw(": ping")
		w.end()
		return
	}
	w.sse("ping")
	w.raw(`{"type":"ping"}`)
	w.end()
}
