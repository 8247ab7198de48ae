// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package interactions

import (
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// statuses maps stop reasons to the API's statuses.
var statuses = [...]string{
	wire.StopUnknown: "completed", wire.StopEnd: "completed", wire.StopLength: "incomplete",
	wire.StopCalls:    "requires_action",
	wire.StopSequence: "completed", wire.StopRefusal: "completed", wire.StopFilter: "incomplete",
	wire.StopPause:   "incomplete",
	wire.StopContext: "incomplete", wire.StopOther: "incomplete",
}

// appendHead begins an interaction.
func appendHead(b []byte, m *translate.Answer, status string) []byte {
	b = append(b, `{"id":"`...)
	b = rawjson.AppendEscaped(b, m.ID)
	b = append(append(b, `","status":"`...), status...)
	b = append(b, `","model":"`...)
	b = rawjson.AppendEscaped(b, m.Model)
	return append(b, '"')
}

// appendTail appends the usage and the times to an interaction.
func appendTail(b []byte, f *translate.Flow, m *translate.Answer) []byte {
	if m.Usage.Reported {
		b = append(usage.Append(append(b, `,"usage":{`...), m.Usage, m.Reasoning), '}')
	}
	at := time.Unix(f.Asked.Created, 0).UTC()
	b = at.AppendFormat(append(b, `,"created":"`...), time.RFC3339)
	b = at.AppendFormat(append(b, `","updated":"`...), time.RFC3339)
	return append(b, `","object":"interaction"`...)
}

// appendCall begins a call, up to its arguments.
func appendCall(b []byte, f *translate.Flow, c *translate.Block) []byte {
	b = append(b, `{"type":"function_call","id":"`...)
	b = rawjson.AppendEscaped(b, f.CallID(c))
	b = append(b, `","name":"`...)
	b = rawjson.AppendEscaped(b, f.Asked.Names.Client(c.Name).Name)
	return append(b, `","arguments":`...)
}

// appendImage writes an image. The form is that of contents and of deltas.
func appendImage(b []byte, media, data string) []byte {
	b = rawjson.AppendQuoted(append(b, `{"mime_type":`...), media)
	return append(append(append(b, `,"data":"`...), data...), `","type":"image"}`...)
}

// appendAnswer writes an answer in one piece.
func appendAnswer(b []byte, c *translate.Collected) []byte {
	b = appendHead(b, c.Answer, statuses[c.Answer.Reason()])
	b = append(b, `,"steps":[`...)
	for i, p := range c.Blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendStep(b, c.Flow, p)
	}
	return append(appendTail(append(b, ']'), c.Flow, c.Answer), '}')
}

func appendStep(b []byte, f *translate.Flow, p *translate.Block) []byte {
	text := func(b []byte) []byte {
		b = append(append(b, `[{"type":"text","text":"`...), p.Content...)
		return append(b, `"}]`...)
	}
	switch p.Kind {
	case translate.CallBlock:
		return append(translate.AppendArguments(appendCall(b, f, p), rawjson.View(p.Content)), '}')
	case translate.ImageBlock:
		return append(appendImage(append(b, `{"type":"model_output","content":[`...), p.Name, rawjson.View(p.Content)),
			`]}`...)
	case translate.TextBlock:
		return append(text(append(b, `{"type":"model_output","content":`...)), '}')
	}
	b = append(b, `{"type":"thought"`...)
	if s := f.Seal(p, ""); s != "" {
		b = rawjson.AppendEscaped(append(b, `,"signature":"`...), s)
		b = append(b, '"')
	}
	if len(p.Content) > 0 {
		b = text(append(b, `,"summary":`...))
	}
	return append(b, '}')
}
