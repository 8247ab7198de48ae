// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package anthropic

import "testing"

// TestToolChanges checks that texts replace the blocks that add or remove tools, and that an added
// tool with a definition is offered.
func TestToolChanges(t *testing.T) {
	const (
		read  = `{"name":"read","input_schema":{"type":"object"}}`
		write = `{"name":"write","input_schema":{"type":"object"}}`
		there = `{"type":"text","text":"From here on there is a tool write."}`
	)
	messages := func(block string) string {
		return `"messages": [{"role":"user","content":"tool_addition"}, {"role":"system","content":[ ` + block +
			` ,{"type":"text","text":"Go on."}]}]`
	}
	definition := messages(`{"type":"tool_addition","tool":{"type":"tool_definition","definition":` + write + `}}`)
	for _, c := range []struct{ name, body, want string }{
		{
			"a deferred tool", `{"tools":[` + read + `,{"defer_loading":true,"name":"write"}],` +
				messages(`{"type":"tool_addition","tool":{"type":"tool_reference","name":"write"}}`) + `}`,
			`{"tools":[` + read + `,{"defer_loading":true,"name":"write"}],` + messages(there) + `}`,
		},
		{"a definition", `{"tools":[` + read + `],` + definition + `}`, `{"tools":[` + read + `,` + write + `],` +
			messages(there) + `}`},
		{"a definition, tools behind", `{` + definition + `,"tools":[` + read + `]}`, `{` + messages(there) + `,"tools":[` +
			read + `,` + write + `]}`},
		{"a definition and no other tool", `{"tools":[],` + definition + `}`, `{"tools":[` + write + `],` + messages(there) +
			`}`},
		{
			"a tool that goes", `{"tools":[` + read + `],` +
				messages(`{"type":"tool_removal","tool":{"type":"tool_reference","name":"read"}}`) + `}`,
			`{"tools":[` + read + `],` + messages(`{"type":"text","text":"From here on there is no tool read any more."}`) + `}`,
		},
	} {
		got := string(Codec{}.ToolChangesAsText([]byte(c.body)))
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
