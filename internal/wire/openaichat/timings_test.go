// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat_test

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
)

// The usage of llama.cpp is read from its timings where it reports none, also in a chunk without choices.
func TestTimings(t *testing.T) {
	const text = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}` + "\n\n"
	const timings = `"timings":{"cache_n":90,"prompt_n":10,"predicted_n":5}`
	for chunk, want := range map[string]wire.Usage{
		`{"id":"c","choices":[],` + timings + `}`: {Uncached: 10, Read: 90, Output: 5, Reported: true},
		`{"id":"c",` + timings + `}`:              {Uncached: 10, Read: 90, Output: 5, Reported: true},
		`{"id":"c","usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":80}},` +
			timings + `}`: {Uncached: 20, Read: 80, Output: 5, Reported: true},
		`{"id":"c","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5}}`: {Uncached: 100, Output: 5, Reported: true},
	} {
		d := wire.NewDecoder(wire.OpenAIChat, true)
		d.Feed([]byte(text + "data: " + chunk + "\n\ndata: [DONE]\n\n"))
		d.End()
		if got := d.Turn(); got.Usage != want || !got.Done {
			t.Errorf("%s: got %+v, done %t, want %+v", chunk, got.Usage, got.Done, want)
		}
	}
}
