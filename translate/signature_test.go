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

package translate_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// The signatures of Gemini's calls are longer than the ids that Codex takes (256
// bytes). A client of the Responses API gets them in reasoning in front of the call,
// and what it sends back has them where they were.
func TestLongSignature(t *testing.T) {
	signature := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("sign", 300)))
	thought := `{"text":"Hm","thought":true},`
	call := `{"functionCall":{"id":"c1","name":"f","args":{"a":1}},"thoughtSignature":"` + signature + `"}`
	other := `,{"functionCall":{"id":"c2","name":"f","args":{"a":2}}}`
	for _, c := range []struct{ name, parts string }{
		{"a call", call},
		{"behind a thought", thought + call},
		{"behind text", `{"text":"Let me see."},` + call},
		{"with a second one", thought + call + other},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := `{"candidates":[{"content":{"role":"model","parts":[` + c.parts + `]},"finishReason":"STOP","index":0}],"modelVersion":"gemini-3.1-pro","responseId":"r"}`
			for _, stream := range []bool{false, true} {
				data := answer
				if stream {
					data = streamed(answer)
				}
				out, _ := run(wire.Gemini, wire.OpenAIResponses, translate.Answering{Stream: stream}, []byte(data))
				items := gjson.GetBytes(out, "output")
				if stream {
					_, last, _ := strings.Cut(string(out), "event: response.completed\ndata: ")
					items = gjson.Get(last, "response.output")
				}
				for _, id := range items.Get("#.call_id").Array() {
					if len(id.Str) > 256 {
						t.Errorf("an id has %d bytes: %s", len(id.Str), id.Str)
					}
				}
				results := ""
				for _, id := range items.Get("#.call_id").Array() {
					results += `,{"type":"function_call_output","call_id":` + id.Raw + `,"output":"x"}`
				}
				input := strings.TrimSuffix(strings.TrimPrefix(items.Raw, "["), "]")
				back := convert(t, wire.OpenAIResponses, wire.Gemini,
					`{"model":"m","input":[{"role":"user","content":"Go."},`+input+results+`],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`, "gemini-3.1-pro", translate.Options{Official: true})
				signed := gjson.GetBytes(back.Body, "contents.1.parts.#(functionCall.id==\"c1\").thoughtSignature").Str
				if signed != signature {
					t.Errorf("stream %v: the call came back with %.40q: %s", stream, signed, gjson.GetBytes(back.Body, "contents.1"))
				}
				if n := strings.Count(string(back.Body), signature); n != 1 {
					t.Errorf("stream %v: the signature came back %d times", stream, n)
				}
				if len(back.Dropped) != 0 && !strings.Contains(c.parts, "thought\":true") {
					t.Errorf("stream %v: dropped %v", stream, back.Dropped)
				}
			}
		})
	}
}
