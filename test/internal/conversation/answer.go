// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package conversation

import (
	"bytes"
	"fmt"
)

// Answer returns the model's response to the request after that many turns: the assistant's message
// of the next turn, and the usage for a request of length bytes. It is a stream of events or one
// JSON value.
func (t *Tape) Answer(turns, length int, stream bool) []byte {
	a := t.turns[turns].answer
	// About four bytes make a token, and all but the last kilobyte was sent before.
	prompt := length / 4
	cached := max(0, prompt-256)
	if t.shape == Chat {
		return t.chatAnswer(a, prompt, cached, stream)
	}
	usage := fmt.Sprintf(`{"input_tokens":8,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,`+
		`"output_tokens":120}`, prompt-cached, cached)
	if !stream {
		m := t.assistant(a)
		return fmt.Appendf(nil,
			`{"id":"msg_%s","type":"message","model":%q,"stop_reason":"tool_use","stop_sequence":null,"usage":%s,%s`, a.id,
			t.shape.Model(), usage, m[1:])
	}
	var b bytes.Buffer
	event := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q"+format+"}\n\n", append([]any{name, name}, args...)...)
	}
	event("message_start",
		`,"message":{"id":"msg_%s","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,`+
			`"stop_sequence":null,"usage":%s}`, a.id, t.shape.Model(), usage)
	index := 0
	block := func(start string, deltas ...string) {
		event("content_block_start", `,"index":%d,"content_block":%s`, index, start)
		for _, d := range deltas {
			event("content_block_delta", `,"index":%d,"delta":%s`, index, d)
		}
		event("content_block_stop", `,"index":%d`, index)
		index++
	}
	if a.thinking != "" {
		block(`{"type":"thinking","thinking":"","signature":""}`,
			`{"type":"thinking_delta","thinking":`+quote(a.thinking)+`}`, `{"type":"signature_delta","signature":"`+a.signature+
				`"}`)
	}
	block(`{"type":"text","text":""}`, `{"type":"text_delta","text":`+quote(a.text)+`}`)
	half := len(a.input) / 2
	block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, a.id, a.tool),
		`{"type":"input_json_delta","partial_json":`+quote(a.input[:half])+`}`, `{"type":"input_json_delta","partial_json":`+
			quote(a.input[half:])+`}`)
	event("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":120}`)
	event("message_stop", "")
	return b.Bytes()
}

func (t *Tape) chatAnswer(a answer, prompt, cached int, stream bool) []byte {
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":120,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":%d}}`, prompt, prompt+120, cached)
	if !stream {
		return fmt.Appendf(nil,
			`{"id":"chatcmpl-%s","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":%s,`+
				`"finish_reason":"tool_calls"}],"usage":%s}`,
			a.id, t.shape.Model(), t.assistant(a), usage)
	}
	var b bytes.Buffer
	chunk := func(choices, usage string) {
		fmt.Fprintf(&b,
			"data: {\"id\":\"chatcmpl-%s\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[%s],"+
				"\"usage\":%s}\n\n", a.id, t.shape.Model(), choices, usage)
	}
	delta := func(d string) { chunk(`{"index":0,"delta":`+d+`,"finish_reason":null}`, "null") }
	delta(`{"role":"assistant","content":""}`)
	delta(`{"content":` + quote(a.text) + `}`)
	delta(fmt.Sprintf(`{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`,
		a.id, a.tool))
	half := len(a.input) / 2
	delta(`{"tool_calls":[{"index":0,"function":{"arguments":` + quote(a.input[:half]) + `}}]}`)
	delta(`{"tool_calls":[{"index":0,"function":{"arguments":` + quote(a.input[half:]) + `}}]}`)
	chunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`, "null")
	chunk("", usage)
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}
