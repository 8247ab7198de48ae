// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// A llama.cpp server reports the prompt's length before its answer, and a Messages client gets it
// at the start. Unknown counts stay 0: Claude Code takes the last nonzero count of each kind and
// would add a guess to the cache reads.
func TestUsageAtTheBeginning(t *testing.T) {
	const (
		progress = `data: {"id":"c","choices":[],"prompt_progress":{"total":1000,"cache":900,"processed":900,"time_ms":1}}`
		text     = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}`
		end      = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage    = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":5,"total_tokens":1005,` +
			`"prompt_tokens_details":{"cached_tokens":900}}}`
		done = `data: [DONE]`
		last = `"usage":{"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":900,` +
			`"output_tokens":5}`
	)
	for _, c := range []struct {
		name, first, last string
		events            []string
	}{
		{
			"told", `"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":900,`, last,
			[]string{progress, text, end, usage, done},
		},
		{
			"told twice", `"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":900,`, last,
			[]string{progress, strings.Replace(progress, `processed":900`, `processed":1000`, 1), text, end, usage, done},
		},
		{
			"not told", `"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,`, last,
			[]string{text, end, usage, done},
		},
		{
			"nonsense", `"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,`, last,
			[]string{strings.Replace(progress, `"cache":900`, `"cache":9000`, 1), text, end, usage, done},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := translate.NewStream(wire.OpenAIChat, wire.Anthropic, &translate.Answering{Stream: true})
			out := string(s.Feed([]byte(strings.Join(c.events, "\n\n") + "\n\n")))
			first, rest, _ := strings.Cut(out, "\n\n")
			if !strings.HasPrefix(first, "event: message_start\n") || !strings.Contains(first, `"usage":{`+c.first) {
				t.Errorf("begins with %s", first)
			}
			if !strings.Contains(rest, c.last) || !s.Ended() {
				t.Errorf("goes on with %s", rest)
			}
		})
	}
}
