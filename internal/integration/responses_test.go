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
)

const completed = `{"id":"resp_1","object":"response","status":"completed","model":"gpt-6.1-sol",` +
	`"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}],` +
	`"usage":{"input_tokens":1277,"input_tokens_details":{"cached_tokens":1234,"cache_write_tokens":40},` +
	`"output_tokens":5,"total_tokens":1282}}`

var responseEvents = []string{
	"event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0," +
		"\"response\":{\"id\":\"resp_1\",\"model\":\"gpt-6.1-sol\",\"status\":\"in_progress\",\"output\":[]}}\n\n",
	"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1," +
		"\"output_index\":0,\"content_index\":0,\"delta\":\"Done.\"}\n\n",
	"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":" + completed +
		"}\n\n",
}

// answerResponse answers a Responses request as it asks.
func answerResponse(w http.ResponseWriter, r *http.Request, _ int) {
	if r.Header.Get("Accept") != "text/event-stream" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, completed)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range responseEvents {
		_, _ = io.WriteString(w, e)
		_ = http.NewResponseController(w).Flush()
	}
}

// codexTurns is a request of Codex after so many tool turns. Ids begin with a
// prefix, as they are drawn anew after a compaction.
func codexTurns(turns int, ids string) string {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-6.1-sol","stream":true,"input":[{"type":"additional_tools","id":"at_` + ids +
		`","role":"developer","tools":[{"type":"function","name":"exec_command"}]},{"type":"message","id":"msg_` + ids +
		`","role":"user","content":[{"type":"input_text","text":"Fix the build."}]}`)
	for i := range turns {
		fmt.Fprintf(&b, `,{"type":"reasoning","id":"rs_%s%d","summary":[],"content":null,"encrypted_content":"gAAA%d"}`, ids,
			i, i)
		fmt.Fprintf(&b,
			`,{"type":"function_call","id":"fc_%s%d","call_id":"call_%d","name":"exec_command","arguments":"{\"cmd\":\"cat `+
				`/src/file%d.go\"}"}`, ids, i, i, i)
		output := strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i), 40)
		fmt.Fprintf(&b,
			`,{"type":"function_call_output","id":"fco_%s%d","call_id":"call_%d","output":"Chunk ID: %06d\nWall time: 0.%d `+
				`seconds\nProcess exited with code 0\nOutput:\n%s"}`, ids, i, i, i*7919, i, output)
	}
	b.WriteString(`],"tool_choice":"auto","reasoning":{"effort":"medium"},"store":false,` +
		`"include":["reasoning.encrypted_content"],"prompt_cache_key":"0198-codex","client_metadata":{"b":"1","a":"2"}}`)
	return b.String()
}

// TestResponses edits a conversation of Codex, plain and as zstd, and counts its
// streamed answers; new ids do not make it another conversation.
func TestResponses(t *testing.T) {
	u := newUpstream(t, answerResponse)
	p := start(t, eager(u))
	for i, body := range []string{codexTurns(7, "a"), codexTurns(8, "a"), codexTurns(9, "b")} {
		body = strings.Replace(body, "gpt-6.1-sol", "gpt-5.3-codex", 1) // which takes edits in front of reasoning
		sent, headers := body, []string{"Accept", "text/event-stream"}
		if i > 0 {
			sent, headers = zstandard(t, body), append(headers, "Content-Encoding", "zstd")
		}
		res := p.post("/v1/responses", sent, headers...)
		if got := read(t, res); res.StatusCode != http.StatusOK || got != strings.Join(responseEvents, "") {
			t.Fatalf("request %d: status %d, %s", i, res.StatusCode, got)
		}
		if h := res.Header.Get("X-Llm-Cache-Session"); h == "" {
			t.Errorf("request %d was not read", i)
		}
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 3 || len(s[0].Conversations) != 1 {
		t.Errorf("sessions are %+v, want one with one conversation of three requests", s)
	}
	last := u.last()
	if last.header.Get("Content-Encoding") != "" || !json.Valid([]byte(last.body)) {
		t.Errorf("upstream got %s", last.body)
	}
	if strings.Count(last.body, "encrypted_content\":\"gAAA") != 9 || strings.Count(last.body, `"call_id"`) != 18 {
		t.Error("reasoning or a pair was lost")
	}
	if !strings.Contains(last.body, `"output":"[Compacted: 40 lines`) {
		t.Errorf("nothing was edited: %s", last.body)
	}
}

// TestResponsesUntouched: what the provider holds the history of is sent as it
// came and counted; what is beside the API is not even read.
func TestResponsesUntouched(t *testing.T) {
	u := newUpstream(t, answerResponse)
	p := start(t, eager(u))
	const tokens = `caddy_llm_cache_tokens_total{bucket="read"}`
	before := p.metric(tokens)
	follow := strings.Replace(codexTurns(9, "a"), `"model"`, `"previous_response_id":"resp_0","model"`, 1)
	for i, body := range []string{follow, zstandard(t, follow)} {
		headers := [][]string{nil, {"Content-Encoding", "zstd"}}[i]
		res := p.post("/v1/responses", body, headers...)
		if res.StatusCode != http.StatusOK || read(t, res) != completed ||
			res.Header.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
			t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
		}
		if got := u.last(); got.body != body {
			t.Errorf("request %d: upstream got %d bytes, want the %d that were sent", i, len(got.body), len(body))
		}
	}
	if got := p.metric(tokens); got != before+2*1234 {
		t.Errorf("%v tokens counted as read, want %v", got-before, 2*1234)
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 2 {
		t.Errorf("sessions are %+v", s)
	}
	for _, path := range []string{"/v1/responses/compact", "/v1/responses/input_tokens", "/v1/responses/resp_1/cancel"} {
		res := p.post(path, codexTurns(9, "a"))
		if read(t, res); res.Header.Get("X-Llm-Cache-Session") != "" || u.last().body != codexTurns(9, "a") ||
			u.last().path != path {
			t.Errorf("%s was read", path)
		}
	}
}

// TestResponsesResend sends the original when the API misses one of a pair.
func TestResponsesResend(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerResponse(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w,
			`{"error":{"message":"No tool output found for function call call_3.","type":"invalid_request_error",`+
				`"param":"input","code":null}}`)
	})
	p := start(t, strings.Replace(eager(u), "policy eager",
		"upstream lm_studio {\n format openai_responses\n drop\n}\npolicy eager", 1))
	body := strings.ReplaceAll(codexTurns(9, "a"), "gpt-6.1-sol", "gpt-oss-20b")
	res := p.post("/v1/responses", body)
	if got := u.requests(); res.StatusCode != http.StatusOK || len(got) != 2 || got[0].body == body ||
		got[1].body != body {
		t.Errorf("status %d, %d requests", res.StatusCode, len(got))
	}
}
