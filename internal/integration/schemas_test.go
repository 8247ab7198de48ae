// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestNativeSchemas: Anthropic gets a tool with alternatives as one object, in the same bytes in each turn,
// and the client reads in the header what is gone.
func TestNativeSchemas(t *testing.T) {
	u := newUpstream(t, stream(messagesAnswer...))
	p := start(t, "llm_cache {\n headers full\n upstream anthropic\n}\nreverse_proxy "+u.Listener.Addr().String())
	const tool = `{"name":"Attach","input_schema":{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},` +
		`{"properties":{"b":{"type":"string"}}}]}}`
	var sent [2]string
	for turn := range sent {
		body := strings.Replace(conversation(turn, true), `"messages":[`, `"tools":[`+tool+`],"messages":[`, 1)
		res := p.post("/v1/messages", body)
		read(t, res)
		if got := res.Header.Get("X-Llm-Cache-Dropped"); got != "tools[].input_schema.anyOf" {
			t.Errorf("turn %d: X-Llm-Cache-Dropped is %q", turn, got)
		}
		sent[turn] = gjson.Get(u.last().body, "tools").Raw
	}
	const want = `"input_schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`
	if sent[0] != sent[1] || !strings.Contains(sent[0], want) {
		t.Errorf("the first turn sent %s, the second %s", sent[0], sent[1])
	}
}
