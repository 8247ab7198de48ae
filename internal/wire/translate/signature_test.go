// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// The signatures of Gemini's calls are longer than the call ids that Codex accepts (256 bytes). A
// client of the Responses API gets them in reasoning before the call, and its next request has them
// in their original place.
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
			answer := `{"candidates":[{"content":{"role":"model","parts":[` + c.parts +
				`]},"finishReason":"STOP","index":0}],"modelVersion":"gemini-3.1-pro","responseId":"r"}`
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
					`{"model":"m","input":[{"role":"user","content":"Go."},`+input+results+
						`],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]}`, "gemini-3.1-pro",
					translate.Options{Official: true})
				signed := gjson.GetBytes(back.Body.Bytes(), "contents.1.parts.#(functionCall.id==\"c1\").thoughtSignature").Str
				if signed != signature {
					t.Errorf("stream %v: the call came back with %.40q: %s", stream, signed, gjson.GetBytes(back.Body.Bytes(), "contents.1"))
				}
				if n := strings.Count(string(back.Body.Bytes()), signature); n != 1 {
					t.Errorf("stream %v: the signature came back %d times", stream, n)
				}
				if len(back.Dropped) != 0 && !strings.Contains(c.parts, "thought\":true") {
					t.Errorf("stream %v: dropped %v", stream, back.Dropped)
				}
			}
		})
	}
}

// TestSeveralThoughts: all thinking before a call comes back, in order, from clients that keep
// thinking.
func TestSeveralThoughts(t *testing.T) {
	blocks := []string{
		`{"type":"thinking","thinking":"one","signature":"c2lnMQ=="}`, `{"type":"redacted_thinking","data":"cmVk"}`,
		`{"type":"thinking","thinking":"two","signature":"c2lnMg=="}`,
		`{"type":"tool_use","id":"toolu_1","name":"f","input":{}}`,
	}
	events := []string{`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":1,` +
		`"output_tokens":1}}}`}
	for i, b := range blocks {
		events = append(events, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, b),
			fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	events = append(events, `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`)
	whole, _ := run(wire.Anthropic, wire.Gemini, translate.Answering{},
		[]byte(`{"id":"msg_1","model":"m","content":[`+strings.Join(blocks, ",")+`],"stop_reason":"tool_use"}`))
	sent, _ := run(wire.Anthropic, wire.Gemini, translate.Answering{Stream: true}, []byte(streamed(events...)))
	var contents []string
	for line := range strings.SplitSeq(string(sent), "\n\n") {
		if content := gjson.Get(strings.TrimPrefix(line, "data: "), "candidates.0.content"); content.Exists() {
			contents = append(contents, content.Raw)
		}
	}
	for name, said := range map[string]string{
		"whole":    gjson.GetBytes(whole, "candidates.0.content").Raw,
		"streamed": strings.Join(contents, ","),
	} {
		out := convert(t, wire.Gemini, wire.Anthropic, `{"contents":[{"role":"user","parts":[{"text":"x"}]},`+said+
			`,{"role":"user","parts":[{"functionResponse":{"id":"toolu_1","name":"f","response":{"output":"r"}}}]}]}`,
			"claude-opus-4-5", translate.Options{Official: true})
		if got, want := gjson.GetBytes(out.Body.Bytes(), "messages.1.content").Raw, "["+strings.Join(blocks, ",")+"]"; got != want {
			t.Errorf("%s: %s, want %s of %s", name, got, want, said)
		}
	}
}

// TestThoughtsOnce: Google's SDKs keep a content for each chunk of a stream, thoughts included. The
// sealed text in the following call is a duplicate of them.
func TestThoughtsOnce(t *testing.T) {
	sent, _ := run(wire.OpenAIChat, wire.Gemini, translate.Answering{Stream: true}, []byte(streamed(
		`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"Hm "}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"reasoning_content":"so."}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"content":"Look."}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f",`+
			`"arguments":"{}"}}]}}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`, `[DONE]`)))
	var contents, parts []string
	for line := range strings.SplitSeq(string(sent), "\n\n") {
		if content := gjson.Get(strings.TrimPrefix(line, "data: "), "candidates.0.content"); content.Exists() {
			contents = append(contents, content.Raw)
			parts = append(parts, content.Get("parts.0").Raw)
		}
	}
	for name, said := range map[string]string{
		"one content":    `{"role":"model","parts":[` + strings.Join(parts, ",") + `]}`,
		"a content each": strings.Join(contents, ","),
	} {
		out := convert(t, wire.Gemini, wire.OpenAIChat, `{"contents":[{"role":"user","parts":[{"text":"x"}]},`+said+
			`,{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"output":"r"}}}]}]}`, "qwen",
			translate.Options{})
		if got := gjson.GetBytes(out.Body.Bytes(), "messages.1"); got.Get("reasoning_content").Str != "Hm so." ||
			got.Get("content").Str != "Look." {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestEncryptedReasoning: encrypted reasoning of a chat completions upstream comes back to it, with
// and without a text.
func TestEncryptedReasoning(t *testing.T) {
	for _, text := range []string{"", `"reasoning":"Hm.",`} {
		answer := `{"id":"c","choices":[{"index":0,"message":{"role":"assistant",` + text +
			`"content":"Yes.","reasoning_details":[{"type":"reasoning.encrypted","id":"r1","data":"ZW5j"}]},` +
			`"finish_reason":"stop"}]}`
		whole, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{}, []byte(answer))
		out := convert(t, wire.Anthropic, wire.OpenAIChat, `{"model":"m","messages":[`+question+
			`,{"role":"assistant","content":`+gjson.GetBytes(whole, "content").Raw+`},`+question+`]}`, "", translate.Options{})
		if got := gjson.GetBytes(out.Body.Bytes(),
			"messages.1.reasoning_details").Raw; got != `[{"type":"reasoning.encrypted","data":"ZW5j","id":"r1"}]` {
			t.Errorf("%q: %s of %s", text, out.Body.Bytes(), whole)
		}
	}
}

// TestPlacesOfThoughts: reasoning comes back before or after the same text as in the answer, from
// clients that keep neither place.
func TestPlacesOfThoughts(t *testing.T) {
	const text, call = `{"type":"text","text":"T"}`, `{"type":"tool_use","id":"toolu_1","name":"f","input":{}}`
	const bare, thought, redacted = `{"type":"thinking","thinking":"","signature":"c2lnMQ=="}`,
		`{"type":"thinking","thinking":"two","signature":"c2lnMg=="}`, `{"type":"redacted_thinking","data":"cmVk"}`
	for _, blocks := range []string{
		bare + "," + text + "," + call,
		thought + "," + text + "," + call,
		text + "," + bare + "," + call,
		redacted + "," + text + "," + thought + "," + call,
		bare + "," + redacted + "," + text + "," + call,
	} {
		answer := `{"id":"msg_1","model":"m","content":[` + blocks + `],"stop_reason":"tool_use"}`
		chat, _ := run(wire.Anthropic, wire.OpenAIChat, translate.Answering{}, []byte(answer))
		whole, _ := run(wire.Anthropic, wire.Gemini, translate.Answering{}, []byte(answer))
		content := gjson.GetBytes(whole, "candidates.0.content").Raw
		for name, out := range map[string]*translate.Outgoing{
			"chat": convert(t, wire.OpenAIChat, wire.Anthropic, `{"model":"m","messages":[`+question+`,`+
				gjson.GetBytes(chat, "choices.0.message").Raw+`,{"role":"tool","tool_call_id":"toolu_1","content":"r"}]}`,
				"claude-opus-5", translate.Options{Official: true}),
			"gemini": convert(t, wire.Gemini, wire.Anthropic, `{"contents":[{"role":"user","parts":[{"text":"x"}]},`+content+
				`,{"role":"user","parts":[{"functionResponse":{"id":"toolu_1","name":"f","response":{"output":"r"}}}]}]}`,
				"claude-opus-5", translate.Options{Official: true}),
		} {
			if got := gjson.GetBytes(out.Body.Bytes(), "messages.1.content").Raw; got != "["+blocks+"]" {
				t.Errorf("%s: %s, want %s", name, got, blocks)
			}
		}
	}
}

// The signature that Gemini puts on a text comes back on an empty text after it, through clients of
// every other API with a place for reasoning.
func TestSignatureOfText(t *testing.T) {
	thought, text := `{"text":"Hm","thought":true}`, `{"text":"Visible."}`
	signed, empty := `{"text":"Visible.","thoughtSignature":"U0lHMQ=="}`, `{"text":"","thoughtSignature":"U0lHMQ=="}`
	for name, parts := range map[string][]string{
		"on the text": {thought, signed}, "without thoughts": {signed},
		"behind the text": {thought, text, empty},
	} {
		for _, client := range []wire.Format{wire.Anthropic, wire.OpenAIResponses, wire.OpenAIChat} {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, stream %t", name, client, stream), func(t *testing.T) {
					answer := func(last string, parts ...string) string {
						return `{"candidates":[{"content":{"role":"model","parts":[` + strings.Join(parts, ",") + `]}` + last +
							`,"index":0}],"modelVersion":"gemini-3.1-pro","responseId":"r"}`
					}
					data := answer(`,"finishReason":"STOP"`, parts...)
					if stream {
						events := make([]string, len(parts))
						for i, p := range parts {
							events[i] = answer("", p)
						}
						data = streamed(append(events, answer(`,"finishReason":"STOP"`))...)
					}
					out, _ := run(wire.Gemini, client, translate.Answering{Stream: stream, Seed: seed}, []byte(data))
					back := convert(t, client, wire.Gemini, sentBack(t, client, stream, out), "gemini-3.1-pro",
						translate.Options{Official: true})
					said := gjson.GetBytes(back.Body.Bytes(), `contents.#(role=="model").parts`)
					i := len(said.Array()) - 1
					if last := said.Get(fmt.Sprint(i)); i < 1 || last.Get("thoughtSignature").Str != "U0lHMQ==" ||
						last.Get("text").Str != "" || last.Get("thought").Exists() ||
						said.Get(fmt.Sprint(i-1, ".text")).Str != "Visible." {
						t.Errorf("came back as %s", said)
					}
				})
			}
		}
	}
}

// sentBack is a client's next request after an answer.
func sentBack(t *testing.T, f wire.Format, stream bool, out []byte) string {
	t.Helper()
	switch f {
	case wire.OpenAIResponses:
		response := string(out)
		if stream {
			_, last, _ := strings.Cut(response, "event: response.completed\ndata: ")
			response = gjson.Get(last, "response").Raw
		}
		items := gjson.Get(response, "output").Raw
		return `{"model":"m","input":[{"role":"user","content":"Go."},` + strings.TrimSuffix(strings.TrimPrefix(items, "["),
			"]") + `,{"role":"user","content":"On."}]}`
	case wire.Anthropic:
		var blocks []string
		if !stream {
			blocks = append(blocks, strings.Trim(gjson.GetBytes(out, "content").Raw, "[]"))
		}
		for line := range strings.SplitSeq(string(out), "\n") {
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || !stream {
				continue
			}
			switch e := gjson.Parse(data); {
			case e.Get("delta.type").Str == "thinking_delta":
				blocks = append(blocks, `{"type":"thinking","thinking":`+e.Get("delta.thinking").Raw)
			case e.Get("delta.type").Str == "text_delta":
				blocks = append(blocks, `{"type":"text","text":`+e.Get("delta.text").Raw+`}`)
			case e.Get("delta.type").Str == "signature_delta":
				if n := len(blocks); n > 0 && !strings.HasSuffix(blocks[n-1], "}") {
					blocks[n-1] += `,"signature":` + e.Get("delta.signature").Raw + `}`
				} else {
					blocks = append(blocks, `{"type":"thinking","thinking":"","signature":`+e.Get("delta.signature").Raw+`}`)
				}
			case e.Get("type").Str == "content_block_stop":
				if n := len(blocks); n > 0 && !strings.HasSuffix(blocks[n-1], "}") {
					blocks[n-1] += `,"signature":""}`
				}
			}
		}
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Go."},{"role":"assistant","content":[` +
			strings.Join(blocks, ",") + `]},{"role":"user","content":"On."}]}`
	}
	message := gjson.GetBytes(out, "choices.0.message").Raw
	if stream {
		var details []string
		content := ""
		for line := range strings.SplitSeq(string(out), "\n") {
			delta := gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta")
			content += delta.Get("content").Str
			for _, d := range delta.Get("reasoning_details").Array() {
				details = append(details, d.Raw)
			}
		}
		message = fmt.Sprintf(`{"role":"assistant","content":%q,"reasoning_details":[%s]}`, content,
			strings.Join(details, ","))
	}
	return `{"model":"m","messages":[{"role":"user","content":"Go."},` + message + `,{"role":"user","content":"On."}]}`
}
