// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// one returns the tokens of the last block of a request.
func one(t *testing.T, f wire.Format, body string) int {
	t.Helper()
	v := parse(t, f, body)
	n := Tokens(v, &v.Blocks[len(v.Blocks)-1])
	for range 2 {
		if got := remembered.of(v, &v.Blocks[len(v.Blocks)-1]); got != n {
			t.Errorf("%d tokens as remembered, %d of %s", got, n, body)
		}
	}
	return n
}

// remembered has seen the blocks of all tests: none may be taken for another.
var remembered = make(counts)

func TestCountsAreBounded(t *testing.T) {
	v := parse(t, wire.Anthropic, ask(hi, ""))
	c := make(counts)
	for i := range 2*maxCounts + 1 {
		v.Blocks[0].Hash = wire.Hash{1, byte(i), byte(i >> 8), byte(i >> 16)}
		if c.of(v, &v.Blocks[0]); len(c) > maxCounts {
			t.Fatalf("%d counts are remembered", len(c))
		}
	}
}

func TestTokens(t *testing.T) {
	hundred := strings.Repeat("x", 100)
	history := hi + assistant("["+use+"]") + ","
	for _, c := range []struct {
		name, body string
		want       int
	}{
		{"text", ask(user(`"`+hundred+`"`), ""), framing + 29},
		{"escapes", ask(user(`"`+strings.Repeat(`\n`, 50)+strings.Repeat(`\u00e4`, 50)+`"`), ""), framing + 29},
		{"pairs of escapes", ask(user(`"`+strings.Repeat(`\ud83d\uDE00`, 100)+`"`), ""), framing + 29},
		{"umlauts", ask(user(`"`+strings.Repeat("ä", 100)+`"`), ""), framing + 29},
		{
			"tool_result", ask(history+user(`[{"type":"tool_result","tool_use_id":"t1","content":"`+hundred+`"}]`), ""),
			framing + 33,
		},
		{
			"tool_result in parts",
			ask(history+user(`[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"`+hundred[:50]+
				`"},{"type":"text","text":"`+hundred[:50]+`"}]}]`), ""), framing + 33,
		},
		{"tool_result with an image", ask(history+
			user(`[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","data":"`+
				hundred+`"}}]}]`), ""), framing + tokensImage},
		{"empty tool_result", ask(history+user(`[{"type":"tool_result","tool_use_id":"t1"}]`), ""), framing},
		{"tool_use", ask(hi+assistant(`[{"type":"tool_use","id":"t","name":"edit","input":{"text":"`+hundred[:85]+`"}}]`),
			""), framing + 33},
		{
			"thinking by its text", ask(hi+assistant(`[{"type":"thinking","thinking":"`+hundred+`","signature":"abc"}]`), ""),
			framing + 29,
		},
		{"thinking by its signature", ask(hi+assistant(`[{"type":"thinking","thinking":"","signature":"`+hundred+hundred+
			`"}]`), ""), framing + 38},
		{"signature before the text", ask(hi+assistant(`[{"signature":"`+hundred+hundred+
			`","type":"thinking","thinking":""}]`), ""), framing + 38},
		{"tool_result with a document", ask(history+
			user(`[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"document","source":{"type":"content","content":"`+hundred+`"}},{"type":"search_result","x":1}]}]`), ""), framing + 29 + 9},
		{
			"redacted thinking", ask(hi+assistant(`[{"type":"redacted_thinking","data":"`+hundred[:98]+`"}]`), ""),
			framing + 19,
		},
		{"image", ask(user(`[{"type":"image","source":{"type":"base64","data":"`+hundred+`"}}]`), ""), framing + tokensImage},
		{
			"document as text", ask(user(`[{"type":"document","source":{"type":"text","data":"`+hundred+`"}}]`), ""),
			framing + 29,
		},
		{"document of two pages", ask(user(`[{"type":"document","source":{"type":"base64","data":"`+
			strings.Repeat("x", pageBytes+1)+`"}}]`), ""), framing + 2*tokensImage},
		{
			"document by address", ask(user(`[{"type":"document","source":{"type":"url","url":"http://x"}}]`), ""),
			framing + tokensImage,
		},
	} {
		if got := one(t, wire.Anthropic, c.body); got != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, got, c.want)
		}
	}
	if got := one(t, wire.OpenAIChat, ask(user(`[{"type":"image_url","image_url":{"url":"data:`+hundred+`"}}]`),
		"")); got != framing+tokensImage {
		t.Errorf("image_url: %d tokens", got)
	}
	if got := one(t, wire.OpenAIChat, ask(hi+`,{"role":"assistant","reasoning_content":"`+hundred+`"}`,
		"")); got != framing+29 {
		t.Errorf("reasoning: %d tokens", got)
	}
	if got := one(t, wire.OpenAIChat, ask(`{"role":"system","content":"`+hundred+`"}`, "")); got != framing+27 {
		t.Errorf("system: %d tokens", got)
	}
}

func TestTokensDoNotDependOnForm(t *testing.T) {
	pairs := [][2]string{
		{ask(user(`"some text"`), ""), ask(user(`[{"type":"text","text":"some text"}]`), "")},
		{ask(user(`"some text"`), ""), ask(user(`[{"cache_control":{"type":"ephemeral"},"type":"text","text":"some text"}]`),
			"")},
		{
			ask(hi+assistant("["+use+"]")+","+user("["+result+"]"), ""),
			ask(hi+assistant("["+use+"]")+","+
				user(`[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"ok"}],`+
					`"cache_control":{"type":"ephemeral","ttl":"1h"}}]`), ""),
		},
		{ask(user(`[{"type":"odd","x":1}]`), ""), ask(user(`[{"type":"odd","x":1,"cache_control":{"type":"ephemeral"}}]`),
			"")},
	}
	for _, p := range pairs {
		if a, b := one(t, wire.Anthropic, p[0]), one(t, wire.Anthropic, p[1]); a != b {
			t.Errorf("%d tokens of %s\n%d of %s", a, p[0], b, p[1])
		}
	}
	tools := []string{
		`{"name":"a","input_schema":{"type":"object"}}`,
		`{"name":"a","cache_control":{"type":"ephemeral"},"input_schema":{"type":"object"}}`,
		`{"name":"a","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}`,
		`{"cache_control":{"type":"ephemeral"},"name":"a","input_schema":{"type":"object"}}`,
		`{"name":"a","cache_control" : {"type": "ephemeral"} ,"input_schema":{"type":"object"}}`,
	}
	want := 0
	for i, tool := range tools {
		v := parse(t, wire.Anthropic, ask(hi, `,"tools":[`+tool+`]`))
		got := Tokens(v, &v.Blocks[0])
		if i == 0 {
			want = got
		}
		if diff := got - want; diff != 0 {
			t.Errorf("%s: %d tokens, want %d", tool, got, want)
		}
	}
}

func TestCharsOfBrokenEscapes(t *testing.T) {
	for s, want := range map[string]int{`"\"`: 1, `"\u12"`: 1, `"a\`: 2, `\`: 1, `"`: 1, ``: 0, `""`: 0} {
		if got := chars([]byte(s)); got < 0 || got > want {
			t.Errorf("%q: %d characters", s, got)
		}
	}
}

// TestTokensOfPrograms: a result that a program reads takes no tokens of the prompt, as the
// model never sees it.
func TestTokensOfPrograms(t *testing.T) {
	for caller, want := range map[string]bool{
		`,"caller":{"type":"code_execution_20250825","tool_id":"s"}`: true,
		`,"caller":{"type":"direct"}`:                                false, "": false,
	} {
		v, err := wire.Parse(wire.Anthropic,
			[]byte(`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"q","input":{}`+
				caller+`}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"a result of some length"}]}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := Tokens(v, &v.Blocks[len(v.Blocks)-1]); (n == 1) != want {
			t.Errorf("%s: got %d tokens, want 1: %t", caller, n, want)
		}
	}
}
