// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// TestFirstToken measures Claude Code's wait for the first token of a real engine with one slot,
// with llm_cache and with a plain translator: over ten turns of one conversation, at the beginning
// of a second one in the same repository, and with a billing line that differs in each request,
// like that of clients with an attestation.
func TestFirstToken(t *testing.T) {
	if !*ablate {
		t.Skip("a measurement: -ablate")
	}
	needClient(t, claudeCode{})
	type result struct{ conversation, second, billed time.Duration }
	var with, without result
	for _, c := range []struct {
		name string
		to   *result
		site func(t *testing.T, e *engine.Engine) string
	}{
		{"without", &without, func(t *testing.T, e *engine.Engine) string { return startBare(t, e.Addr) }},
		{"with", &with, func(t *testing.T, e *engine.Engine) string {
			return startStack(t, setup{cache: "upstream llama_cpp\nqueue", upstream: e.Addr, unwatched: true}).url
		}},
	} {
		for _, billed := range []bool{false, true} {
			e := startEngine(t, engine.Options{Context: 131072})
			url := c.site(t, e)
			if billed {
				url = startBilling(t, url)
			}
			waited := func(u *user, prompt string, script []step) (all, first time.Duration) {
				if err := e.Script(t.Context(), engineSteps(script)); err != nil {
					t.Fatal(err)
				}
				if err := e.Reset(t.Context()); err != nil {
					t.Fatal(err)
				}
				u.ask(t, prompt, script)
				list, err := e.Requests(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				n, prompts, read := 0, 0, 0
				for _, q := range list {
					if q.Tools == 0 {
						continue
					}
					d := time.Duration(q.Millis * float64(time.Millisecond))
					if all += d; n == 0 {
						first = d
					}
					n, prompts, read = n+1, prompts+q.Prompt, read+q.Processed
				}
				if n != len(script) {
					t.Errorf("%d requests, want %d", n, len(script))
				}
				t.Logf("%s, billing line %t: %d requests, %d tokens in prompts, %d read, %v to their first tokens, %v to the "+
					"first one's", c.name, billed, n, prompts, read, all, first)
				return all, first
			}
			r := newRepository(t, claudeCode{})
			u := newUser(t, claudeCode{url: url}, r.dir)
			u.patience = 15 * time.Minute
			var script []step
			for i := range 9 {
				script = append(script, calls(r.bash(fmt.Sprintf("head -c 2000 src/a.go; echo %d", i))))
			}
			all, _ := waited(u, firstPrompt, append(script, step{Text: "That is all."}))
			if billed {
				c.to.billed = all
				continue
			}
			c.to.conversation = all
			u.asked = 0
			_, c.to.second = waited(u, "What is in this repository?", []step{calls(r.bash("ls")), {Text: "That is all."}})
		}
	}
	for _, row := range []struct {
		name          string
		without, with time.Duration
	}{
		{"ten turns of one conversation", without.conversation, with.conversation},
		{"a second conversation's first request", without.second, with.second},
		{"ten turns, another billing line with each", without.billed, with.billed},
	} {
		t.Logf("%s: %.1f s without, %.1f s with, %.1f×", row.name, row.without.Seconds(), row.with.Seconds(),
			row.without.Seconds()/row.with.Seconds())
	}
}

var version = regexp.MustCompile(`(x-anthropic-billing-header: cc_version=[0-9.]+\.)[0-9a-z]+`)

// startBilling changes the billing line in each request, and returns the proxy's address.
func startBilling(t *testing.T, to string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	p := httputil.NewSingleHostReverseProxy(target)
	p.FlushInterval = -1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(`"tools":[{`)) && !version.Match(body) {
			t.Error("a request has no billing line")
		}
		body = version.ReplaceAll(body, fmt.Appendf(nil, "${1}%03x", n.Add(1)))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// startBare starts a translator from Messages to the engine's chat completions that does nothing
// for caches: it keeps texts and their order.
func startBare(t *testing.T, to string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/messages" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		q, err := json.Marshal(chatOf(gjson.ParseBytes(body)))
		if err != nil {
			t.Error(err)
		}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "http://"+to+"/v1/chat/completions",
			bytes.NewReader(q))
		if err != nil {
			t.Error(err)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return // the client has left
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("the engine: %s, %v: %s", res.Status, err, answer)
			return
		}
		writeMessage(w, gjson.ParseBytes(answer), gjson.GetBytes(body, "stream").Bool())
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// chatOf converts a request of the Messages API to chat completions.
func chatOf(q gjson.Result) object {
	text := func(content gjson.Result) string {
		if content.Type == gjson.String {
			return content.Str
		}
		var all []string
		for _, b := range content.Array() {
			if b.Get("type").Str == "text" {
				all = append(all, b.Get("text").Str)
			}
		}
		return strings.Join(all, "\n")
	}
	var messages, tools []object
	if s := text(q.Get("system")); s != "" {
		messages = append(messages, object{"role": "system", "content": s})
	}
	for _, m := range q.Get("messages").Array() {
		var calls []object
		for _, b := range m.Get("content").Array() {
			switch b.Get("type").Str {
			case "tool_use":
				calls = append(calls, object{
					"id": b.Get("id").Str, "type": "function",
					"function": object{"name": b.Get("name").Str, "arguments": b.Get("input").Raw},
				})
			case "tool_result":
				messages = append(messages, object{
					"role": "tool", "tool_call_id": b.Get("tool_use_id").Str,
					"content": text(b.Get("content")),
				})
			}
		}
		out := object{"role": m.Get("role").Str, "content": text(m.Get("content"))}
		if out["role"] == "system" {
			out["role"] = "user" // the template accepts a system message at the beginning only
		}
		if len(calls) > 0 {
			out["tool_calls"] = calls
		}
		if len(calls) > 0 || out["content"] != "" {
			messages = append(messages, out)
		}
	}
	for _, tool := range q.Get("tools").Array() {
		tools = append(tools, object{"type": "function", "function": object{
			"name":        tool.Get("name").Str,
			"description": tool.Get("description").Str, "parameters": json.RawMessage(tool.Get("input_schema").Raw),
		}})
	}
	out := object{"model": q.Get("model").Str, "messages": messages, "max_tokens": q.Get("max_tokens").Int()}
	if len(tools) > 0 {
		out["tools"] = tools
	}
	return out
}

// writeMessage writes a response of chat completions as one of the Messages API.
func writeMessage(w http.ResponseWriter, answer gjson.Result, stream bool) {
	m := answer.Get("choices.0.message")
	var content []object
	if text := m.Get("content").Str; text != "" {
		content = append(content, object{"type": "text", "text": text})
	}
	stop := "end_turn"
	for _, c := range m.Get("tool_calls").Array() {
		stop = "tool_use"
		content = append(content, object{
			"type": "tool_use", "id": c.Get("id").Str, "name": c.Get("function.name").Str,
			"input": json.RawMessage(c.Get("function.arguments").Str),
		})
	}
	usage := object{
		"input_tokens":  answer.Get("usage.prompt_tokens").Int(),
		"output_tokens": answer.Get("usage.completion_tokens").Int(),
	}
	message := object{
		"id": answer.Get("id").Str, "type": "message", "role": "assistant", "model": answer.Get("model").Str,
		"content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonOf(message))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	emit := func(kind string, o object) {
		o["type"] = kind
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, jsonOf(o))
	}
	message["content"], message["stop_reason"] = []object{}, nil
	emit("message_start", object{"message": message})
	for i, b := range content {
		start, delta := object{"type": "text", "text": ""}, object{"type": "text_delta", "text": b["text"]}
		if b["type"] == "tool_use" {
			start = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			delta = object{"type": "input_json_delta", "partial_json": string(b["input"].(json.RawMessage))}
		}
		emit("content_block_start", object{"index": i, "content_block": start})
		emit("content_block_delta", object{"index": i, "delta": delta})
		emit("content_block_stop", object{"index": i})
	}
	emit("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	emit("message_stop", object{})
}
