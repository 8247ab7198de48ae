// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

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

// What servers that speak several APIs test of themselves (llama.cpp's
// tools/server/tests/unit/test_compat_anthropic.py, test_chat_completion.py,
// test_tool_call.py, test_compat_oai_responses.py), asked of llm_cache before
// upstreams of every format.
func TestCompatibility(t *testing.T) {
	for _, up := range []struct{ name, cache string }{
		{"anthropic", "upstream anthropic {\n format anthropic\n model * claude-sonnet-4-5\n}"},
		{"openai_chat", "upstream mlx_lm {\n model * local\n}"},
		{"openai_responses", "upstream openai {\n format openai_responses\n model * gpt-5.4\n}"},
		{"gemini", "upstream gemini {\n format gemini\n model * gemini-3.1-pro-preview\n}"},
	} {
		t.Run(up.name, func(t *testing.T) {
			weather := toolCall{"get_weather", map[string]any{"city": "Zürich \"old\""}}
			s := startStack(t, setup{cache: up.cache, script: []step{
				{Thinking: "They ask for the weather.", Text: "One moment.", Calls: []toolCall{weather, {"get_time", map[string]any{}}}},
				{Text: "It rains."},
				step{Text: "no"}.failing(http.StatusTooManyRequests),
				step{Text: "no"}.failing(http.StatusInternalServerError),
				step{Text: "no"}.failing(http.StatusUnauthorized),
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

// expectation is a request and what its answer must be.
type expectation struct {
	name, path, body string
	// only names the formats of upstreams it is meant for. Default: all.
	only string
	// status of the answer. Default: 200.
	status int
	// want are conditions on members of the answer, of the last event that has
	// the member if it is a stream: "=" and a value, ">0", "text", "some", "none".
	want []string
	// stream judges the events of a stream.
	stream func(events []gjson.Result) error
}

// ask sends the request and returns what is wrong with the answer.
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
			// What has no data is a comment.
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
	return v.Exists() && v.String() == strings.TrimPrefix(condition, "=")
}

// messagesStream checks the order of the events of the Messages API: blocks one
// after the other, each closed before the next one opens.
func messagesStream(kinds ...string) func([]gjson.Result) error {
	return func(events []gjson.Result) error {
		open, next, stage := int64(-1), int64(0), 0
		var opened []string
		for i, e := range events {
			kind, index := e.Get("type").Str, e.Get("index").Int()
			switch kind {
			case "ping":
			case "message_start":
				if i != 0 || e.Get("message.role").Str != "assistant" || e.Get("message.content.#").Int() != 0 || !e.Get("message.usage.input_tokens").Exists() {
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
				want := map[string]string{"text": "text_delta", "tool_use": "input_json_delta", "thinking": "thinking_delta"}[opened[open]]
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

// chatStream checks the chunks of a chat completion: a role first, calls by index
// with their names first, one reason to finish, then usage if it was asked for.
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
			// Without a chunk of its own, usage may stand in the one that finishes.
			if u := e.Get("usage"); u.IsObject() && usage {
				if e.Get("choices.#").Int() != 0 || finished == "" || u.Get("prompt_tokens").Int()+u.Get("completion_tokens").Int() != u.Get("total_tokens").Int() {
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
				if _, ok := arguments[index]; !ok && (c.Get("id").Str == "" || c.Get("function.name").Str == "" || c.Get("type").Str != "function") {
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

// responsesStream checks the order of the events of the Responses API.
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

// geminiStream checks the chunks of Gemini: the reason to finish in the last one.
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

// same compares kinds of content; thinking may be missing, as not every format
// shows it.
func same(got, want []string) error {
	strip := func(list []string) string {
		return strings.NewReplacer("thinking,", "", "reasoning,", "").Replace(strings.Join(list, ",") + ",")
	}
	if strip(got) != strip(want) {
		return fmt.Errorf("content %v, want %v", got, want)
	}
	return nil
}

const (
	messagesTools  = `"tools":[{"name":"get_weather","description":"Tells the weather.","input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},{"name":"get_time","input_schema":{"type":"object","properties":{}}}]`
	chatTools      = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"get_time"}}]`
	responsesTools = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}},{"type":"function","name":"get_time","parameters":{"type":"object","properties":{}}}]`
	geminiTools    = `"tools":[{"functionDeclarations":[{"name":"get_weather","parameters":{"type":"OBJECT","properties":{"city":{"type":"STRING"}}}},{"name":"get_time"}]}]`

	messagesCall = `{"role":"user","content":"Weather?"},{"role":"assistant","content":[{"type":"text","text":"One moment."},{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city":"Bern"}}]}`
	chatCall     = `{"role":"user","content":"Weather?"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bern\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"rain"}`
)

// turnsBefore is a conversation with n answers in it, which tells the script
// where it is.
func turnsBefore(n int, user, assistant string) string {
	return strings.Repeat(user+","+assistant+",", n) + user
}

func messages(rest, list string) string {
	return `{"model":"claude-sonnet-4-5","max_tokens":5000,` + rest + `"messages":[` + list + `]}`
}

func chat(rest, list string) string {
	return `{"model":"gpt-5.4",` + rest + `"messages":[` + list + `]}`
}

func before(n int) string {
	return turnsBefore(n, `{"role":"user","content":"More?"}`, `{"role":"assistant","content":"No."}`)
}

const hello = `{"role":"user","content":"Hello"}`

var (
	messageWhole = []string{"id text", "type =message", "role =assistant", "content.#.type =[\"text\"]", "content.0.text text", "model text", "stop_reason =end_turn", "stop_sequence none", "usage.input_tokens some", "usage.output_tokens >0"}
	messageCalls = []string{"stop_reason =tool_use", `content.#(type=="tool_use").id text`, `content.#(type=="tool_use").name =get_weather`, `content.#(type=="tool_use").input.city =Zürich "old"`, `content.#(type=="tool_use")#|# =2`}
	chatWhole    = []string{"id text", "object =chat.completion", "created >0", "model text", "choices.# =1", "choices.0.index =0", "choices.0.message.role =assistant", "choices.0.message.content text", "choices.0.finish_reason =stop", "usage.prompt_tokens >0", "usage.completion_tokens >0", "usage.total_tokens >0"}
	chatCalls    = []string{"choices.0.finish_reason =tool_calls", "choices.0.message.tool_calls.# =2", "choices.0.message.tool_calls.0.type =function", "choices.0.message.tool_calls.0.id text", "choices.0.message.tool_calls.0.function.name =get_weather", `choices.0.message.tool_calls.0.function.arguments|@fromstr|city =Zürich "old"`}
)

var expectations = []expectation{
	// Messages
	{name: "messages: whole", path: "/v1/messages", body: messages("", hello), want: messageWhole},
	{name: "messages: system as a text", path: "/v1/messages", body: messages(`"system":"Be short.",`, hello), want: messageWhole},
	{name: "messages: system as blocks", path: "/v1/messages", body: messages(`"system":[{"type":"text","text":"Be short."},{"type":"text","text":"Be kind."}],`, hello), want: messageWhole},
	{name: "messages: several parts", path: "/v1/messages", body: messages("", `{"role":"user","content":[{"type":"text","text":"One"},{"type":"text","text":"Two"}]}`), want: messageWhole},
	{name: "messages: several turns", path: "/v1/messages", body: messages("", before(3)), want: messageWhole},
	{name: "messages: sampling", path: "/v1/messages", body: messages(`"temperature":0.5,"top_k":40,"stop_sequences":["\n\nEND"],"metadata":{"user_id":"u"},`, hello), want: messageWhole},
	{name: "messages: stream", path: "/v1/messages", body: messages(`"stream":true,`, hello), want: []string{"message.id text", "message.model text", "delta.stop_reason =end_turn", "delta.stop_sequence none"}, stream: messagesStream("text")},
	{name: "messages: calls", path: "/v1/messages", body: messages(messagesTools+",", hello), want: messageCalls},
	{name: "messages: stream of calls", path: "/v1/messages", body: messages(`"stream":true,`+messagesTools+",", hello), want: []string{"delta.stop_reason =tool_use"}, stream: messagesStream("text", "tool_use", "tool_use")},
	{name: "messages: thinking in a stream", path: "/v1/messages", body: messages(`"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},`+messagesTools+",", hello), want: []string{"delta.stop_reason =tool_use"}, stream: messagesStream("thinking", "text", "tool_use", "tool_use")},
	{name: "messages: a call is needed", path: "/v1/messages", body: messages(`"tool_choice":{"type":"any"},`+messagesTools+",", hello), want: messageCalls},
	{name: "messages: this call is needed", path: "/v1/messages", body: messages(`"tool_choice":{"type":"tool","name":"get_weather"},`+messagesTools+",", hello), want: messageCalls},
	{name: "messages: one call", path: "/v1/messages", body: messages(`"tool_choice":{"type":"auto","disable_parallel_tool_use":true},`+messagesTools+",", hello), want: messageCalls},
	{name: "messages: result", path: "/v1/messages", body: messages(messagesTools+",", messagesCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"rain"}]}`), want: []string{"content.0.text =It rains.", "stop_reason =end_turn"}},
	{name: "messages: result as blocks, with a text", path: "/v1/messages", body: messages(messagesTools+",", messagesCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"rain"}]},{"type":"text","text":"Well?"}]}`), want: []string{"content.0.text =It rains."}},
	{name: "messages: failed result", path: "/v1/messages", body: messages(messagesTools+",", messagesCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"no such city"}]}`), want: []string{"content.0.text =It rains."}},
	{name: "messages: result of nothing", path: "/v1/messages", body: messages(messagesTools+",", messagesCall+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"}]}`), want: []string{"content.0.text =It rains."}},
	{name: "messages: no messages", path: "/v1/messages", body: `{"model":"claude-sonnet-4-5","max_tokens":10}`, status: 400, want: []string{"type =error", "error.type =invalid_request_error", "error.message text"}},
	{name: "messages: no JSON", path: "/v1/messages", body: `{"model":`, status: 400, only: "anthropic", want: []string{"type =error", "error.type =invalid_request_error", "error.message text"}},
	{name: "messages: too many requests", path: "/v1/messages", body: messages(messagesTools+",", before(2)), status: 429, want: []string{"type =error", "error.type =rate_limit_error", "error.message text"}},
	{name: "messages: server error, streamed", path: "/v1/messages", body: messages(`"stream":true,`+messagesTools+",", before(3)), status: 500, want: []string{"type =error", "error.type =api_error", "error.message text"}},
	{name: "messages: no key", path: "/v1/messages", body: messages(messagesTools+",", before(4)), status: 401, want: []string{"type =error", "error.type =authentication_error", "error.message text"}},
	{name: "messages: count", path: "/v1/messages/count_tokens", body: `{"model":"claude-sonnet-4-5","system":"Be short.","messages":[` + hello + `]}`, only: "anthropic", want: []string{"input_tokens >0", "content none", "usage none"}},
	{name: "messages: no count", path: "/v1/messages/count_tokens", body: `{"model":"claude-sonnet-4-5","messages":[` + hello + `]}`, only: "openai_chat openai_responses gemini", status: 404, want: []string{"type =error", "error.type =not_found_error"}},

	// Chat completions
	{name: "chat: whole", path: "/v1/chat/completions", body: chat("", hello), want: chatWhole},
	{name: "chat: system and developer", path: "/v1/chat/completions", body: chat("", `{"role":"system","content":"Be short."},{"role":"developer","content":[{"type":"text","text":"Be kind."}]},`+hello), want: chatWhole},
	{name: "chat: content as parts", path: "/v1/chat/completions", body: chat("", `{"role":"user","content":[{"type":"text","text":"One"},{"type":"text","text":"Two"}]}`), want: chatWhole},
	{name: "chat: max_tokens", path: "/v1/chat/completions", body: chat(`"max_tokens":50,"temperature":0.5,"seed":42,"stop":"END",`, hello), want: chatWhole},
	{name: "chat: max_completion_tokens", path: "/v1/chat/completions", body: chat(`"max_completion_tokens":50,`, hello), want: chatWhole},
	{name: "chat: JSON schema", path: "/v1/chat/completions", body: chat(`"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object","properties":{"b":{"type":"string"}},"required":["b"],"additionalProperties":false}}},`, hello), want: chatWhole},
	{name: "chat: stream", path: "/v1/chat/completions", body: chat(`"stream":true,`, hello), stream: chatStream("stop", 0, false)},
	{name: "chat: stream with usage", path: "/v1/chat/completions", body: chat(`"stream":true,"stream_options":{"include_usage":true},`, hello), want: []string{"usage.prompt_tokens >0", "usage.completion_tokens >0"}, stream: chatStream("stop", 0, true)},
	{name: "chat: calls", path: "/v1/chat/completions", body: chat(chatTools+",", hello), want: chatCalls},
	{name: "chat: stream of calls", path: "/v1/chat/completions", body: chat(`"stream":true,"stream_options":{"include_usage":true},`+chatTools+",", hello), stream: chatStream("tool_calls", 2, true)},
	{name: "chat: a call is needed", path: "/v1/chat/completions", body: chat(`"tool_choice":"required",`+chatTools+",", hello), want: chatCalls},
	{name: "chat: this call is needed", path: "/v1/chat/completions", body: chat(`"tool_choice":{"type":"function","function":{"name":"get_weather"}},`+chatTools+",", hello), want: chatCalls},
	{name: "chat: result", path: "/v1/chat/completions", body: chat(chatTools+",", chatCall), want: []string{"choices.0.message.content =It rains.", "choices.0.message.tool_calls none", "choices.0.finish_reason =stop"}},
	{name: "chat: log probabilities", path: "/v1/chat/completions", body: chat(`"logprobs":true,"top_logprobs":2,`, hello), only: "anthropic openai_responses gemini", status: 400, want: []string{"error.message text", "error.type =invalid_request_error"}},
	{name: "chat: several answers", path: "/v1/chat/completions", body: chat(`"n":2,`, hello), only: "anthropic openai_responses gemini", status: 400, want: []string{"error.message text", "error.type =invalid_request_error"}},
	{name: "chat: no messages", path: "/v1/chat/completions", body: `{"model":"gpt-5.4","messages":[]}`, status: 400, want: []string{"error.message text", "error.type =invalid_request_error"}},
	{name: "chat: too many requests", path: "/v1/chat/completions", body: chat(chatTools+",", before(2)), status: 429, want: []string{"error.message text", "error.type text"}},
	{name: "chat: server error, streamed", path: "/v1/chat/completions", body: chat(`"stream":true,`+chatTools+",", before(3)), status: 500, want: []string{"error.message text", "error.type text"}},
	{name: "chat: no key", path: "/v1/chat/completions", body: chat(chatTools+",", before(4)), status: 401, want: []string{"error.message text", "error.type text"}},

	// Responses
	{name: "responses: whole", path: "/v1/responses", body: `{"model":"gpt-5.4","input":"Hello"}`, want: []string{"id text", "object =response", "status =completed", "model text", `output.#(type=="message").role =assistant`, `output.#(type=="message").content.0.type =output_text`, `output.#(type=="message").content.0.text text`, "usage.input_tokens >0", "usage.output_tokens >0", "usage.total_tokens >0"}},
	{name: "responses: instructions and items", path: "/v1/responses", body: `{"model":"gpt-5.4","instructions":"Be short.","input":[{"role":"developer","content":"Be kind."},{"role":"user","content":[{"type":"input_text","text":"Hello"}]}]}`, want: []string{"status =completed", `output.#(type=="message").content.0.text text`}},
	{name: "responses: stream", path: "/v1/responses", body: `{"model":"gpt-5.4","stream":true,"input":"Hello"}`, want: []string{"response.status =completed", "response.usage.output_tokens >0"}, stream: responsesStream("message")},
	{name: "responses: calls", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools + `,"input":"Hello"}`, want: []string{`output.#(type=="function_call").name =get_weather`, `output.#(type=="function_call").call_id text`, `output.#(type=="function_call").arguments|@fromstr|city =Zürich "old"`, `output.#(type=="function_call")#|# =2`}},
	{name: "responses: stream of calls", path: "/v1/responses", body: `{"model":"gpt-5.4","stream":true,` + responsesTools + `,"input":"Hello"}`, stream: responsesStream("reasoning", "message", "function_call", "function_call")},
	{name: "responses: result", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools + `,"input":[{"role":"user","content":"Weather?"},{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":"{}"},{"type":"function_call_output","call_id":"call_1","output":"rain"}]}`, want: []string{`output.#(type=="message").content.0.text =It rains.`}},
	{name: "responses: server error", path: "/v1/responses", body: `{"model":"gpt-5.4",` + responsesTools + `,"input":[` + before(3) + `]}`, status: 500, want: []string{"error.message text", "error.type text"}},

	// Gemini
	{name: "gemini: whole", path: "/v1beta/models/gemini-3.1-pro-preview:generateContent", body: `{"systemInstruction":{"parts":[{"text":"Be short."}]},"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, want: []string{"candidates.0.content.role =model", "candidates.0.content.parts.0.text text", "candidates.0.finishReason =STOP", "usageMetadata.promptTokenCount >0", "usageMetadata.totalTokenCount >0"}},
	{name: "gemini: stream", path: "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse", body: `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, want: []string{"candidates.0.finishReason =STOP", "usageMetadata.candidatesTokenCount >0"}, stream: geminiStream},
	{name: "gemini: calls", path: "/v1beta/models/gemini-3.1-pro-preview:generateContent", body: `{` + geminiTools + `,"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, want: []string{"candidates.0.content.parts.#.functionCall.name =[\"get_weather\",\"get_time\"]", "candidates.0.content.parts.#.functionCall|0.args.city =Zürich \"old\"", "candidates.0.finishReason =STOP"}},
	{name: "gemini: stream of calls", path: "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse", body: `{` + geminiTools + `,"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, want: []string{"candidates.0.finishReason =STOP"}, stream: geminiStream},
	{name: "gemini: too many requests", path: "/v1beta/models/gemini-3.1-pro-preview:generateContent", body: `{` + geminiTools + `,"contents":[` + turnsBefore(2, `{"role":"user","parts":[{"text":"More?"}]}`, `{"role":"model","parts":[{"text":"No."}]}`) + `]}`, status: 429, want: []string{"error.code =429", "error.status =RESOURCE_EXHAUSTED", "error.message text"}},
}
