// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// What a server that speaks several APIs tests of itself (llama.cpp's
// tools/server/tests/unit/test_compat_anthropic.py, test_chat_completion.py,
// test_tool_call.py, test_compat_oai_responses.py, test_vision_api.py), asked of llm_cache before
// upstreams of every format. What there is besides cannot be asked of a proxy, or
// is answered otherwise on purpose:
//   - of the engine: test_chat_template, test_chat_template_assistant_prefill,
//     test_apply_chat_template, test_completion_with_json_schema,
//     test_completion_with_grammar, test_chat_completion_with_timings_per_token,
//     test_logit_bias, test_logprobs_stream, test_return_progress,
//     test_responses_stream_with_llama_telemetry, test_context_size_exceeded and
//     test_context_size_exceeded_stream (its own members of an error; how a prompt
//     that is too long is told is in docs/reference/formats.md), and in all tests the words
//     and numbers of tokens of its model, system_fingerprint, and the null of the
//     first chunk's content, which is an empty text with other servers;
//   - of what its model does with a prompt: test_completion_without_tool_call_fast
//     and _slow with tools;
//   - test_anthropic_vision_format_accepted expects an error, as its model sees
//     nothing; test_anthropic_empty_messages expects an answer, where the Messages
//     API has an error; of test_invalid_chat_completion_req two answers in a row at
//     the end, which the API takes; test_malformed_tool_call_args_rejected a
//     refusal, where a call that was cut off does not end the conversation here.
func TestCompatibility(t *testing.T) {
	for _, up := range []struct{ name, cache, cut string }{
		{"anthropic", "upstream anthropic {\n format anthropic\n model * claude-sonnet-4-5\n}", "max_tokens"},
		{"openai_chat", "upstream mlx_lm {\n model * local\n}", "length"},
		{"openai_responses", "upstream openai {\n format openai_responses\n model * gpt-5.4\n}", "max_output_tokens"},
		{"gemini", "upstream gemini {\n format gemini\n model * gemini-3.1-pro-preview\n}", "MAX_TOKENS"},
	} {
		t.Run(up.name, func(t *testing.T) {
			weather := toolCall{"get_weather", map[string]any{"city": "Zürich \"old\""}}
			s := startStack(t, setup{cache: up.cache, script: []step{
				{
					Thinking: "They ask for the weather.", Text: "One moment.",
					Calls: []toolCall{weather, {"get_time", map[string]any{}}},
				},
				{Text: "It rains."},
				step{Text: "no"}.failing(http.StatusTooManyRequests),
				step{Text: "no"}.failing(http.StatusInternalServerError),
				step{Text: "no"}.failing(http.StatusUnauthorized),
				{Text: "It rains and", StopReason: up.cut},
			}})
			for _, c := range expectations {
				t.Run(c.name, func(t *testing.T) {
					if c.only != "" && !strings.Contains(c.only, up.name) {
						t.Skip("not of this upstream")
					}
					for _, err := range c.ask(t.Context(), s.url) {
						t.Error(err)
					}
				})
			}
		})
	}
}

// expectation is a request and its expected response.
type expectation struct {
	name, path, body string
	// of lists the functions of llama.cpp's tests with the same expectation.
	of string
	// only lists the formats of upstreams that it applies to. Default: all.
	only string
	// status is the status of the response. Default: 200.
	status int
	// want are conditions on members of the response, in a stream of the last event with the
	// member: "=" and a value, "^" and a prefix, ">0", "text", "some", "none".
	want []string
	// stream checks the events of a stream.
	stream func(events []gjson.Result) error
}

// ask sends the request and returns the faults of the response.
func (c *expectation) ask(ctx context.Context, url string) (wrong []error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+c.path, strings.NewReader(c.body))
	if err != nil {
		return []error{err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "sk-test")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return []error{err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return []error{err}
	}
	if want := cmp.Or(c.status, http.StatusOK); res.StatusCode != want {
		return []error{fmt.Errorf("status %d, want %d: %s", res.StatusCode, want, b)}
	}
	events := []gjson.Result{gjson.ParseBytes(b)}
	if c.stream != nil {
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
			return []error{fmt.Errorf("content type %q", got)}
		}
		events = events[:0]
		for e := range bytes.SplitSeq(bytes.TrimSpace(b), []byte("\n\n")) {
			// Events without data are comments.
			if _, data, ok := bytes.Cut(append([]byte("\n"), e...), []byte("\ndata: ")); ok {
				events = append(events, gjson.ParseBytes(data))
			}
		}
		if err := c.stream(events); err != nil {
			wrong = append(wrong, fmt.Errorf("%w\n%s", err, b))
		}
	} else if !gjson.ValidBytes(b) {
		return []error{fmt.Errorf("no JSON: %s", b)}
	}
	for _, w := range c.want {
		path, condition, _ := strings.Cut(w, " ")
		var v gjson.Result
		for i := len(events) - 1; i >= 0 && !v.Exists(); i-- {
			v = events[i].Get(path)
		}
		if !meets(v, condition) {
			wrong = append(wrong, fmt.Errorf("%s is %q, want %s: %s", path, v.Raw, condition, b))
		}
	}
	return wrong
}

func meets(v gjson.Result, condition string) bool {
	switch condition {
	case ">0":
		return v.Type == gjson.Number && v.Num > 0
	case "text":
		return v.Type == gjson.String && v.Str != ""
	case "some":
		return v.Exists() && v.Type != gjson.Null
	case "none":
		return !v.Exists() || v.Type == gjson.Null
	}
	if prefix, ok := strings.CutPrefix(condition, "^"); ok {
		return strings.HasPrefix(v.Str, prefix)
	}
	return v.Exists() && v.String() == strings.TrimPrefix(condition, "=")
}

// messagesStream checks the order of events in the Messages API: blocks one after another, each
// closed before the next.
func messagesStream(kinds ...string) func([]gjson.Result) error {
	return func(events []gjson.Result) error {
		open, next, stage := int64(-1), int64(0), 0
		var opened []string
		for i, e := range events {
			kind, index := e.Get("type").Str, e.Get("index").Int()
			switch kind {
			case "ping":
			case "message_start":
				if i != 0 || e.Get("message.role").Str != "assistant" || e.Get("message.content.#").Int() != 0 ||
					!e.Get("message.usage.input_tokens").Exists() {
					return fmt.Errorf("event %d: %s", i, e.Raw)
				}
				stage = 1
			case "content_block_start":
				if stage != 1 || open >= 0 || index != next {
					return fmt.Errorf("event %d opens a block out of order", i)
				}
				opened = append(opened, e.Get("content_block.type").Str)
				open, next = index, next+1
			case "content_block_delta":
				if open < 0 || index != open {
					return fmt.Errorf("event %d: a delta of a block that is not open", i)
				}
				want := map[string]string{
					"text": "text_delta", "tool_use": "input_json_delta",
					"thinking": "thinking_delta",
				}[opened[open]]
				if got := e.Get("delta.type").Str; got != want && (opened[open] != "thinking" || got != "signature_delta") {
					return fmt.Errorf("event %d: a %s in a block of %s", i, got, opened[open])
				}
			case "content_block_stop":
				if open < 0 || index != open {
					return fmt.Errorf("event %d closes a block that is not open", i)
				}
				open = -1
			case "message_delta":
				if stage != 1 || open >= 0 || e.Get("usage.output_tokens").Int() <= 0 {
					return fmt.Errorf("event %d: %s", i, e.Raw)
				}
				stage = 2
			case "message_stop":
				if stage != 2 || i != len(events)-1 {
					return fmt.Errorf("event %d ends the message out of order", i)
				}
				stage = 3
			default:
				return fmt.Errorf("event %d: type %q", i, kind)
			}
		}
		if stage != 3 {
			return errors.New("the message does not end")
		}
		return same(opened, kinds)
	}
}

// chatStream checks the chunks of a chat completion: a role first, calls by index and beginning
// with their names, one reason to finish, then usage if requested.
func chatStream(finish string, calls int, usage bool) func([]gjson.Result) error {
	return func(events []gjson.Result) error {
		if last := events[len(events)-1]; last.Raw != "[DONE]" {
			return fmt.Errorf("the last event is %s", last.Raw)
		}
		events = events[:len(events)-1]
		if events[0].Get("choices.0.delta.role").Str != "assistant" {
			return errors.New("no role in the first chunk")
		}
		arguments, finished, counted := map[int64]string{}, "", false
		for i, e := range events {
			if e.Get("object").Str != "chat.completion.chunk" || e.Get("id").Str != events[0].Get("id").Str {
				return fmt.Errorf("chunk %d: %s", i, e.Raw)
			}
			// Without a separate chunk, usage may be in the finishing one.
			if u := e.Get("usage"); u.IsObject() && usage {
				if e.Get("choices.#").Int() != 0 || finished == "" || u.Get("prompt_tokens").Int()+
					u.Get("completion_tokens").Int() != u.Get("total_tokens").Int() {
					return fmt.Errorf("chunk %d: %s", i, e.Raw)
				}
				counted = true
				continue
			}
			if finished != "" {
				return fmt.Errorf("chunk %d comes behind the end: %s", i, e.Raw)
			}
			finished = e.Get("choices.0.finish_reason").Str
			for _, c := range e.Get("choices.0.delta.tool_calls").Array() {
				index := c.Get("index").Int()
				if _, ok := arguments[index]; !ok &&
					(c.Get("id").Str == "" || c.Get("function.name").Str == "" || c.Get("type").Str != "function") {
					return fmt.Errorf("chunk %d: a call begins with %s", i, c.Raw)
				}
				arguments[index] += c.Get("function.arguments").Str
			}
		}
		for index, a := range arguments {
			if !gjson.Valid(a) {
				return fmt.Errorf("call %d has arguments %q", index, a)
			}
		}
		if finished != finish || counted != usage || len(arguments) != calls {
			return fmt.Errorf("finished by %q, usage %t, %d calls", finished, counted, len(arguments))
		}
		return nil
	}
}

// responsesStream checks the order of events in the Responses API.
func responsesStream(items ...string) func([]gjson.Result) error {
	return func(events []gjson.Result) error {
		var done []string
		for i, e := range events {
			kind := e.Get("type").Str
			if n := e.Get("sequence_number"); n.Int() != int64(i) || !n.Exists() {
				return fmt.Errorf("event %d has the number %s", i, n.Raw)
			}
			if (kind == "response.created") != (i == 0) || (kind == "response.completed") != (i == len(events)-1) {
				return fmt.Errorf("event %d: %s", i, kind)
			}
			switch kind {
			case "response.output_item.added", "response.output_item.done":
				if e.Get("output_index").Int() != int64(len(done)) {
					return fmt.Errorf("event %d: item %s, %d are done", i, e.Get("output_index").Raw, len(done))
				}
				if strings.HasSuffix(kind, "done") {
					done = append(done, e.Get("item.type").Str)
				}
			case "response.output_text.delta", "response.function_call_arguments.delta":
				if e.Get("output_index").Int() != int64(len(done)) {
					return fmt.Errorf("event %d: a delta of an item that is not open", i)
				}
			}
		}
		if got := events[len(events)-1].Get("response.output.#").Int(); got != int64(len(done)) {
			return fmt.Errorf("the last event holds %d items, %d were done", got, len(done))
		}
		return same(done, items)
	}
}

// geminiStream checks the chunks of Gemini: the reason to finish is in the last one.
func geminiStream(events []gjson.Result) error {
	for i, e := range events {
		if e.Get("candidates.0.content.role").Str != "model" && i < len(events)-1 {
			return fmt.Errorf("chunk %d: %s", i, e.Raw)
		}
		if e.Get("candidates.0.finishReason").Exists() != (i == len(events)-1) {
			return fmt.Errorf("chunk %d: %s", i, e.Raw)
		}
	}
	return nil
}

// same compares kinds of content. Thinking may be missing, because not every format shows it.
func same(got, want []string) error {
	strip := func(list []string) string {
		return strings.NewReplacer("thinking,", "", "reasoning,", "").Replace(strings.Join(list, ",") + ",")
	}
	if strip(got) != strip(want) {
		return fmt.Errorf("content %v, want %v", got, want)
	}
	return nil
}
