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

// appendGemini writes an answer of the Gemini API.
func appendGemini(b []byte, c *collected) []byte {
	b = append(b, `{"candidates":[{"content":{"role":"model","parts":[`...)
	first, sealed := true, ""
	comma := func() {
		if !first {
			b = append(b, ',')
		}
		first = false
	}
	for _, p := range c.blocks {
		switch p.kind {
		case blockCall:
			comma()
			b = appendGeminiCall(b, c.flow, p, sealed)
			sealed = ""
		case blockText:
			comma()
			b = append(b, `{"text":"`...)
			b = append(b, p.content...)
			b = append(b, `"}`...)
		default:
			if len(p.content) > 0 {
				comma()
				b = append(b, `{"text":"`...)
				b = append(b, p.content...)
				b = append(b, `","thought":true}`...)
			}
			sealed = c.flow.seal(p, plain(view(p.content)))
			if c.flow.own() && sealed != "" {
				comma()
				b = appendGeminiSealed(b, sealed)
				sealed = ""
			}
		}
	}
	if sealed != "" {
		comma()
		b = appendGeminiSealed(b, sealed)
	}
	if first {
		b = append(b, `{"text":""}`...)
	}
	b = append(b, `]},"finishReason":"`...)
	b = append(b, geminiReasons[c.message.reason()]...)
	b = append(b, `","index":0}]`...)
	if c.message.usage.Reported {
		b = append(b, `,"usageMetadata":`...)
		b = appendGeminiUsage(b, c.message)
	}
	b = appendGeminiTail(b, c.message)
	return append(b, '}')
}
