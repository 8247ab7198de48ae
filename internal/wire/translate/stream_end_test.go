// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// TestUnmarkedEnd: a stream with a stop reason and a clean end is complete without the terminal
// event, because many local servers omit it. Streams without a stop reason stay cut, as do formats
// with the stop reason in the terminal event.
func TestUnmarkedEnd(t *testing.T) {
	for _, c := range []struct {
		name     string
		upstream wire.Format
		events   []string // all but the terminal event
		whole    bool
		usage    wire.Usage
	}{
		{"a reason", wire.OpenAIChat, []string{
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}`,
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		}, true, wire.Usage{}},
		{"a reason and a usage", wire.OpenAIChat, []string{
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}`,
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"id":"m1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,` +
				`"prompt_tokens_details":{"cached_tokens":4}}}`,
		}, true, wire.Usage{Uncached: 5, Read: 4, Output: 3, Reported: true}},
		{"no reason", wire.OpenAIChat, []string{
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}`,
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"!"},"finish_reason":""}]}`,
		}, false, wire.Usage{}},
		{"no reason but a usage", wire.OpenAIChat, []string{
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":9,` +
				`"completion_tokens":1,"total_tokens":10}}`,
		}, false, wire.Usage{}},
		{"the reason of another choice", wire.OpenAIChat, []string{
			`{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}`,
			`{"id":"m1","model":"m","choices":[{"index":1,"delta":{},"finish_reason":"stop"}]}`,
		}, false, wire.Usage{}},
		{"a stop_reason", wire.Anthropic, []string{
			`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],` +
				`"usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
		}, true, wire.Usage{Uncached: 9, Output: 3, Reported: true}},
		{"no stop_reason", wire.Anthropic, []string{
			`{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],` +
				`"usage":{"input_tokens":9,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}`,
		}, false, wire.Usage{}},
		{"all items", wire.OpenAIResponses, []string{
			`{"type":"response.created","response":{"id":"m1","model":"m","status":"in_progress","output":[]}}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}`,
			`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant",` +
				`"status":"completed","content":[{"type":"output_text","text":"Hi"}]}}`,
		}, false, wire.Usage{}},
		{"a finishReason", wire.Gemini, []string{
			`{"responseId":"m1","modelVersion":"m","candidates":[{"index":0,"content":{"role":"model",` +
				`"parts":[{"text":"Hi"}]}}]}`,
			`{"responseId":"m1","modelVersion":"m","candidates":[{"index":0,"finishReason":"STOP"}],` +
				`"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3,"totalTokenCount":12}}`,
		}, true, wire.Usage{Uncached: 9, Output: 3, Reported: true}},
		{"no finishReason", wire.Gemini, []string{
			`{"responseId":"m1","modelVersion":"m","candidates":[{"index":0,"content":{"role":"model",` +
				`"parts":[{"text":"Hi"}]}}]}`,
		}, false, wire.Usage{}},
		{"all steps", wire.Interactions, []string{
			`{"event_type":"interaction.created","interaction":{"id":"m1","status":"in_progress","model":"m"}}`,
			`{"event_type":"step.start","index":0,"step":{"type":"model_output"}}`,
			`{"event_type":"step.delta","index":0,"delta":{"type":"text","text":"Hi"}}`,
			`{"event_type":"step.stop","index":0}`,
		}, false, wire.Usage{}},
	} {
		data := streamed(c.events...)
		for _, client := range translate.Formats() {
			for _, form := range []string{"blank line", "no blank line", "half an event", "cut"} {
				t.Run(string(c.upstream)+", "+c.name+", "+string(client)+", "+form, func(t *testing.T) {
					in := data
					switch form {
					case "half an event":
						in += `data: {"id":"m1","ch`
					case "no blank line", "cut":
						in = strings.TrimRight(in, "\n")
					}
					for _, stream := range []bool{true, false} {
						s := translate.NewStream(c.upstream, client, &translate.Answering{Stream: stream, Usage: true, Seed: "s"})
						out := string(s.Feed([]byte(in)))
						out += string(s.Close(form == "cut"))
						whole := c.whole && strings.HasSuffix(form, "blank line")
						if s.Ended() != whole || !stream && (len(out) > 0) != whole {
							t.Fatalf("stream %t: ended %t of\n%s", stream, s.Ended(), out)
						}
						if !stream && !whole {
							continue
						}
						if err := wellFormedOutput(client, stream, []byte(out)); err != nil {
							t.Fatalf("%v in\n%s", err, out)
						}
						got := decoded(client, stream, []byte(out))
						if got.Done != whole || got.Failed() || whole && (got.Text != "Hi" || got.Usage != c.usage) {
							t.Errorf("stream %t: %+v of\n%s", stream, got, out)
						}
						if end := ends[client]; stream && strings.Contains(out, end) != whole {
							t.Errorf("%s in %t\n%s", end, whole, out)
						}
					}
				})
			}
		}
	}
}

// ends are the contents of a stream's last event.
var ends = map[wire.Format]string{
	wire.Anthropic: "event: message_stop", wire.OpenAIChat: "data: [DONE]",
	wire.OpenAIResponses: "event: response.completed",
	wire.Gemini:          `"finishReason":"STOP"`, wire.Interactions: "interaction.completed",
}

// TestUnmarkedArray: a stream in the form of one JSON array is closed as well, and a cut one is
// not.
func TestUnmarkedArray(t *testing.T) {
	const (
		text   = `{"id":"m1","model":"m","choices":[{"index":0,"delta":{"content":"Hi"}}]}`
		reason = `{"id":"m1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	)
	for data, whole := range map[string]bool{streamed(text, reason): true, streamed(text): false} {
		out, s := run(wire.OpenAIChat, wire.Gemini, translate.Answering{Stream: true, Array: true}, []byte(data))
		if s.Ended() != whole || json.Valid(out) != whole || strings.Contains(string(out), "MAX_TOKENS") != whole {
			t.Errorf("ended %t, want %t:\n%s", s.Ended(), whole, out)
		}
	}
}

// TestUnmarkedCalls: the client gets the calls, too.
func TestUnmarkedCalls(t *testing.T) {
	for _, upstream := range []wire.Format{wire.OpenAIChat, wire.Anthropic} {
		all := toolsSaid[upstream][0]
		end := strings.LastIndex(strings.TrimSpace(all), "\n\n") + 2
		for _, client := range translate.Formats() {
			for _, buffer := range []bool{false, true} {
				asked := translate.Answering{Stream: true, Usage: true, Seed: "s", BufferCalls: buffer}
				out, s := run(upstream, client, asked, []byte(all[:end]))
				want, _ := run(upstream, client, asked, []byte(all))
				if !s.Ended() || string(out) != string(want) {
					t.Errorf("%s to %s, ended %t:\n%s\nwant\n%s", upstream, client, s.Ended(), out, want)
				}
			}
		}
	}
}
