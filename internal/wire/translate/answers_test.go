// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

func streamed(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		if name := gjson.Get(e, "type").Str; name != "" {
			b.WriteString("event: " + name + "\n")
		}
		b.WriteString("data: " + e + "\n\n")
	}
	return b.String()
}

// thinkingAndCalls returns an answer with thinking, its signature, text and two calls in an upstream's
// format: as a stream, and as JSON.
func thinkingAndCalls(t *testing.T, upstream wire.Format) (stream, answer string) {
	t.Helper()
	for _, s := range golden.Read(t, "testdata/answers/thinking_and_calls/"+string(upstream)+".txtar") {
		switch s.Kind {
		case "stream":
			stream = s.Text
		case "answer":
			answer = golden.Compact(s.Text)
		}
	}
	return stream, answer
}

// answerRows are the rows of the table of answers. Each cell translates an upstream's answer and
// decodes the output with the client's decoder.
func answerRows() []row {
	return []row{
		{"reasoning and its proof, given back with the next request", proofComesBack},
		{"cut stream", staysCut},
		{"sign of life in a stream", signOfLife},
	}
}

// proofComesBack answers a call with its result, as a client would, and checks the signature in the
// request to the upstream.
func proofComesBack(t *testing.T, client, upstream wire.Format) string {
	if client == upstream {
		return works
	}
	_, answer := thinkingAndCalls(t, upstream)
	whole, _ := run(upstream, client, translate.Answering{}, []byte(answer))
	a := gjson.ParseBytes(whole)
	var body string
	path := "/v1/x"
	switch client {
	case wire.Anthropic:
		body = fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant",`+
			`"content":%s},{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":"r"},`+
			`{"type":"tool_result","tool_use_id":%q,"content":"r"}]}]}`,
			a.Get("content").Raw, a.Get(`content.#(name=="read").id`).Str, a.Get(`content.#(name=="now").id`).Str)
	case wire.OpenAIChat:
		body = fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"x"},%s,{"role":"tool","tool_call_id":%q,`+
			`"content":"r"},{"role":"tool","tool_call_id":%q,"content":"r"}]}`,
			a.Get("choices.0.message").Raw, a.Get("choices.0.message.tool_calls.0.id").Str,
			a.Get("choices.0.message.tool_calls.1.id").Str)
	case wire.OpenAIResponses:
		body = fmt.Sprintf(`{"model":"m","input":[{"role":"user","content":"x"},%s,{"type":"function_call_output",`+
			`"call_id":%q,"output":"r"},{"type":"function_call_output","call_id":%q,"output":"r"}]}`,
			strings.Trim(a.Get("output").Raw, "[]"), a.Get(`output.#(name=="read").call_id`).Str,
			a.Get(`output.#(name=="now").call_id`).Str)
	case wire.Gemini:
		path = "/v1beta/models/m:generateContent"
		body = fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":"x"}]},%s,{"role":"user",`+
			`"parts":[{"functionResponse":{"id":"call_a","name":"read","response":{"output":"r"}}},`+
			`{"functionResponse":{"id":"call_b","name":"now","response":{"output":"r"}}}]}]}`,
			a.Get("candidates.0.content").Raw)
	case wire.Interactions:
		body = fmt.Sprintf(`{"model":"m","input":[{"type":"user_input","content":"x"},%s,{"type":"function_result",`+
			`"call_id":%q,"result":"r"},{"type":"function_result","call_id":%q,"result":"r"}]}`,
			strings.Trim(a.Get("steps").Raw, "[]"), a.Get(`steps.#(name=="read").id`).Str, a.Get(`steps.#(name=="now").id`).Str)
	}
	if !json.Valid([]byte(body)) {
		t.Fatalf("not JSON: %s", body)
	}
	model := map[wire.Format]string{
		wire.Anthropic: "claude-opus-4-5", wire.OpenAIChat: "qwen",
		wire.OpenAIResponses: "gpt-5.2", wire.Gemini: "gemini-3-pro", wire.Interactions: "gemini-3-pro",
	}[upstream]
	out, err := translate.Convert(client, upstream, translate.Incoming{Body: []byte(body), Path: path},
		translate.Options{Official: upstream != wire.OpenAIChat, Model: func(string) string { return model }})
	if err != nil {
		t.Fatalf("%s to %s: %v\n%s", client, upstream, err, body)
	}
	sent := string(out.Body.Bytes())
	want := []string{`"c2lnbmF0dXJl"`}
	switch upstream {
	case wire.Anthropic:
		want = append(want, `"thinking":"Hm \"so\"."`)
	case wire.OpenAIChat: // the format has no signature
		want = []string{`"reasoning_content":"Hm \"so\"."`}
	}
	for _, w := range want {
		if strings.Count(sent, w) != 1 {
			t.Errorf("%s to %s: %s stands there %d times:\n%s\nof\n%s", client, upstream, w, strings.Count(sent, w), sent, body)
		}
	}
	return works
}

func staysCut(t *testing.T, client, upstream wire.Format) string {
	all, _ := thinkingAndCalls(t, upstream)
	out, s := run(upstream, client, translate.Answering{Stream: true}, []byte(all[:len(all)*3/4]))
	if turn := decoded(client, true, out); turn.Done || s.Ended() || len(out) == 0 {
		t.Errorf("%s from %s: %+v of\n%s", client, upstream, turn, out)
	}
	return works
}

func signOfLife(t *testing.T, client, upstream wire.Format) string {
	if client == upstream {
		return works
	}
	life := ": alive\n\n"
	if upstream == wire.Anthropic {
		life = streamed(`{"type":"ping"}`)
	}
	out, _ := run(upstream, client, translate.Answering{Stream: true}, []byte(life))
	switch {
	case client == wire.Gemini && len(out) == 0:
		return "left out, its clients know none"
	case client == wire.Gemini || len(out) == 0:
		t.Errorf("%s from %s: %q", client, upstream, out)
	}
	return works
}
