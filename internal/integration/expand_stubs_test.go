// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestStubIsNotWrittenInFormats has the model take a stub for content in every
// kind of call that may write: the call does not reach the client, the model is
// told in the form that the kind wants, and a call without a stub passes whole.
func TestStubIsNotWrittenInFormats(t *testing.T) {
	t.Parallel()
	const stub = "[[llm_cache:folded NAME: Read]]"
	patch := func(text string) string {
		return "*** Begin Patch\n*** Add File: a.go\n+" + text + "\n*** End Patch\n"
	}
	item := func(kind, member string) func(string) piece {
		return func(text string) piece {
			return piece{"item", "call_w", `{"type":"` + kind + `","id":"x_1","call_id":"call_w","status":"completed",` +
				strings.Replace(member, "TEXT", text, 1) + `}`}
		}
	}
	refused := `"output":"Not run: `
	for name, c := range map[string]struct {
		of   []wire.Format // none: all
		call func(text string) piece
		told string // what the answer to the call looks like upstream
	}{
		"Write": {nil, func(text string) piece { return called("call_w", `Write {"content":`+js(text)+`}`) }, ""},
		"edits": {nil, func(text string) piece {
			return called("call_w", `MultiEdit {"edits":[{"old_string":"a","new_string":`+js(text)+`}]}`)
		}, ""},
		"a shell": {nil, func(text string) piece {
			return called("call_w", `run_shell_command {"command":`+js("cat > a <<END\n"+text+"\nEND")+`}`)
		}, ""},
		"any tool": {
			nil, func(text string) piece { return called("call_w", `frobnicate {"deep":{"in":[`+js(text)+`]}}`) },
			"",
		},
		"apply_patch as a function": {nil, func(text string) piece {
			return called("call_w", `apply_patch {"input":`+js(patch(text))+`}`)
		}, ""},
		"apply_patch": {[]wire.Format{wire.OpenAIResponses}, func(text string) piece {
			return piece{"custom", "call_w", "apply_patch " + patch(text)}
		}, `"type":"custom_tool_call_output","call_id":"call_w",` + refused},
		"exec": {[]wire.Format{wire.OpenAIResponses}, func(text string) piece {
			return piece{"custom", "call_w", "exec text(await tools.apply_patch(" + js(patch(text)) + "));"}
		}, `"type":"custom_tool_call_output","call_id":"call_w",` + refused},
		"custom, chat": {[]wire.Format{wire.OpenAIChat}, func(text string) piece {
			return piece{"custom", "call_w", "apply_patch " + patch(text)}
		}, `"role":"tool","tool_call_id":"call_w","content":"Not run: `},
		"local_shell": {
			[]wire.Format{wire.OpenAIResponses},
			item("local_shell_call", `"action":{"type":"exec","command":["bash","-lc","echo TEXT > a"]}`),
			`"type":"local_shell_call_output","call_id":"call_w",` + refused,
		},
		"shell": {
			[]wire.Format{wire.OpenAIResponses},
			item("shell_call", `"action":{"commands":["echo TEXT > a"]}`),
			`"type":"shell_call_output","call_id":"call_w","output":[{"stdout":"","stderr":"Not run: `,
		},
		"patches of the provider's": {
			[]wire.Format{wire.OpenAIResponses},
			item("apply_patch_call", `"operation":{"type":"create_file","path":"a","diff":"+TEXT"}`),
			`"type":"apply_patch_call_output","call_id":"call_w","status":"failed",` + refused,
		},
	} {
		for _, g := range tongues {
			if c.of != nil && !slices.Contains(c.of, g.format) {
				continue
			}
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, stream %t", name, g.format, stream), func(t *testing.T) {
					good := c.call("real text")
					good.id = strings.Replace(good.id, "call_w", "call_v", 1)
					good.text = strings.ReplaceAll(good.text, "call_w", "call_v")
					p, u := g.fold(t, stream, func(name string, n int) []piece {
						if n == 1 {
							return []piece{text("I write."), c.call(strings.Replace(stub, "NAME", name, 1))}
						}
						return []piece{good}
					})
					body := read(t, p.post(g.path(stream), g.request(history(5), stream)))
					if strings.Contains(body, "call_w") || strings.Contains(body, "llm_cache") {
						t.Errorf("the client got %s", body)
					}
					if !strings.Contains(body, "call_v") || !strings.Contains(body, "real text") {
						t.Errorf("the client lacks its call: %s", body)
					}
					g.strictly(t, body, stream)
					last := u.last().body
					if !gjson.Valid(last) || !strings.Contains(last, "Not run: ") || !strings.Contains(last, c.told) {
						t.Errorf("the model was told %s", short(last))
					}
				})
			}
		}
	}
}
