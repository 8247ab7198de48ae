// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// ended returns an answer with some text and the given stop reason.
func ended(f wire.Format, stream bool, word string) string {
	switch f {
	case wire.OpenAIChat:
		if stream {
			return fmt.Sprintf("data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,"+
				"\"delta\":{\"role\":\"assistant\",\"content\":\"I will now\"},\"finish_reason\":null}]}\n\n"+
				"data: {\"id\":\"c1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: "+
				"[DONE]\n\n", word)
		}
		return fmt.Sprintf(`{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"I will now"},"finish_reason":%q}]}`, word)
	case wire.Gemini:
		body := fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"I will now"}]},"finishReason":%q}]}`,
			word)
		if stream {
			return "data: " + body + "\n\n"
		}
		return body
	case wire.OpenAIResponses:
		status, details := "incomplete", fmt.Sprintf(`{"reason":%q}`, word)
		if word == "cancelled" {
			status, details = word, "null"
		}
		body := fmt.Sprintf(`{"id":"r1","object":"response","status":%q,"model":"m","incomplete_details":%s,`+
			`"output":[{"type":"message","id":"m1","role":"assistant","content":[{"type":"output_text","text":"I will now"}]}]}`,
			status, details)
		if stream {
			return "event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"response\":" + body + "}\n\n"
		}
		return body
	}
	panic(f)
}

// TestReasons: no truncated, filtered or aborted answer ends like a finished one, for any host's
// stop reason.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		from wire.Format
		word string
		want map[wire.Format]string // the client's stop reason, "" for an error
	}{
		{wire.OpenAIChat, "stop", map[wire.Format]string{
			wire.Anthropic: "end_turn", wire.Gemini: "STOP",
			wire.OpenAIResponses: "completed",
		}},
		{wire.OpenAIChat, "MAX_TOKENS", map[wire.Format]string{
			wire.Anthropic: "max_tokens", wire.Gemini: "MAX_TOKENS",
			wire.OpenAIResponses: "max_output_tokens",
		}},
		{
			wire.OpenAIChat, "model_context_window_exceeded",
			map[wire.Format]string{
				wire.Anthropic: "model_context_window_exceeded", wire.Gemini: "MAX_TOKENS",
				wire.OpenAIResponses: "max_output_tokens",
			},
		},
		{wire.OpenAIChat, "sensitive", map[wire.Format]string{
			wire.Anthropic: "refusal", wire.Gemini: "SAFETY",
			wire.OpenAIResponses: "content_filter",
		}},
		{wire.OpenAIChat, "insufficient_system_resource", map[wire.Format]string{
			wire.Anthropic: "", wire.Gemini: "",
			wire.OpenAIResponses: "",
		}},
		{wire.OpenAIChat, "network_error", map[wire.Format]string{
			wire.Anthropic: "", wire.Gemini: "",
			wire.OpenAIResponses: "",
		}},
		{wire.OpenAIChat, "a_new_word", map[wire.Format]string{
			wire.Anthropic: "max_tokens", wire.Gemini: "OTHER",
			wire.OpenAIResponses: "max_output_tokens",
		}},
		{wire.Gemini, "MALFORMED_FUNCTION_CALL", map[wire.Format]string{
			wire.Anthropic: "", wire.OpenAIChat: "",
			wire.OpenAIResponses: "",
		}},
		{wire.Gemini, "TOO_MANY_TOOL_CALLS", map[wire.Format]string{wire.Anthropic: "", wire.OpenAIChat: ""}},
		{wire.Gemini, "SPII", map[wire.Format]string{wire.Anthropic: "refusal", wire.OpenAIChat: "content_filter"}},
		{wire.Gemini, "OTHER", map[wire.Format]string{wire.Anthropic: "max_tokens", wire.OpenAIChat: "OTHER"}},
		{wire.OpenAIResponses, "cancelled", map[wire.Format]string{wire.Anthropic: "", wire.OpenAIChat: "", wire.Gemini: ""}},
		{wire.OpenAIResponses, "max_output_tokens", map[wire.Format]string{
			wire.Anthropic:  "max_tokens",
			wire.OpenAIChat: "length", wire.Gemini: "MAX_TOKENS",
		}},
		{
			wire.OpenAIResponses, "model_context_window_exceeded",
			map[wire.Format]string{wire.Anthropic: "model_context_window_exceeded", wire.OpenAIChat: "length"},
		},
	} {
		for to, want := range c.want {
			for _, stream := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s to %s, stream %t", c.from, c.word, to, stream), func(t *testing.T) {
					out, s := run(c.from, to, translate.Answering{Stream: stream, Seed: "s"}, []byte(ended(c.from, stream, c.word)))
					turn := decoded(to, stream, out)
					switch {
					case want == "" && stream && !strings.Contains(turn.ErrorMessage, c.word):
						t.Errorf("got the end %q and the error %q, want one that names %s in\n%s", turn.StopReason, turn.ErrorMessage,
							c.word, out)
					case want == "" && !stream && (s.Failure() == nil || !strings.Contains(s.Failure().Message, c.word)):
						t.Errorf("got %s, want a failure that names %s", out, c.word)
					case want != "" && (turn.Failed() || turn.StopReason != want):
						t.Errorf("got the end %q (%s), want %q in\n%s", turn.StopReason, cmp.Or(turn.ErrorMessage, "no error"), want, out)
					}
				})
			}
		}
	}
}

// An error beside a stop reason is an error (OpenRouter).
func TestErrorInChoice(t *testing.T) {
	const choice = `{"index":0,"%s":{"role":"assistant","content":"I will"},"finish_reason":"error",` +
		`"error":{"code":502,"message":"provider failed"}}`
	whole := fmt.Sprintf(`{"id":"c1","model":"m","choices":[`+choice+`]}`, "message")
	_, s := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Seed: "s"}, []byte(whole))
	if f := s.Failure(); f == nil {
		t.Errorf("no failure, want provider failed")
	}
	out, _ := run(wire.OpenAIChat, wire.Anthropic, translate.Answering{Stream: true, Seed: "s"},
		[]byte("data: "+fmt.Sprintf(`{"id":"c1","model":"m","choices":[`+strings.Replace(choice, `"finish_reason":"error",`,
			"", 1)+`]}`, "delta")+"\n\n"))
	if turn := decoded(wire.Anthropic, true, out); !strings.Contains(turn.ErrorMessage, "provider failed") {
		t.Errorf("got the error %q, want provider failed, in\n%s", turn.ErrorMessage, out)
	}
}
