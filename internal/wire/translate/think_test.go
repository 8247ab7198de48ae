// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestInlineThinking: a leading <think> block in a local server's answer becomes thinking in
// translated answers, for any cuts of the stream. A tag anywhere else is text.
func TestInlineThinking(t *testing.T) {
	const plain = "a < b, </think> and <think> in the middle"
	for _, c := range []struct {
		name, content, before string
		thinking, text        string
	}{
		{"tags", "<think>\nHm, 1 < 2.\n</think>\n\nYes.", "", "Hm, 1 < 2.", "Yes."},
		{"blanks in front", "\n <think>Hm.</think>Yes.", "", "Hm.", "Yes."},
		{"nothing thought", "<think>\n\n</think>\n\nYes.", "", "", "Yes."},
		{"cut off in thought", "<think>Hm, </thi", "", "Hm, </thi", ""},
		{"a second thought", "<think>Hm.</think>Yes.<think>No.</think>", "", "Hm.", "Yes.<think>No.</think>"},
		{"in the middle", plain, "", "", plain},
		{"another tag", "<thinking>Hm.</thinking>", "", "", "<thinking>Hm.</thinking>"},
		{"blanks alone", "  ", "", "", "  "},
		{"half a tag", "<thi", "", "", "<thi"},
		{"a server that separates", "<think>Yes.</think>", `"reasoning_content":"Hm.",`, "Hm.", "<think>Yes.</think>"},
	} {
		for _, size := range []int{1, 3, 1000} {
			var stream string
			for i := 0; i < len(c.content); i += size {
				before := ""
				if i == 0 {
					before = c.before
				}
				stream += `data: {"id":"c1","choices":[{"index":0,"delta":{` + before + `"content":` +
					string(quote(c.content[i:min(i+size, len(c.content))])) + `}}]}` + "\n\n"
			}
			stream += `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
			s := translate.NewStream(wire.OpenAIChat, wire.Anthropic, &translate.Answering{Stream: true, InlineThinking: true})
			d := wire.NewDecoder(wire.Anthropic, true)
			d.Feed(s.Feed([]byte(stream)))
			d.Feed(s.Close(false))
			if got := d.Turn(); got.Thinking != c.thinking || got.Text != c.text || !got.Done {
				t.Errorf("%s, %d bytes at a time: got thinking %q and text %q, want %q and %q", c.name, size, got.Thinking,
					got.Text, c.thinking, c.text)
			}
		}
		whole := translate.NewStream(wire.OpenAIChat, wire.Anthropic, &translate.Answering{InlineThinking: true})
		whole.Feed([]byte(`{"id":"c1","choices":[{"index":0,"message":{"role":"assistant",` + c.before + `"content":` +
			string(quote(c.content)) + `},"finish_reason":"stop"}]}`))
		d := wire.NewDecoder(wire.Anthropic, false)
		d.Feed(whole.Close(false))
		if got := d.Turn(); got.Thinking != c.thinking || got.Text != c.text {
			t.Errorf("%s, whole: got thinking %q and text %q, want %q and %q", c.name, got.Thinking, got.Text, c.thinking,
				c.text)
		}
	}
	s := translate.NewStream(wire.OpenAIChat, wire.Anthropic, &translate.Answering{})
	s.Feed([]byte(`{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"<think>Hm.</think>Yes."},` +
		`"finish_reason":"stop"}]}`))
	d := wire.NewDecoder(wire.Anthropic, false)
	d.Feed(s.Close(false))
	if got := d.Turn(); got.Text != "<think>Hm.</think>Yes." {
		t.Errorf("a hosted API's text: got %q, want it as it is", got.Text)
	}
}
