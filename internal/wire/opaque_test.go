// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// An unreadable piece becomes an opaque block: not editable, and counted by its bytes. Everything
// beside it is read.
func TestParseCloses(t *testing.T) {
	part := func(p string) string { return `{"contents":[{"role":"user","parts":[` + p + `]}]}` }
	message := func(m string) string {
		return `{"messages":[{"role":"user","content":"hi"},` + m + `,{"role":"user","content":"go"}]}`
	}
	const around = "2/2/text|||\"hi\"||00010\n%s2/2/text|||\"go\"||00010\n"
	closed := func(role string) string { return strings.Replace(around, "%s", "2/"+role+"/other||||\n", 1) }
	for _, c := range []struct {
		format     wire.Format
		body, want string
	}{
		{wire.Anthropic, message(`{"role":"user","content":"a","content":"b"}`), closed("2")},
		{wire.Anthropic, message(`{"role":"user","content":"a","role":"assistant"}`), closed("0")},
		{wire.Anthropic, message(`{"content":"a"}`), closed("0")},
		{wire.Anthropic, message(`{"role":"robot","content":"a"}`), closed("0")},
		{wire.Anthropic, message(`{"role":"assistant","content":1}`), closed("3")},
		{wire.Anthropic, message(`{"r\u006fle":"user","content":"a"}`), closed("0")},
		{
			wire.Anthropic,
			message(`{"role":"user","content":[{"type":"text","text":"a","text":"b"},{"type":"text","text":"c"},"d"]}`),
			strings.Replace(around, "%s", "2/2/other||||\n2/2/text|||\"c\"|\n2/2/other||||\n", 1),
		},
		{
			wire.Anthropic, `{"system":7,"tools":["x",{"name":"a","name":"b"}],"messages":[{"role":"user","content":"hi"}]}`,
			"0/0/tool_def||||\n0/0/tool_def||||\n1/1/other||||\n2/2/text|||\"hi\"||00010\n",
		},
		{wire.OpenAIChat, message(`{"role":"function","name":"f","content":"a"}`), closed("4")},
		{wire.OpenAIChat, message(`{"role":"assistant","content":"a","tool_calls":{}}`), closed("3")},
		{
			wire.OpenAIChat,
			message(`{"role":"user","content":[{"type":"text","text":"a","text":"b"},{"type":"text","text":"c"}]}`),
			strings.Replace(around, "%s", "2/2/other||||\n2/2/text|||\"c\"|\n", 1),
		},
		{
			wire.OpenAIChat, message(`{"role":"assistant","content":"a","reasoning_content":"r","reasoning":"s"}`),
			strings.Replace(around, "%s",
				"2/3/thinking|||\"r\"||100000\n2/3/thinking|||\"s\"||100000\n2/3/text|||\"a\"||00010\n", 1),
		},
		{
			wire.OpenAIChat, message(`{"role":"assistant","reasoning":"s","reasoning_content":"r","content":"a"}`),
			strings.Replace(around, "%s",
				"2/3/thinking|||\"s\"||100000\n2/3/thinking|||\"r\"||100000\n2/3/text|||\"a\"||00010\n", 1),
		},
		{wire.OpenAIChat, message(`{"role":"assistant","content":"a","reasoning":"r","reasoning":"s"}`), closed("3")},
		{wire.OpenAIResponses, `{"input":[{"role":"user","content":"a","role":"assistant"}]}`, "2/0/other||||\n"},
		{
			wire.OpenAIResponses, `{"input":[{"type":"function_call_output","call_id":"a","call_id":"b","output":"c"}]}`,
			"2/4/other||||\n",
		},
		{
			wire.OpenAIResponses, `{"input":[{"role":"robot","content":"a"},{"role":"user","content":"hi"}]}`,
			"2/0/other||||\n2/2/text|||\"hi\"||00010\n",
		},
		{
			wire.OpenAIResponses, `{"input":[{"role":"user","content":1},{"role":"user","content":["a"]}]}`,
			"2/2/other||||\n2/2/other||||\n",
		},
		{
			wire.OpenAIResponses, `{"input":[{"type":"additional_tools","tools":["a",{"name":"b"}]}]}`,
			"2/1/tool_def||||\n2/1/tool_def||b||\n",
		},
		{wire.OpenAIResponses, `{"input":"a","instructions":[]}`, "1/1/other||||\n2/2/text|||\"a\"||00010\n"},
		{
			wire.Gemini, `{"systemInstruction":"a","contents":[{"parts":[{"text":"hi"}]}]}`,
			"1/1/other||||\n2/2/text|||\"hi\"|\n",
		},
		{wire.Gemini, `{"contents":[{"parts":[],"parts":[]}]}`, "2/0/other||||\n"},
		{wire.Gemini, `{"contents":[{"role":"user","parts":"a"}]}`, "2/2/other||||\n"},
		{wire.Gemini, `{"contents":[{"role":"robot","parts":[]}]}`, "2/0/other||||\n"},
		{wire.Gemini, part(`"a",{"text":"b"}`), "2/2/other||||\n2/2/text|||\"b\"|\n"},
		{wire.Gemini, part(`{"functionCall":{"name":"a"},"function_call":{"name":"b"}}`), "2/2/other||||\n"},
		{wire.Gemini, part(`{"text":"a","thoughtSignature":"","thought_signature":"x"}`), "2/2/other||||\n"},
		{wire.Gemini, part(`{"functionCall":{"name":"a","args":{"a":1},"args":{"b":1}}}`), "2/2/other||||\n"},
		{wire.Gemini, part(`{"functionResponse":{"name":"a","response":{"output":"a","output":"b"}}}`), "2/2/other||||\n"},
		{wire.Gemini, part(`{"functionCall":"a"}`), "2/2/other||||\n"},
		{
			wire.Gemini,
			`{"contents":[{"parts":[]}],"tools":["a",{"functionDeclarations":{}},{"functionDeclarations":[{"name":"a",` +
				`"name":"b"}]}]}`,
			"0/0/tool_def||||\n0/0/tool_def||||\n0/0/tool_def||||\n",
		},
	} {
		v := mustParse(t, c.format, c.body)
		if got := outline(v); got != c.want {
			t.Errorf("%s: %s: got\n%swant\n%s", c.format, c.body, got, c.want)
		}
		for i := range v.Blocks {
			b := &v.Blocks[i]
			if b.Hash.IsZero() || b.Span.Empty() {
				t.Errorf("%s: block %d has no hash or span", c.body, i)
			}
		}
		again, err := wire.Parse(c.format, []byte(c.body), func(wire.Hash) *wire.Known { return v.Known() })
		if err != nil || outline(again) != c.want {
			t.Errorf("%s: recalled it is %v\n%s", c.body, err, outline(again))
		}
	}
}

// Duplicates of members with last-wins semantics are accepted.
func TestParseTolerates(t *testing.T) {
	for f, members := range map[wire.Format]string{
		wire.Anthropic: `"thinking":{},"thinking":{"type":"disabled"},"metadata":{},"metadata":null`,
		wire.OpenAIChat: `"thinking":{"type":"enabled"},"reasoning_effort":"high","output_config":{},"response_format":{},` +
			`"max_tokens":1,"max_tokens":2`,
	} {
		mustParse(t, f, `{"messages":[{"role":"user","content":"a"}],`+members+`}`)
	}
}

// Thinking under two names is removed as one.
func TestSpliceTwins(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"assistant","content":"t","reasoning_content":"r", "reasoning":"r"}`: `{"role":"assistant","content":"t"}`,
		`{"reasoning":"r","reasoning_content":"r","role":"assistant","content":"t"}`:  `{"role":"assistant","content":"t"}`,
		`{"reasoning":"r","role":"assistant","content":"t","reasoning_content":"r"}`:  `{"role":"assistant","content":"t"}`,
	} {
		v := mustParse(t, wire.OpenAIChat, `{"messages":[`+message+`]}`)
		got, err := v.Splice([]wire.Edit{{Block: 0, Op: wire.OpRemove}, {Block: 1, Op: wire.OpRemove}})
		if err != nil || string(got) != `{"messages":[`+want+`]}` {
			t.Errorf("%s: got %s, %v", message, got, err)
		}
	}
}
