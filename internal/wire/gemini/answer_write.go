// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package gemini

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// appendImage writes an image part.
func appendImage(b []byte, media, data string) []byte {
	b = rawjson.AppendQuoted(append(b, `{"inlineData":{"mimeType":`...), media)
	return append(append(append(b, `,"data":"`...), data...), `"}}`...)
}

// appendAnswer writes an answer of the Gemini API.
func appendAnswer(b []byte, c *translate.Collected) []byte {
	b = append(b, `{"candidates":[{"content":{"role":"model","parts":[`...)
	first, sealed := true, ""
	comma := func() {
		if !first {
			b = append(b, ',')
		}
		first = false
	}
	seal := func() {
		if sealed != "" {
			comma()
			b = appendSealed(b, sealed)
		}
		sealed = ""
	}
	for _, p := range c.Blocks {
		switch p.Kind {
		case translate.CallBlock:
			comma()
			b = appendCall(b, c.Flow, p, sealed)
			sealed = ""
		case translate.ImageBlock:
			comma()
			b = appendImage(b, p.Name, rawjson.View(p.Content))
		case translate.TextBlock:
			comma()
			b = append(b, `{"text":"`...)
			b = append(b, p.Content...)
			b = append(b, `"}`...)
		default:
			seal() // the seal of the thought before, if no call took it
			if len(p.Content) > 0 {
				comma()
				b = append(b, `{"text":"`...)
				b = append(b, p.Content...)
				b = append(b, `","thought":true}`...)
			}
			if sealed = c.Flow.Seal(p, rawjson.Plain(rawjson.View(p.Content))); c.Flow.SameFormat() {
				seal()
			}
		}
	}
	seal()
	if first {
		b = append(b, `{"text":""}`...)
	}
	b = append(b, `]},"finishReason":"`...)
	b = append(b, reasons[c.Answer.Reason()]...)
	b = append(b, `","index":0}]`...)
	if c.Answer.Usage.Reported {
		b = append(b, `,"usageMetadata":`...)
		b = appendUsage(b, c.Answer.Usage, c.Answer.Reasoning)
	}
	b = appendTail(b, c.Answer)
	return append(b, '}')
}
