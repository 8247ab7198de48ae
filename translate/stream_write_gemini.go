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

// geminiWriter writes a stream of the Gemini API. Its clients know neither
// comments nor events of other kinds, and get calls whole.
type geminiWriter struct {
	*output
	flow    *flow
	tail    []byte // how every chunk ends
	sealed  string // of the thinking before the next call
	written bool
}

func (w *geminiWriter) start(m *message) {
	w.tail = appendGeminiTail(nil, m)
}

// chunk begins a chunk up to the candidate's parts.
func (w *geminiWriter) chunk() {
	switch {
	case !w.flow.asked.Array:
		w.data()
	case w.written:
		w.raw(",\r\n")
	default:
		w.raw("[")
	}
	w.written = true
	w.raw(`{"candidates":[{"content":{"role":"model","parts":[`)
}

func (w *geminiWriter) endChunk() {
	w.raw(`]},"index":0}]`)
	w.buf = append(w.buf, w.tail...)
	w.raw("}")
	w.endEvent()
}

func (w *geminiWriter) endEvent() {
	if !w.flow.asked.Array {
		w.output.end()
	}
}

func (w *geminiWriter) open(*block) {}

func (w *geminiWriter) delta(b *block, text string) {
	if b.kind != blockText {
		b.content = append(b.content, text...)
	}
	if b.kind == blockCall {
		return
	}
	w.chunk()
	w.raw(`{"text":`)
	w.inside(text)
	if b.kind == blockThinking {
		w.raw(`,"thought":true`)
	}
	w.raw("}")
	w.endChunk()
}

func (w *geminiWriter) close(b *block) {
	switch b.kind {
	case blockThinking:
		w.sealed = w.flow.seal(b, plain(view(b.content)))
		if w.sealed == "" || !w.flow.own() {
			return
		}
		w.chunk()
		w.buf = appendGeminiSealed(w.buf, w.sealed)
		w.endChunk()
		w.sealed = ""
	case blockCall:
		w.chunk()
		w.buf = appendGeminiCall(w.buf, w.flow, b, w.sealed)
		w.endChunk()
		w.sealed = ""
	}
}

func (w *geminiWriter) finish(m *message) {
	w.chunk()
	if w.sealed == "" {
		w.raw(`{"text":""}`)
	} else {
		w.buf = appendGeminiSealed(w.buf, w.sealed)
	}
	w.raw(`]},"finishReason":"`)
	w.raw(geminiReasons[m.reason()])
	w.raw(`","index":0}]`)
	if m.usage.Reported {
		w.raw(`,"usageMetadata":`)
		w.buf = appendGeminiUsage(w.buf, m)
	}
	w.buf = append(w.buf, w.tail...)
	w.raw("}")
	if w.flow.asked.Array {
		w.raw("]")
	}
	w.endEvent()
}

// fail writes the error as the API does, as bare JSON: what stands in a data field
// is an answer to Google's SDK for JavaScript and so to Gemini CLI, which sees none
// in it, tries again and tells at last that there was no reason to end.
func (w *geminiWriter) fail(f *Failure) {
	switch {
	case !w.flow.asked.Array:
	case w.written:
		w.raw(",\r\n")
	default:
		w.raw("[")
	}
	w.buf = f.append(w.buf, w.flow.client)
	if w.flow.asked.Array {
		w.raw("]")
	}
	w.endEvent()
}

func (w *geminiWriter) ping() {}

func appendGeminiTail(b []byte, m *message) []byte {
	b = append(b, `,"modelVersion":"`...)
	b = appendEscaped(b, m.model)
	b = append(b, `","responseId":"`...)
	b = appendEscaped(b, m.id)
	return append(b, '"')
}

// appendGeminiSealed writes a thought that is nothing but its signature.
func appendGeminiSealed(b []byte, sealed string) []byte {
	b = append(b, `{"text":"","thought":true,"thoughtSignature":"`...)
	b = appendEscaped(b, sealed)
	return append(b, `"}`...)
}

// unsignedCall stands in answers for the signature that the first call of a turn
// must have, where the model gave none: clients warn without it. It is what Google
// documents for histories made elsewhere, see skipValidator, in the alphabet of
// base64 that the SDKs decode: the same bytes, so that the history is good at
// Google's own API, too.
const unsignedCall = "skip/thought/signature/validator"

func appendGeminiCall(dst []byte, f *flow, b *block, sealed string) []byte {
	dst = append(dst, `{"functionCall":{"id":"`...)
	dst = appendEscaped(dst, f.callID(b))
	dst = append(dst, `","name":"`...)
	dst = appendEscaped(dst, f.asked.Names.Client(b.name).Name)
	dst = append(dst, `","args":`...)
	dst = appendObject(dst, view(b.content))
	dst = append(dst, '}')
	switch {
	case b.signature != "":
		sealed = b.signature
	case sealed == "" && b.place == 0 && !f.own():
		sealed = unsignedCall
	}
	if sealed != "" {
		dst = append(dst, `,"thoughtSignature":"`...)
		dst = appendEscaped(dst, sealed)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

var geminiReasons = [...]string{
	stopUnknown: "STOP", stopEnd: "STOP", stopLength: "MAX_TOKENS", stopCalls: "STOP", stopSequence: "STOP",
	stopRefusal: "SAFETY", stopFilter: "SAFETY", stopPause: "STOP", stopContext: "MAX_TOKENS",
}

// appendGeminiUsage writes the counts: the prompt's includes what was read from
// the cache, the candidates' leaves the thoughts out. What was written to a
// cache has members of this package's.
func appendGeminiUsage(b []byte, m *message) []byte {
	u := m.usage
	for i, c := range [...]struct {
		name string
		n    int64
	}{
		{"promptTokenCount", u.Prompt()},
		{"candidatesTokenCount", u.Output - m.reasoning},
		{"totalTokenCount", u.Prompt() + u.Output},
		{"cachedContentTokenCount", u.Read},
		{"thoughtsTokenCount", m.reasoning},
		{"cacheWriteTokenCount", u.Write5m + u.Write1h},
		{"cacheWrite1hTokenCount", u.Write1h},
	} {
		if i > 2 && c.n == 0 {
			continue
		}
		b = append(b, ",\""...)
		if i == 0 {
			b[len(b)-2] = '{'
		}
		b = append(b, c.name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, c.n, 10)
	}
	return append(b, '}')
}
