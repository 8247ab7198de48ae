// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
)

// TestReinsertReasoning checks that dropped reasoning returns with its intercepted call, and that kept
// reasoning is not doubled. Reasoning that the provider cannot use stays away.
func TestReinsertReasoning(t *testing.T) {
	const thought, call, said = `{"type":"thought","signature":"c2ln"}`,
		`{"type":"function_call","id":"c1","name":"now","arguments":{}}`,
		`{"type":"model_output","content":[{"type":"text","text":"Noon."}]}`
	const reasoning, item, message = `{"type":"reasoning","id":"rs_1","encrypted_content":"x","summary":[]}`,
		`{"type":"function_call","id":"fc_1","call_id":"c1","name":"now","arguments":"{}"}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Noon."}]}`
	bare := strings.Replace(reasoning, `"encrypted_content":"x",`, "", 1)
	for _, c := range []struct {
		name                 string
		format               wire.Format
		thought, call, said  string
		kept                 bool // the client kept the reasoning
		stateless, goesAlong bool
		result               string
	}{
		{
			"a thought that was dropped", wire.Interactions, thought, call, said, false, true, true,
			`{"type":"function_result","name":"now","call_id":"c1","result":"12"}`,
		},
		{
			"a thought that was kept", wire.Interactions, thought, call, said, true, true, true,
			`{"type":"function_result","name":"now","call_id":"c1","result":"12"}`,
		},
		{
			"reasoning that was dropped", wire.OpenAIResponses, reasoning, item, message, false, true, true,
			`{"type":"function_call_output","call_id":"c1","output":"12"}`,
		},
		{
			"reasoning that was kept", wire.OpenAIResponses, reasoning, item, message, true, true, true,
			`{"type":"function_call_output","call_id":"c1","output":"12"}`,
		},
		{
			"reasoning that the provider keeps", wire.OpenAIResponses, bare, item, message, false, false, true,
			`{"type":"function_call_output","call_id":"c1","output":"12"}`,
		},
		{
			"reasoning that is lost", wire.OpenAIResponses, bare, item, message, false, true, false,
			`{"type":"function_call_output","call_id":"c1","output":"12"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			its := []hidden.Iteration{
				{Stateless: c.stateless, Parts: []hidden.Part{
					{Kind: wire.KindReasoning, Raw: []byte(c.thought)},
					{Kind: wire.KindToolUse, Raw: []byte(c.call), ID: "c1", Name: "now", Arguments: "{}", Hidden: true, Result: "12"},
				}},
				{Stateless: c.stateless, Parts: []hidden.Part{{Kind: wire.KindText, Raw: []byte(c.said)}}},
			}
			request := func(middle ...string) string {
				user := `{"type":"user_input","content":[{"type":"text","text":"Time?"}]}`
				if c.format == wire.OpenAIResponses {
					user = `{"type":"message","role":"user","content":[{"type":"input_text","text":"Time?"}]}`
				}
				return `{"model":"m","input":[` + strings.Join(append(append([]string{user}, middle...), user), ",") + `]}`
			}
			client, want := []string{c.said}, []string{c.call, c.result, c.said}
			if c.kept {
				client = []string{c.thought, c.said}
			}
			if c.goesAlong {
				want = append([]string{c.thought}, want...)
			}
			v, err := wire.Parse(c.format, []byte(request(client...)), nil)
			if err != nil {
				t.Fatal(err)
			}
			edits, ok := hidden.Reinsert(v, 1, its)
			if !ok {
				t.Fatal("it is not the message that the client was given")
			}
			got, err := v.Splice(edits)
			if err != nil || string(got) != request(want...) {
				t.Errorf("%v\n got %s\nwant %s", err, got, request(want...))
			}
		})
	}
}
