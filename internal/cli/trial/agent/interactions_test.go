// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
)

// All steps are in each request, and earlier ones never change.
func TestInteractionsBytes(t *testing.T) {
	got := bodies(t, ferry, func(s setting) Agent { return newInteractions(s, "gemini-x") })
	const (
		head = `{"model":"gemini-x","store":false,"stream":true,"system_instruction":"You count things.\nBe exact.",` +
			`"tools":[{"type":"function","name":"bash","description":"Tool bash.","parameters":{"type":"object"}}],` +
			`"input":[{"type":"user_input","content":[{"type":"text","text":"Count the boats."}]}`
		tail  = `],"generation_config":{"thinking_summaries":"auto"}}`
		third = `,{"type":"model_output","content":[{"type":"text","text":"Seven."}]}` +
			`,{"type":"user_input","content":[{"type":"text","text":"And the oars?"},{"type":"text","text":"All of them."}]}`
	)
	second := `,{"type":"model_output","content":[{"type":"text","text":"Counting."}]}` +
		`,{"type":"thought","signature":"` + simulator.Sign(`bash {"command":"ls boats | wc -l"}`) + `"}` +
		`,{"type":"function_call","id":"b1","name":"bash","arguments":{"command":"ls boats | wc -l"}}` +
		`,{"type":"function_result","call_id":"b1","name":"bash","result":[{"type":"text","text":"7"},{"type":"image",` +
		`"mime_type":"image/png","data":"iVBORw0KGgo="}]}`
	for i, want := range []string{head + tail, head + second + tail, head + second + third + tail} {
		if got[i] != want {
			t.Errorf("request %d:\n%s\nwant\n%s", i, got[i], want)
		}
	}
}
