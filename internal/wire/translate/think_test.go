// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/golden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestInlineThinkingInPieces: a stream has the same thinking and text as the answer in one piece, for
// any cuts of its text.
func TestInlineThinkingInPieces(t *testing.T) {
	golden.Run(t, "testdata/answers/inline_thinking", func(t *testing.T, sections []golden.Section) {
		asked := translate.Answering{InlineThinking: true}
		whole, _ := run(wire.OpenAIChat, wire.Anthropic, asked, []byte(golden.Compact(sections[0].Text)))
		want := decoded(wire.Anthropic, false, whole)
		message := gjson.Get(sections[0].Text, "choices.0.message")
		content := message.Get("content").Str
		for _, size := range []int{1, 3, 1000} {
			var stream strings.Builder
			if r := message.Get("reasoning_content"); r.Exists() {
				stream.WriteString(streamed(`{"id":"c1","choices":[{"index":0,"delta":{"reasoning_content":` + r.Raw + `}}]}`))
			}
			for i := 0; i < len(content); i += size {
				piece := string(quote(content[i:min(i+size, len(content))]))
				stream.WriteString(streamed(`{"id":"c1","choices":[{"index":0,"delta":{"content":` + piece + `}}]}`))
			}
			stream.WriteString(streamed(`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `[DONE]`))
			asked.Stream = true
			out, _ := run(wire.OpenAIChat, wire.Anthropic, asked, []byte(stream.String()))
			if got := decoded(wire.Anthropic, true, out); got.Thinking != want.Thinking || got.Text != want.Text || !got.Done {
				t.Errorf("%d bytes at a time: got thinking %q and text %q, want %q and %q", size, got.Thinking, got.Text,
					want.Thinking, want.Text)
			}
		}
	})
}

func quote(s string) []byte { return gjson.AppendJSONString(nil, s) }
