// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// behind is a site whose upstream is stated.
func behind(u *upstream, stated string) string {
	return "llm_cache {\n upstream " + stated + "\n}\nreverse_proxy " + u.Listener.Addr().String()
}

// chatEvents are a stream of chat completions with two calls whose arguments
// come interleaved.
var chatEvents = []string{
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[{"index":0,` +
		`"delta":{"role":"assistant","content":""}}]}`,
	`: keepalive 1/2`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[{"index":0,` +
		`"delta":{"reasoning":"Hm."}}]}`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[{"index":0,` +
		`"delta":{"content":"I \"look\"."}}]}`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[{"index":0,` +
		`"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"Read",` +
		`"arguments":"{\"file_path\""}},{"index":1,"id":"call_b","type":"function","function":{"name":"Read",` +
		`"arguments":"{}"}}]}}]}`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[{"index":0,` +
		`"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"/a\"}"}}]}}]}`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[{"index":0,` +
		`"delta":{},"finish_reason":"tool_calls"}]}`,
	`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3-coder","choices":[],` +
		`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,` +
		`"prompt_tokens_details":{"cached_tokens":1234}}}`,
	`data: [DONE]`,
}

// stream answers by events, one flush each.
func stream(events ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			_, _ = io.WriteString(w, strings.TrimSuffix(e, "\n\n")+"\n\n")
			w.(http.Flusher).Flush()
		}
	}
}

func turnOf(f wire.Format, stream bool, body string) *wire.Turn {
	d := wire.NewDecoder(f, stream)
	d.Feed([]byte(body))
	return d.Turn()
}

// TestClaudeToChat: a client of the Messages API that streams with tools works
// against an upstream that speaks nothing but chat completions.
func TestClaudeToChat(t *testing.T) {
	u := newUpstream(t, stream(chatEvents...))
	p := start(t, behind(u, "mlx_lm {\n model claude-* qwen3-coder\n}"))
	before := p.metric(`caddy_llm_cache_translations_total{from="anthropic",outcome="translated",to="openai_chat"}`)
	body := strings.Replace(conversation(3, true), `"messages"`,
		`"tools":[{"name":"Read","description":"Reads.","input_schema":{"type":"object"},`+
			`"cache_control":{"type":"ephemeral"}}],"metadata":{"user_id":"x"},"messages"`, 1)
	res := p.post("/v1/messages?beta=true", body, "X-Api-Key", "secret", "Anthropic-Version", "2023-06-01", "TE",
		"trailers", "Connection", "TE")
	got := read(t, res)

	turn := turnOf(wire.Anthropic, true, got)
	if !turn.Done || turn.Text != `I "look".` || turn.Thinking != "Hm." || turn.StopReason != "tool_use" ||
		turn.Model != "claude-opus-4-6" ||
		len(turn.Calls) != 2 || turn.Calls[0].Arguments != `{"file_path":"/a"}` || turn.Calls[1].ID != "call_b" ||
		turn.Usage != (wire.Usage{Uncached: 43, Read: 1234, Output: 5, Reported: true}) {
		t.Errorf("turn is %+v of\n%s", turn, got)
	}
	if !strings.Contains(got, "event: ping") || res.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("no ping, or headers %v", res.Header)
	}
	if dropped := res.Header.Get("X-Llm-Cache-Dropped"); dropped != "tools[].cache_control" {
		t.Errorf("dropped is %q", dropped)
	}
	if res.Trailer.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
		t.Errorf("trailers are %v", res.Trailer)
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
		t.Errorf("sessions are %v, want one with one request", s)
	}
	if p.metric(`caddy_llm_cache_translations_total{from="anthropic",outcome="translated",to="openai_chat"}`) != before+1 {
		t.Error("not counted")
	}

	sent := u.last()
	var q struct {
		Model   string
		Stream  bool
		Options struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Messages []struct{ Role string }
		Tools    []any
	}
	if err := json.Unmarshal([]byte(sent.body), &q); err != nil {
		t.Fatalf("%v in %s", err, sent.body)
	}
	if sent.path != "/v1/chat/completions" || sent.header.Get("Authorization") != "Bearer secret" ||
		sent.header.Get("X-Api-Key") != "" ||
		sent.length != int64(len(sent.body)) || sent.header.Get("Accept-Encoding") != "identity" {
		t.Errorf("sent %s with %v", sent.path, sent.header)
	}
	if q.Model != "qwen3-coder" || !q.Stream || !q.Options.IncludeUsage || len(q.Messages) != 8 ||
		q.Messages[3].Role != "tool" || len(q.Tools) != 1 {
		t.Errorf("sent %+v", q)
	}
}

// TestFlushedEvents: what the upstream has flushed reaches the client before
// the upstream goes on.
func TestFlushedEvents(t *testing.T) {
	seen := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range []string{"one", "two", "three"} {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
			w.(http.Flusher).Flush()
			select {
			case <-seen:
			case <-r.Context().Done():
				return
			}
		}
	})
	p := start(t, behind(u, "mlx_lm"))
	res := p.post("/v1/messages", conversation(0, true))
	var got strings.Builder
	buf := make([]byte, 4096)
	for _, text := range []string{"one", "two", "three"} {
		for !strings.Contains(got.String(), `"text":"`+text+`"`) {
			n, err := res.Body.Read(buf)
			got.Write(buf[:n])
			if err != nil {
				t.Fatalf("%v after %s", err, got.String())
			}
		}
		seen <- struct{}{}
	}
	rest, err := io.ReadAll(res.Body)
	if err != nil || strings.Contains(got.String()+string(rest), "message_stop") {
		t.Errorf("an answer without an end got one: %s, %v", rest, err)
	}
}

// TestChatToClaude: a client of chat completions works against the Messages
// API, streamed and not.
func TestChatToClaude(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			answerMessage(w, r, n)
			return
		}
		stream(events...)(w, r, n)
	})
	p := start(t, behind(u, "anthropic {\n max_tokens_default 777\n}"))
	usage := wire.Usage{Uncached: 3, Write5m: 40, Read: 1234, Output: 5, Reported: true}

	res := p.post("/v1/chat/completions",
		`{"model":"claude-opus-4-6","messages":[{"role":"system","content":"You are an agent."},{"role":"user",`+
			`"content":"Hi"}]}`, "Authorization", "Bearer secret")
	got := read(t, res)
	turn := turnOf(wire.OpenAIChat, false, got)
	if !turn.Done || turn.Text != "Done." || turn.StopReason != "stop" || turn.Usage != usage ||
		res.ContentLength != int64(len(got)) ||
		res.Header.Get("X-Llm-Cache-Cached-Tokens") != "1234" || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("turn is %+v, headers %v of\n%s", turn, res.Header, got)
	}
	sent := u.last()
	if sent.path != "/v1/messages" || sent.header.Get("X-Api-Key") != "secret" || sent.header.Get("Authorization") != "" ||
		sent.header.Get("Anthropic-Version") == "" || !strings.Contains(sent.body, `"max_tokens":777`) {
		t.Errorf("sent %s with %v: %s", sent.path, sent.header, sent.body)
	}

	res = p.post("/v1/chat/completions",
		`{"model":"claude-opus-4-6","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
	got = read(t, res)
	turn = turnOf(wire.OpenAIChat, true, got)
	if !turn.Done || turn.Text != "Done." || turn.Usage != usage || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("turn is %+v of\n%s", turn, got)
	}
	if strings.Contains(got, `"choices":[],`) {
		t.Errorf("a usage chunk that was not asked for:\n%s", got)
	}
}

// TestUnknownReason: an unknown finish_reason is no clean end: clients of the Messages API get
// max_tokens, and the metric counts it.
func TestUnknownReason(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},`+
				`"finish_reason":"gave_up"}]}`)
	})
	p := start(t, behind(u, "{\n format openai_chat\n}"))
	count := func() float64 {
		return p.metric(`caddy_llm_cache_translations_total{from="anthropic",outcome="unknown_reason",to="openai_chat"}`)
	}
	before := count()
	got := read(t, p.post("/v1/messages", conversation(1, false)))
	if turn := turnOf(wire.Anthropic, false, got); turn.StopReason != "max_tokens" || turn.Text != "Hi" {
		t.Errorf("got %s, want an answer that was cut off", got)
	}
	if n := count() - before; n != 1 {
		t.Errorf("counted %v times, want once", n)
	}
}

// TestAnswersHaveIDsOfTheirOwn: servers number answers in a circle, or all alike, and clients
// merge those that have one id.
func TestAnswersHaveIDsOfTheirOwn(t *testing.T) {
	u := newUpstream(t, answerChat)
	p := start(t, behind(u, "ollama"))
	ids := map[string]bool{}
	for range 3 {
		ids[turnOf(wire.Anthropic, false, read(t, p.post("/v1/messages", conversation(1, false)))).ID] = true
	}
	if len(ids) != 3 || ids[""] {
		t.Errorf("three answers have the ids %v", ids)
	}

	// Native answers, too. The rest stays as the server wrote it.
	const body = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	for range 3 {
		got := read(t, p.post("/v1/chat/completions", body))
		id := gjson.Get(got, "id").Str
		ids[id] = true
		if want := strings.Replace(strings.Replace(chatMessage, `"reasoning"`, `"reasoning_content"`, 1), "chatcmpl-1", id,
			1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	events := newUpstream(t, stream(chatEvents...))
	p.reload(behind(events, "ollama"))
	got := read(t, p.post("/v1/chat/completions", strings.Replace(body, `{"model"`, `{"stream":true,"model"`, 1)))
	id := turnOf(wire.OpenAIChat, true, got).ID
	ids[id] = true
	// but for the comment, the usage that was not asked for, and [DONE]
	if len(ids) != 7 || ids["chatcmpl-1"] || strings.Count(got, id) != len(chatEvents)-3 {
		t.Errorf("seven answers have the ids %v; the last is\n%s", ids, got)
	}
	p.reload(behind(u, "lm_studio"))
	if id := gjson.Get(read(t, p.post("/v1/chat/completions", body)), "id").Str; id != "chatcmpl-1" {
		t.Errorf("a server with ids of its own: got %s, want chatcmpl-1", id)
	}
}

// TestTranslatedErrors: statuses, types and the words that clients act on.
func TestTranslatedErrors(t *testing.T) {
	for name, c := range map[string]struct {
		site, path, body string
		status           int
		header, answer   string
		want             int
		words            []string
	}{
		"429": {
			"mlx_lm", "/v1/messages", conversation(0, false),
			429, "Retry-After: 7", `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`,
			429,
			[]string{`{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`},
		},
		"too long for Claude Code": {
			"mlx_lm", "/v1/messages", conversation(0, true),
			400, "X: y",
			`{"error":{"message":"This model's maximum context length is 4096 tokens. However, your messages resulted in ` +
				`5000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}`,
			400,
			[]string{`"invalid_request_error"`, `prompt is too long: 5000 tokens > 4096 maximum`},
		},
		"too long for OpenAI": {
			"anthropic", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
			400, "X: y",
			`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 ` +
				`maximum"}}`,
			400,
			[]string{`"code":"context_length_exceeded"`, `maximum context length is 200000 tokens`},
		},
		"overloaded": {
			"anthropic", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
			529, "Request-Id: req_1", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			503,
			[]string{`{"error":{"message":"Overloaded","type":"server_error","param":null,"code":null}}`},
		},
		"a page": {
			"mlx_lm", "/v1/messages", conversation(0, false),
			502, "Content-Type: text/html", `<html>Bad gateway</html>`,
			502,
			[]string{`"api_error"`, "Bad Gateway"},
		},
		"a bare string": {
			"mlx_lm", "/v1/messages", conversation(0, false),
			404, "X: y", `{"error": "no such model"}`,
			404,
			[]string{`{"type":"error","error":{"type":"not_found_error","message":"no such model"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				key, value, _ := strings.Cut(c.header, ": ")
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set(key, value)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			})
			p := start(t, behind(u, c.site))
			res := p.post(c.path, c.body)
			got := read(t, res)
			if res.StatusCode != c.want || res.ContentLength != int64(len(got)) ||
				res.Header.Get("Content-Type") != "application/json" || res.Header.Get("X-Llm-Cache-Session") == "" {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
			for _, words := range c.words {
				if !strings.Contains(got, words) {
					t.Errorf("%q is not in %s", words, got)
				}
			}
			switch name {
			case "429":
				if res.Header.Get("Retry-After") != "7" {
					t.Error("no Retry-After")
				}
			case "overloaded":
				if res.Header.Get("X-Request-Id") != "req_1" {
					t.Error("no X-Request-Id")
				}
			}
		})
	}
}

// TestUntranslatable is answered in the client's own words, and nothing goes
// upstream.
func TestUntranslatable(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, behind(u, "mlx_lm"))
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document",` +
		`"source":{"type":"file","file_id":"file_1"}}]}]}`
	res := p.post("/v1/messages", body)
	got := read(t, res)
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(got, `"type":"invalid_request_error"`) ||
		!strings.Contains(got, "messages[0].content[0]") {
		t.Errorf("status %d: %s", res.StatusCode, got)
	}
	res = p.post("/v1/messages", `{"model":`)
	if got := read(t, res); res.StatusCode != http.StatusBadRequest || !strings.Contains(got, `"type":"error"`) {
		t.Errorf("status %d: %s", res.StatusCode, got)
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}

// TestCutTranslation: a cut stream stays cut. An answer in one piece that is cut is
// none: the client has seen nothing of it and is told so by its own API's words.
func TestCutTranslation(t *testing.T) {
	for _, streamed := range []bool{true, false} {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			if streamed {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, chatEvents[0]+"\n\n"+chatEvents[3]+"\n\n")
			} else {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(w, `{"id":"c","choices":[`)
			}
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		p := start(t, behind(u, "mlx_lm"))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
			strings.NewReader(conversation(0, streamed)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.client.Do(req)
		if err == nil {
			var got []byte
			got, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
			if !streamed && res.StatusCode == http.StatusBadGateway && gjson.GetBytes(got, "error.type").Str == "api_error" {
				continue
			}
			if streamed != strings.Contains(string(got), "look") || strings.Contains(string(got), "message_stop") {
				t.Errorf("got %s", got)
			}
		}
		if err == nil {
			t.Errorf("streamed %v: the cut does not show", streamed)
		}
		for _, s := range p.sessions() {
			if s.requests() != 0 {
				t.Errorf("session %v has requests", s)
			}
		}
	}
}

// TestRenamedModel: a model goes by another name at an upstream of the client's
// own format, and nothing else changes.
func TestRenamedModel(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, behind(u, "anthropic {\n model gpt-* claude-haiku-4-5\n model claude-opus-* claude-sonnet-4-5\n}"))
	body := conversation(1, false)
	res := p.post("/v1/messages", body)
	if got := read(t, res); got != message {
		t.Errorf("answer is %s", got)
	}
	if want := strings.Replace(body, "claude-opus-4-6", "claude-sonnet-4-5", 1); u.last().body != want {
		t.Errorf("sent %s, want %s", u.last().body, want)
	}
}

// TestPackedTranslation: an upstream that compresses all the same is understood.
func TestPackedTranslation(t *testing.T) {
	packed := gzipped(t, message)
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, packed)
	})
	p := start(t, behind(u, "anthropic"))
	res := p.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if turn := turnOf(wire.OpenAIChat, false, read(t, res)); !turn.Done || turn.Text != "Done." ||
		res.Header.Get("Content-Encoding") != "" {
		t.Errorf("%+v", turn)
	}
}

// TestSpaceBeforeStream: a stream that its type does not name, and that begins with white
// space in a piece of its own, is one all the same.
func TestSpaceBeforeStream(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/plain")
		for _, e := range append([]string{"\n"}, chatEvents...) {
			_, _ = io.WriteString(w, e+"\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond) // so that it comes as a piece of its own
		}
	})
	p := start(t, behind(u, "mlx_lm"))
	got := read(t, p.post("/v1/messages", conversation(0, true)))
	if turn := turnOf(wire.Anthropic, true, got); !turn.Done || turn.Text != `I "look".` {
		t.Errorf("turn is %+v of\n%s", turn, got)
	}
}

// TestBufferToolCalls: calls come whole to clients of either format, text does
// not wait, and nothing else of the client's own format is touched.
func TestBufferToolCalls(t *testing.T) {
	u := newUpstream(t, stream(chatEvents...))
	for _, c := range []struct {
		path, body string
		format     wire.Format
	}{
		{
			"/v1/chat/completions",
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"x"}]}`,
			wire.OpenAIChat,
		},
		{"/v1/messages", conversation(0, true), wire.Anthropic},
	} {
		p := start(t, "llm_cache {\n upstream mlx_lm\n buffer_tool_calls on\n}\nreverse_proxy "+u.Listener.Addr().String())
		got := read(t, p.post(c.path, c.body))
		turn := turnOf(c.format, true, got)
		if !turn.Done || turn.Text != `I "look".` || len(turn.Calls) != 2 ||
			turn.Calls[0].Arguments != `{"file_path":"/a"}` || turn.Usage.Read != 1234 {
			t.Errorf("turn is %+v of\n%s", turn, got)
		}
		if n := strings.Count(got, `{\"file_path\":\"/a\"}`); n != 1 {
			t.Errorf("the call is whole %d times in\n%s", n, got)
		}
		if c.format == wire.OpenAIChat && !strings.Contains(got, chatEvents[3]) {
			t.Errorf("an event has changed in\n%s", got)
		}
	}
}

// TestCountTokens passes to an upstream that speaks the format, and is answered
// by an estimate, called one, for one that does not.
func TestCountTokens(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, behind(u, "mlx_lm"))
	words := strings.Repeat("several words ", 1000)
	for path, c := range map[string]struct{ body, member string }{
		"/v1/messages/count_tokens": {
			`{"model":"m","messages":[{"role":"user","content":"` + words + `"}]}`,
			"input_tokens",
		},
		"/v1/responses/input_tokens": {`{"model":"m","input":"` + words + `"}`, "input_tokens"},
		"/v1beta/models/m:countTokens": {`{"generateContentRequest":{"model":"models/m","contents":[{"parts":[{"text":"` +
			words + `"}]}]}}`, "totalTokens"},
	} {
		res := p.post(path, c.body)
		got := gjson.Parse(read(t, res))
		if n := got.Get(c.member).Int(); res.StatusCode != http.StatusOK || n < 2000 || n > 8000 ||
			res.Header.Get("X-Llm-Cache-Input-Tokens-Estimated") != "1" {
			t.Errorf("%s: status %d, %s, headers %v", path, res.StatusCode, got.Raw, res.Header)
		}
		if res := p.post(path, `{"model":"m"}`); res.StatusCode != http.StatusBadRequest ||
			!strings.Contains(read(t, res), "no messages") && !strings.Contains(path, "responses") {
			t.Errorf("%s without messages: status %d", path, res.StatusCode)
		}
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	if s := p.sessions(); len(s) != 0 {
		t.Errorf("sessions are %v", s)
	}
	p.reload("llm_cache {\n upstream mlx_lm\n max_body 1KiB\n}\nreverse_proxy " + u.Listener.Addr().String())
	if res := p.post("/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"`+words+
		`"}]}`); res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: status %d", res.StatusCode)
	}
	p.reload(behind(u, "llama_cpp"))
	if res := p.post("/v1/messages/count_tokens", conversation(0, false)); read(t, res) != message {
		t.Error("did not pass")
	}
}

// TestEveryClient: clients of all four formats stream and do not stream from an
// upstream that speaks nothing but chat completions.
func TestEveryClient(t *testing.T) {
	whole := `{"id":"chatcmpl-1","object":"chat.completion","model":"qwen3-coder","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"I \"look\".","reasoning":"Hm.","tool_calls":[{"id":"call_a",` +
		`"type":"function","function":{"name":"Read","arguments":"{\"file_path\":\"/a\"}"}},{"id":"call_b",` +
		`"type":"function","function":{"name":"Read","arguments":"{}"}}]},"finish_reason":"tool_calls"}],` +
		`"usage":{"prompt_tokens":1277,"completion_tokens":5,"total_tokens":1282,` +
		`"prompt_tokens_details":{"cached_tokens":1234}}}`
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n%2 == 1 {
			stream(chatEvents...)(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
	})
	p := start(t, behind(u, "mlx_lm"))
	for _, c := range []struct {
		format             wire.Format
		path, whole        string
		body, wholeRequest string
	}{
		{wire.Anthropic, "/v1/messages", "/v1/messages", conversation(1, true), conversation(1, false)},
		{
			wire.OpenAIResponses, "/v1/responses", "/v1/responses",
			`{"model":"m","stream":true,"input":[{"role":"user","content":"Hi"}]}`, `{"model":"m","input":"Hi"}`,
		},
		{
			wire.Gemini, "/v1beta/models/m:streamGenerateContent?alt=sse", "/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`, `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`,
		},
		{
			wire.Interactions, "/v1beta/interactions", "/v1beta/interactions",
			`{"model":"m","stream":true,"input":"Hi"}`, `{"model":"m","input":[{"type":"user_input","content":"Hi"}]}`,
		},
		{
			wire.Gemini, "/v1beta/models/m:streamGenerateContent", "/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`, `{"contents":[{"role":"user","parts":[{"text":"Ho"}]}]}`,
		},
	} {
		for i, path := range []string{c.path, c.whole} {
			body := c.body
			if i == 1 {
				body = c.wholeRequest
			}
			res := p.post(path, body, "X-Goog-Api-Key", "secret")
			got := read(t, res)
			turn := turnOf(c.format, strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"), got)
			if !turn.Done || turn.Text != `I "look".` || turn.Thinking != "Hm." || len(turn.Calls) != 2 ||
				turn.Calls[0].Arguments != `{"file_path":"/a"}` || turn.Usage.Read != 1234 {
				t.Errorf("%s: turn is %+v of\n%s", path, turn, got)
			}
			if sent := u.last(); sent.path != "/v1/chat/completions" || sent.header.Get("Authorization") != "Bearer secret" ||
				sent.header.Get("X-Goog-Api-Key") != "" {
				t.Errorf("%s: sent %s with %v", path, sent.path, sent.header)
			}
		}
	}
	if n := p.metric(`caddy_llm_cache_requests_total{outcome="completed",policy="cost_aware"}`); n < 10 {
		t.Errorf("%v requests completed", n)
	}
}
