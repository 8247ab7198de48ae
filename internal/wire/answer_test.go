// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/answers"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// turns are the turns of the recorded answers.
var turns = map[string]wire.Turn{
	"anthropic_text.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Hello, “world”\n\t😀 done \\ \"quoted\"", StopReason: "end_turn",
		Done:    true,
		Usage:   wire.Usage{Uncached: 12, Write5m: 340, Read: 5600, Output: 21, Reported: true},
		Service: wire.Standard,
	},
	"anthropic_tools.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Let me look.", StopReason: "tool_use", Done: true,
		Calls: []wire.Call{
			{ID: "toolu_a", Name: "Read", Arguments: `{"file_path": "/tmp/a.go"}`},
			{ID: "toolu_b", Name: "Bash", Arguments: `{"command":"ls -l \"x y\""}`},
			{ID: "toolu_c", Name: "Now", Arguments: `{}`},
		},
		Usage: wire.Usage{Uncached: 4, Write5m: 900, Read: 20000, Output: 88, Reported: true},
	},
	"anthropic_thinking.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Thinking: "First, the file.", Text: "Done.", StopReason: "end_turn",
		Done:  true,
		Usage: wire.Usage{Uncached: 7, Write5m: 600, Write1h: 1000, Read: 30000, Output: 40, Reported: true},
	},
	"anthropic_refusal.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "I", StopReason: "refusal", Done: true,
		Usage: wire.Usage{Uncached: 30, Output: 2, Reported: true},
	},
	"anthropic_max_tokens.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", StopReason: "max_tokens", Done: true,
		Calls: []wire.Call{{ID: "toolu_a", Name: "Write", Arguments: `{"content":"half`}},
		Usage: wire.Usage{Uncached: 30, Output: 32, Reported: true},
	},
	"anthropic_error.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Hal", ErrorType: "overloaded_error", ErrorMessage: "Overloaded",
		Usage: wire.Usage{Uncached: 30, Output: 1, Reported: true},
	},
	"anthropic_cut.sse": {
		ID: "msg_01", Model: "claude-opus-5-5",
		Calls: []wire.Call{{ID: "toolu_a", Name: "Read", Arguments: `{"file_path":`}},
		Usage: wire.Usage{Uncached: 30, Output: 1, Reported: true},
	},
	"anthropic_unstopped.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "All said.", StopReason: "end_turn",
		Usage: wire.Usage{Uncached: 30, Output: 5, Reported: true},
	},
	"anthropic_usage_late.sse": {
		ID: "msg_01", Model: "qwen3.5", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage: wire.Usage{Uncached: 50, Read: 4000, Output: 6, Reported: true},
	},
	"anthropic_usage_undone.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage: wire.Usage{Uncached: 120, Read: 4000, Output: 6, Reported: true},
	},
	"anthropic_usage_omlx.sse": {
		ID: "msg_01", Model: "qwen3.5", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage: wire.Usage{Write5m: 808, Read: 8192, Output: 6, Reported: true},
	},
	"anthropic_usage_null.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage: wire.Usage{Uncached: 120, Output: 6, Reported: true},
	},
	"anthropic_usage_none.sse": {ID: "msg_02", Model: "m", Text: "Hi", StopReason: "end_turn", Done: true},
	"anthropic_iterations.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage: wire.Usage{Uncached: 43000, Write5m: 100, Write1h: 400, Read: 160000, Output: 4500, Reported: true},
		Final: wire.Usage{Uncached: 23000, Write5m: 500, Output: 1000, Reported: true}, Compacted: true,
	},
	"anthropic_compacted.json": {
		ID: "msg_04", Model: "claude-opus-5-5", StopReason: "compaction", Done: true,
		Usage: wire.Usage{Uncached: 20000, Read: 160000, Output: 3500, Reported: true},
		Final: wire.Usage{Reported: true}, Compacted: true,
		Iterations: []wire.Usage{{Uncached: 20000, Read: 160000, Output: 3500}},
	},
	"anthropic_cleared.sse": {
		ID: "msg_01", Model: "claude-sonnet-4-6", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage:   wire.Usage{Uncached: 12, Write5m: 4000, Read: 20000, Output: 3, Reported: true},
		Cleared: wire.Cleared{ToolUses: 8, Thinking: 3, Tokens: 65000, ThinkingTokens: 15000},
	},
	"anthropic_iterations_partial.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Hi", StopReason: "end_turn", Done: true,
		Usage: wire.Usage{Uncached: 100, Output: 50, Reported: true},
	},
	"anthropic_server_tool.sse": {
		ID: "msg_01", Model: "claude-opus-5-5", Text: "Found.", StopReason: "pause_turn", Done: true,
		Usage: wire.Usage{Uncached: 10, Write5m: 300, Write1h: 700, Read: 100, Output: 9, Reported: true},
	},
	"anthropic_message.json": {
		ID: "msg_03", Model: "claude-sonnet-5", Thinking: "Hm.", Text: "Two calls:\nand", StopReason: "tool_use", Done: true,
		Calls: []wire.Call{
			{
				ID: "toolu_a", Name: "Read",
				Arguments: "{\n        \"file_path\": \"/tmp/ü.go\",\n        \"limit\": 100.0\n      }",
			},
			{ID: "toolu_b", Name: "Now", Arguments: `{}`},
		},
		Usage: wire.Usage{Uncached: 5, Write5m: 10, Write1h: 20, Read: 2000, Output: 77, Reported: true},
	},
	"anthropic_prewarm.json": {
		ID: "msg_04", Model: "claude-opus-5-5", StopReason: "max_tokens", Done: true,
		Usage: wire.Usage{Uncached: 3, Write5m: 9000, Reported: true},
	},
	"anthropic_error_body.json": {
		ErrorType: "invalid_request_error", ErrorMessage: "messages.1.content.0: Invalid `signature` in `thinking` block",
		Done: true,
	},
	"openai_text.sse": {
		ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "Hello, “world”\n😀", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 368, Write5m: 512, Read: 5120, Output: 9, Reported: true},
	},
	"openai_usage_none.sse": {ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "Hello", StopReason: "stop", Done: true},
	"openai_tools.sse": {
		ID: "chatcmpl-1", Model: "gpt-6-sol", StopReason: "tool_calls", Done: true,
		Calls: []wire.Call{
			{ID: "call_a", Name: "read", Arguments: `{"path": "/tmp/a"}`},
			{ID: "call_b", Name: "bash", Arguments: `{"command":"ls \"x\""}`},
			{ID: "call_c", Name: "now"},
		},
		Usage: wire.Usage{Uncached: 100, Output: 40, Reported: true},
	},
	"openai_mlx_lm.sse": {
		ID: "chatcmpl-mlx", Model: "default_model", Thinking: "Thinking.", Text: "Hi", StopReason: "tool_calls", Done: true,
		Calls: []wire.Call{
			{ID: "id-1", Name: "read", Arguments: `{"path": "a"}`},
			{ID: "id-2", Name: "read", Arguments: `{"path": "b"}`},
		},
		Usage: wire.Usage{Uncached: 120, Read: 9000, Output: 30, Reported: true},
	},
	"openai_deepseek.sse": {
		ID: "chatcmpl-1", Model: "deepseek-chat", Thinking: "Hm.", Text: "Hi", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 60, Read: 640, Output: 12, Reported: true},
	},
	"openai_omlx.sse": {
		ID: "chatcmpl-1", Model: "qwen3.5", Text: "Hi", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 808, Read: 8192, Output: 2, Reported: true},
	},
	"openai_ollama.sse": {
		ID: "chatcmpl-1", Model: "qwen3:8b", Thinking: "Hm.", Text: "Hi", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 4089, Output: 5, Reported: true},
	},
	"openai_llama_server.sse": {
		ID: "chatcmpl-1", Model: "tiny", Text: "Hi", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 24, Read: 9100, Output: 3, Reported: true},
	},
	"openai_continuous_usage.sse": {
		ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "Hi", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 50, Output: 2, Reported: true},
	},
	"openai_gateway.sse": {
		ID: "chatcmpl-1", Model: "claude-opus-5-5", Text: "Hi", StopReason: "stop", Done: true,
		Usage: wire.Usage{Uncached: 100, Write5m: 300, Read: 600, Output: 60, Reported: true},
	},
	"openai_error.sse": {
		ID: "chatcmpl-1", Model: "default_model", Text: "Hal", ErrorType: "server_error", ErrorMessage: "Failed to generate",
	},
	"openai_error_text.sse": {ErrorMessage: "prompt too long"},
	"openai_cut.sse":        {ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "All", StopReason: "stop"},
	"openai_refusal.sse": {
		ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "I can't.", StopReason: "content_filter",
		Done: true,
	},
	"openai_same_index.sse": {
		ID: "chatcmpl-1", Model: "gpt-6-sol", StopReason: "tool_calls", Done: true,
		Calls: []wire.Call{
			{ID: "call_a", Name: "read", Arguments: `{"p":1}`},
			{ID: "call_b", Name: "read", Arguments: `{"p":2}`},
		},
	},
	"openai_two_choices.sse": {ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "one", StopReason: "stop", Done: true},
	"openai_azure.sse":       {ID: "chatcmpl-1", Model: "gpt-6-sol", Text: "Hi", StopReason: "stop", Done: true},
	"openai_completion.json": {
		ID: "chatcmpl-2", Model: "gpt-6-sol", Thinking: "Hm.", Text: "Hi", StopReason: "tool_calls", Done: true,
		Calls: []wire.Call{
			{ID: "call_a", Name: "read", Arguments: `{"path": "/tmp/\u00fc"}`},
			{ID: "call_b", Name: "now", Arguments: `{}`},
		},
		Usage:   wire.Usage{Uncached: 80, Read: 1920, Output: 15, Reported: true},
		Service: wire.Standard,
	},
	"openai_completion_odd.json": {
		ID: "c", Model: "m", Text: "ab", StopReason: "stop", Done: true,
		Calls: []wire.Call{
			{
				Name: "f",
				Arguments: "{\n                \"x\": [\n                  1,\n                  2\n                ]\n         " +
					"     }",
			},
			{Name: "g", Arguments: `{}`},
		},
		Usage: wire.Usage{Read: 10, Reported: true},
	},
	"openai_completion_null.json": {ID: "c", Model: "m", Text: "a", StopReason: "stop", Done: true},
	"openai_error_body.json": {
		ErrorType: "invalid_request_error", ErrorMessage: "Incorrect API key provided",
		Done: true,
	},
	"openai_error_code.json":   {ErrorType: "503", ErrorMessage: "busy", Done: true},
	"openai_error_mlx_lm.json": {ErrorMessage: "Only 'text' content type is supported.", Done: true},
	"openai_error_vllm.json": {
		ErrorType:    "BadRequestError",
		ErrorMessage: "This model's maximum context length is 4096", Done: true,
	},
	"openai_error_fastapi.json": {ErrorType: "error", ErrorMessage: "Not Found", Done: true},
	"gemini_text.sse": {
		ID: "r1", Model: "gemini-3.1-pro", Thinking: "**Looking**\n\nFirst, the file.", Text: "Hello, “world” \\ \"quoted\"",
		StopReason: "STOP", Done: true,
		Usage: wire.Usage{Uncached: 200, Read: 4800, Output: 21, Reported: true},
	},
	"gemini_calls.sse": {
		ID: "r2", Model: "gemini-3.8-flash", StopReason: "STOP", Done: true,
		Calls: []wire.Call{
			{ID: "fc1", Name: "read_file", Arguments: `{"file_path": "/tmp/\u00fc"}`},
			{Name: "now", Arguments: `{}`},
			{Name: "glob", Arguments: `{"pattern":"*.go"}`},
		},
		Usage: wire.Usage{Uncached: 130, Output: 27, Reported: true},
	},
	"gemini_cut.sse": {
		ID: "r3", Model: "gemini-3.1-pro", Text: "Half",
		Usage: wire.Usage{Uncached: 100, Output: 1, Reported: true},
	},
	"gemini_error.sse": {
		ID: "r4", Model: "gemini-3.1-pro", Text: "Half", StopReason: "STOP",
		ErrorType: "UNAVAILABLE", ErrorMessage: "The model is overloaded. Please try again later.",
		Usage: wire.Usage{Uncached: 100, Output: 1, Reported: true},
	},
	"gemini_blocked.sse": {
		Model: "gemini-3.1-pro", StopReason: "PROHIBITED_CONTENT", Done: true,
		Usage: wire.Usage{Uncached: 40, Reported: true},
	},
	"gemini_array.json": {
		ID: "r5", Model: "gemini-2.5-flash", Text: "One ]},{ two", StopReason: "MAX_TOKENS", Done: true,
		Usage: wire.Usage{Uncached: 60, Output: 5, Reported: true},
	},
	"gemini_array_cut.json":   {ID: "r6", Text: "All", StopReason: "STOP"},
	"gemini_array_error.json": {ErrorType: "INVALID_ARGUMENT", ErrorMessage: "API key not valid."},
	"gemini_response.json": {
		ID: "r7", Model: "gemini-3.1-pro", Thinking: "Hm.", Text: "Let me look.", StopReason: "STOP", Done: true,
		Calls: []wire.Call{{Name: "run_shell_command", Arguments: `{"command":"ls -l \"x y\""}`}},
		Usage: wire.Usage{Uncached: 500, Read: 1500, Output: 40, Reported: true},
	},
	"gemini_error_body.json": {ErrorType: "RESOURCE_EXHAUSTED", ErrorMessage: "Quota exceeded.", Done: true},
	"responses_tools.sse": {
		ID: "resp_1", Model: "gpt-6.1-sol", Thinking: "First, the\nfile.", Text: "Let me “look”.", StopReason: "completed",
		Done: true,
		Calls: []wire.Call{
			{ID: "call_a", Name: "exec_command", Arguments: `{"cmd": "ls \"x\""}`},
			{ID: "call_b", Name: "exec", Arguments: "text(await tools.ls());\n", Free: true},
		},
		Usage: wire.Usage{Uncached: 368, Write5m: 512, Read: 5120, Output: 87, Reported: true},
	},
	"responses_items.sse": { // a server that sends whole items, without deltas
		ID: "resp_1", Model: "m", Thinking: "Hm.", Text: "Hi", StopReason: "max_output_tokens", Done: true,
		Calls: []wire.Call{
			{ID: "call_a", Name: "local_shell", Arguments: `{"type":"exec","command":["ls"]}`},
			{ID: "call_b", Name: "now"},
		},
		Usage: wire.Usage{Uncached: 100, Output: 7, Reported: true},
	},
	"responses_end.sse": { // a server that sends everything in its last event
		ID: "resp_1", Model: "m", Text: "Hi", StopReason: "completed", Done: true,
		Calls: []wire.Call{{ID: "call_a", Name: "read", Arguments: `{}`}},
		Usage: wire.Usage{Uncached: 10, Output: 2, Reported: true},
	},
	"responses_compaction.sse": {
		ID: "resp_1", Model: "gpt-6.1-sol", StopReason: "completed", Done: true,
		Usage: wire.Usage{Uncached: 50, Read: 150, Output: 30, Reported: true},
	},
	"responses_failed.sse": {
		ID: "resp_1", Model: "m", Text: "Hal", StopReason: "failed", ErrorType: "rate_limit_exceeded",
		ErrorMessage: "Slow down",
	},
	"responses_error.sse": {ID: "resp_1", Model: "m", Text: "Hal", ErrorType: "server_error", ErrorMessage: "Oops"},
	"responses_cut.sse": {
		ID: "resp_1", Model: "m",
		Calls: []wire.Call{{ID: "call_a", Name: "read", Arguments: `{"path":`}},
	},
	"responses_object.json": {
		ID: "resp_2", Model: "gpt-5.4", Thinking: "Hm.", Text: "Hi I can't.", StopReason: "completed", Done: true,
		Calls: []wire.Call{
			{ID: "call_a", Name: "read", Arguments: `{"path": "/tmp/\u00fc"}`},
			{ID: "call_b", Name: "apply_patch", Arguments: "*** Begin Patch\n*** End Patch", Free: true},
		},
		Usage: wire.Usage{Uncached: 80, Read: 1920, Output: 15, Reported: true},
	},
	"responses_object_failed.json": {
		ID: "resp_3", Model: "m", StopReason: "failed", ErrorType: "server_error",
		ErrorMessage: "Oops", Done: true,
	},
	"responses_error_body.json": {
		ErrorType:    "invalid_request_error",
		ErrorMessage: "No tool output found for function call call_a.", Done: true,
	},
	"interactions_text.sse": {
		ID: "v1_a", Model: "gemini-3.1-pro", Thinking: "**Looking**\n\nFirst, the file.",
		Text: "Hello, “world” \\ \"quoted\"", StopReason: "completed", Done: true,
		Usage:   wire.Usage{Uncached: 200, Read: 800, Output: 60, Reported: true},
		Service: wire.Standard,
	},
	"interactions_calls.sse": {
		ID: "v1_b", Model: "gemini-3.8-flash", StopReason: "requires_action", Done: true,
		Calls: []wire.Call{
			{ID: "fc1", Name: "read_file", Arguments: `{"file_path": "/tmp/\u00fc"}`},
			{ID: "fc2", Name: "now", Arguments: `{}`},
		},
		Usage: wire.Usage{Uncached: 110, Output: 20, Reported: true},
	},
	"interactions_error.sse": {
		ID: "v1_c", Model: "m", Text: "Half", ErrorType: "too_many_requests",
		ErrorMessage: "Too many.",
	},
	"interactions_cut.sse":    {ID: "v1_d", Model: "m", Text: "Half"},
	"interactions_failed.sse": {ID: "v1_e", Model: "m", StopReason: "failed", ErrorType: "internal", ErrorMessage: "Oops"},
	"interactions_object.json": {
		ID: "v1_f", Model: "gemini-3.1-pro", Thinking: "Hm.", Text: "Let me look.", StopReason: "requires_action", Done: true,
		Calls: []wire.Call{{ID: "fc1", Name: "read_file", Arguments: `{"path": "a"}`}},
		Usage: wire.Usage{Uncached: 20, Read: 10, Output: 20, Reported: true},
	},
	"interactions_object_failed.json": {
		ID: "v1_g", StopReason: "failed", ErrorType: "internal", ErrorMessage: "Oops",
		Done: true,
	},
	"interactions_error_body.json": {
		ErrorType:    "invalid_request",
		ErrorMessage: "The legacy Interactions API schema is no longer supported.", Done: true,
	},
}

// decoded feeds an answer in pieces, each in a buffer that is overwritten afterwards, so that
// missing copies show.
func decoded(f wire.Format, stream bool, answer []byte, piece int) *wire.Turn {
	d := wire.NewDecoder(f, stream)
	d.Feed(nil)
	for p := range slices.Chunk(answer, piece) {
		p = bytes.Clone(p)
		d.Feed(p)
		for i := range p {
			p[i] = '#'
		}
	}
	return d.Turn()
}

func TestDecoderAnswers(t *testing.T) {
	recorded := answers.All(t)
	if len(recorded) != len(turns) {
		t.Fatalf("%d files for %d answers", len(recorded), len(turns))
	}
	for _, a := range recorded {
		t.Run(a.Name, func(t *testing.T) {
			want, ok := turns[a.Name]
			if !ok {
				t.Fatal("nobody says what it is")
			}
			forms := map[string][]byte{"as it is": a.Data}
			if a.Stream {
				forms["with crlf"] = bytes.ReplaceAll(a.Data, []byte("\n"), []byte("\r\n"))
				forms["with cr"] = bytes.ReplaceAll(a.Data, []byte("\n"), []byte("\r"))
			}
			for form, b := range forms {
				for _, piece := range []int{len(b), 1, 7, 100} {
					for _, stream := range []bool{true, false} { // the content decides
						if got := decoded(a.Format, stream, b, piece); !reflect.DeepEqual(*got, want) {
							t.Errorf("%s, stream %v, in pieces of %d:\n got %+v\nwant %+v", form, stream, piece, *got, want)
						}
					}
				}
			}
		})
	}
}
