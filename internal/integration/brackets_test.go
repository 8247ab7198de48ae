// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
)

// brackets is how many of them a test is about. Six million overflow the stack of a
// reader that recurses; in short tests so many overflow a smaller one.
func brackets() (n int, restore func()) {
	if !testing.Short() {
		return 6_000_000, func() {}
	}
	before := debug.SetMaxStack(32 << 20)
	return 1_000_000, func() { debug.SetMaxStack(before) }
}

// TestBracketsInRequests goes where a recursive reader of JSON ends the process: many
// brackets in what a tool was asked and said.
func TestBracketsInRequests(t *testing.T) {
	n, restore := brackets()
	defer restore()
	h := newHostility(t)
	for i := range dialects {
		d := &dialects[i]
		for _, site := range []string{"native", "hosted", "box"} {
			h.try(t, site, d, "brackets in an input", asInput(bracketsIn(`{"output":`))(t, d, n), "")
			h.try(t, site, d, "brackets in a result", part("RESULT", bracketsIn(`{"output":`))(t, d, n), "")
		}
	}
}

// bracketAnswer is an answer that calls a tool with a text that looks like JSON, in one
// piece and streamed.
func bracketAnswer(format string, n int) (whole, stream string) {
	text := `{"output":` + strings.Repeat("[", n)
	arguments, deep := quoted(text), text+strings.Repeat("]", n)+"}"
	switch format {
	case "anthropic":
		whole = `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use",` +
			`"id":"toolu_1","name":"Read","input":` + deep +
			`}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":5}}`
		stream = events[0] +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0," +
			"\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"Read\",\"input\":{}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," +
			"\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":" + arguments + "}}\n\n" +
			strings.Join(events[3:], "")
	case "openai_chat":
		call := `{"index":0,"id":"call_1","type":"function","function":{"name":"Read","arguments":` + arguments + `}}`
		whole = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",` +
			`"content":null,"tool_calls":[` + call + `]},"finish_reason":"tool_calls"}]}`
		stream = `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,` +
			`"delta":{"role":"assistant","tool_calls":[` + call + `]}}]}` + "\n\n" +
			`data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},` +
			`"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	case "openai_responses":
		item := func(arguments string) string {
			return `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"Read","arguments":` + arguments + `}`
		}
		whole = `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[` + item(arguments) +
			`],"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}`
		for _, e := range []string{
			`{"type":"response.created","response":{"id":"resp_1","object":"response","status":"in_progress","model":"m",` +
				`"output":[]}}`,
			`{"type":"response.output_item.added","output_index":0,"item":` + item(`""`) + `}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc_1","delta":` + arguments + `}`,
			`{"type":"response.output_item.done","output_index":0,"item":` + item(arguments) + `}`,
			`{"type":"response.completed","response":` + whole + `}`,
		} {
			kind, _, _ := strings.Cut(e[len(`{"type":"`):], `"`)
			stream += "event: " + kind + "\ndata: " + e + "\n\n"
		}
	case "gemini":
		whole = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"Read","args":` + deep +
			`}}]},"finishReason":"STOP"}]}`
		stream = "data: " + whole + "\n\n"
	}
	return whole, stream
}

// TestBracketsInAnswers: the answers of each format go to the clients of each.
func TestBracketsInAnswers(t *testing.T) {
	n, restore := brackets()
	defer restore()
	formats := []string{"anthropic", "openai_chat", "openai_responses", "gemini"}
	for _, format := range formats {
		whole, stream := bracketAnswer(format, n)
		u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
			if r.Header.Get("X-Stream") == "" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, whole)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, stream)
		})
		p := start(t, "handle_path /eager/* {\n llm_cache {\n policy eager\n upstream {\n format "+format+
			"\n}\n}\nreverse_proxy "+u.Listener.Addr().String()+"\n}\n"+
			"handle_path /held/* {\n llm_cache {\n buffer_tool_calls on\n upstream {\n format "+format+"\n}\n}\nreverse_proxy "+
			u.Listener.Addr().String()+"\n}")
		for i := range dialects {
			d := &dialects[i]
			for _, site := range []string{"/eager", "/held"} {
				for _, streamed := range []string{"", "1"} {
					body, path, want := d.say("CONTENT", `"hi"`), site+d.path, whole
					if streamed != "" {
						want = stream
						path = strings.Replace(path, ":generateContent", ":streamGenerateContent?alt=sse", 1)
						if d.name != "gemini" {
							body = `{"stream":true,` + body[1:]
						}
					}
					res := p.post(path, body, "X-Stream", streamed)
					got, err := io.ReadAll(res.Body)
					if err != nil || len(got) == 0 {
						t.Errorf("%s to %s%s, streamed %q: status %d, %d bytes, %v", format, d.name, site, streamed, res.StatusCode,
							len(got), err)
					}
					if format == map[string]string{"chat": "openai_chat", "responses": "openai_responses"}[d.name] ||
						format == d.name {
						if site == "/eager" && string(got) != want {
							t.Errorf("%s%s, streamed %q: %d bytes of %d arrived as they were sent", format, site, streamed, len(got),
								len(want))
						}
					}
				}
			}
		}
	}
}
