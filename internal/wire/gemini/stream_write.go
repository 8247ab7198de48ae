// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// streamWriter writes a stream of the Gemini API. Clients of this API get whole calls, and know neither
// comments nor other kinds of events.
type streamWriter struct {
	*translate.Buffer
	flow    *translate.Flow
	tail    []byte // the end of every chunk
	sealed  string // the sealed thinking for the next call
	written bool
}

func (w *streamWriter) Start(m *translate.Answer) {
	w.tail = appendTail(nil, m)
}

// chunk begins a chunk, up to the candidate's parts.
func (w *streamWriter) chunk() {
	switch {
	case !w.flow.Asked.Array:
		w.Data()
	case w.written:
		w.Raw(",\r\n")
	default:
		w.Raw("[")
	}
	w.written = true
	w.Raw(`{"candidates":[{"content":{"role":"model","parts":[`)
}

func (w *streamWriter) endChunk() {
	w.Raw(`]},"index":0}]`)
	w.Buf = append(w.Buf, w.tail...)
	w.Raw("}")
	w.endEvent()
}

func (w *streamWriter) endEvent() {
	if !w.flow.Asked.Array {
		w.Buffer.End()
	}
}

func (w *streamWriter) Open(b *translate.Block) {
	// A call carries only the seal of the last thought before it. Seals of earlier thoughts get parts
	// of their own.
	if b.Kind == translate.ThinkingBlock {
		w.seal()
	}
}

// seal writes the pending seal as a part of its own.
func (w *streamWriter) seal() {
	if w.sealed == "" {
		return
	}
	w.chunk()
	w.Buf = appendSealed(w.Buf, w.sealed)
	w.endChunk()
	w.sealed = ""
}

func (w *streamWriter) Delta(b *translate.Block, text string) {
	if b.Kind == translate.ImageBlock {
		w.chunk()
		w.Buf = appendImage(w.Buf, b.Name, text)
		w.endChunk()
		return
	}
	if b.Kind != translate.TextBlock {
		b.Content = append(b.Content, text...)
	}
	if b.Kind == translate.CallBlock {
		return
	}
	w.chunk()
	w.Raw(`{"text":`)
	w.Inside(text)
	if b.Kind == translate.ThinkingBlock {
		w.Raw(`,"thought":true`)
	}
	w.Raw("}")
	w.endChunk()
}

func (w *streamWriter) Close(b *translate.Block) {
	switch b.Kind {
	case translate.ThinkingBlock:
		if w.sealed = w.flow.Seal(b, rawjson.Plain(rawjson.View(b.Content))); w.flow.SameFormat() {
			w.seal()
		}
	case translate.CallBlock:
		w.chunk()
		w.Buf = appendCall(w.Buf, w.flow, b, w.sealed)
		w.endChunk()
		w.sealed = ""
	}
}

func (w *streamWriter) Finish(m *translate.Answer) {
	w.chunk()
	if w.sealed == "" {
		w.Raw(`{"text":""}`)
	} else {
		w.Buf = appendSealed(w.Buf, w.sealed)
	}
	w.Raw(`]},"finishReason":"`)
	w.Raw(reasons[m.Reason()])
	w.Raw(`","index":0}]`)
	if m.Usage.Reported {
		w.Raw(`,"usageMetadata":`)
		w.Buf = appendUsage(w.Buf, m.Usage, m.Reasoning)
	}
	w.Buf = append(w.Buf, w.tail...)
	w.Raw("}")
	if w.flow.Asked.Array {
		w.Raw("]")
	}
	w.endEvent()
}

// Fail writes the error as bare JSON, as the API does.
func (w *streamWriter) Fail(f *translate.Failure) {
	// Google's SDK for JavaScript reads every data field as an answer. For an error there, Gemini CLI
	// would retry and at last report a missing finishReason.
	switch {
	case !w.flow.Asked.Array:
	case w.written:
		w.Raw(",\r\n")
	default:
		w.Raw("[")
	}
	w.Buf = f.Append(w.Buf, w.flow.Client)
	if w.flow.Asked.Array {
		w.Raw("]")
	}
	w.endEvent()
}

func (w *streamWriter) Ping() {}

func appendTail(b []byte, m *translate.Answer) []byte {
	b = append(b, `,"modelVersion":"`...)
	b = rawjson.AppendEscaped(b, m.Model)
	b = append(b, `","responseId":"`...)
	b = rawjson.AppendEscaped(b, m.ID)
	return append(b, '"')
}

// appendSealed writes an empty thought with a signature.
func appendSealed(b []byte, sealed string) []byte {
	b = append(b, `{"text":"","thought":true,"thoughtSignature":"`...)
	b = rawjson.AppendEscaped(b, sealed)
	return append(b, `"}`...)
}

// unsignedCall is the placeholder in answers for a missing signature on the first call of a turn.
// Clients warn if this call has none. The SDKs decode it, as standard base64, to the same bytes as
// [SkipValidator], so Google's own API accepts the history too.
const unsignedCall = "skip/thought/signature/validator"

func appendCall(dst []byte, f *translate.Flow, b *translate.Block, sealed string) []byte {
	dst = append(dst, `{"functionCall":{"id":"`...)
	dst = rawjson.AppendEscaped(dst, f.CallID(b))
	dst = append(dst, `","name":"`...)
	dst = rawjson.AppendEscaped(dst, f.Asked.Names.Client(b.Name).Name)
	dst = append(dst, `","args":`...)
	dst = translate.AppendArguments(dst, rawjson.View(b.Content))
	dst = append(dst, '}')
	switch {
	case b.Signature != "":
		sealed = b.Signature
	case sealed == "" && b.Place == 0 && !f.SameFormat():
		sealed = unsignedCall
	}
	if sealed != "" {
		dst = append(dst, `,"thoughtSignature":"`...)
		dst = rawjson.AppendEscaped(dst, sealed)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

var reasons = [...]string{
	wire.StopUnknown: "STOP", wire.StopEnd: "STOP", wire.StopLength: "MAX_TOKENS", wire.StopCalls: "STOP",
	wire.StopSequence: "STOP",
	wire.StopRefusal:  "SAFETY", wire.StopFilter: "SAFETY", wire.StopPause: "STOP", wire.StopContext: "MAX_TOKENS",
	wire.StopOther: "OTHER",
}

func appendUsage(b []byte, u wire.Usage, thoughts int64) []byte {
	return append(usage.Append(append(b, '{'), u, thoughts), '}')
}
