// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// writing are the events of a call that writes these pieces.
func writing(pieces ...string) []string {
	event := func(data string) string {
		return "event: " + gjson.Get(data, "type").Str + "\ndata: " + data + "\n\n"
	}
	out := []string{
		event(`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m",` +
			`"content":[],"stop_reason":null,"usage":{"input_tokens":10,"output_tokens":1}}}`),
		event(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_w","name":"Write",` +
			`"input":{}}}`),
	}
	for _, p := range pieces {
		out = append(out, event(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":`+
			js(p)+`}}`))
	}
	return append(out, event(`{"type":"content_block_stop","index":0}`),
		event(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":5}}`),
		event(`{"type":"message_stop"}`))
}

// TestCallStreamsBehindAFold lets the upstream go on with a call only when the client has what
// it has said of it.
func TestCallStreamsBehindAFold(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{})
	events := writing(`{"file_path":"/o","content":"`, `line 1 of [an array]\n`, `[llm_cache: `, `line 3\n`, `"}`)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			said{sayText("Unrelated.")}.write(w, true, n)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i, e := range events {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
			if i == 1 || strings.Contains(e, "[llm_cache: ") { // it waits for what follows
				continue
			}
			select {
			case <-seen:
			case <-r.Context().Done():
				return
			}
		}
	})
	p := start(t, pruning(u))
	read(t, p.post("/v1/messages", agent(4, true)))
	res := p.post("/v1/messages", agent(5, true))
	if !strings.Contains(u.last().body, "[[llm_cache:folded ") {
		t.Fatal("nothing is folded")
	}
	for i, e := range events {
		buf := make([]byte, len(e))
		if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != e {
			t.Fatalf("event %d: got %q, %v, want %q", i, buf, err, e)
		}
		if i != 1 && !strings.Contains(e, "[llm_cache: ") {
			seen <- struct{}{}
		}
	}
	if rest := read(t, res); rest != "" {
		t.Errorf("behind the end the client got %q", rest)
	}
}

// TestNoteInTheMiddleOfACall: with nothing folded and without the tool, a note that a model copies
// in the middle of a call ends the stream in an error. When the client tries again, the
// model is told, and the client gets its call.
func TestNoteInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	const note = "[llm_cache: 58 lines of passing tests left out]"
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		pieces := []string{`{"file_path":"/o","content":"=== RUN   TestA\n`, note[:20], note[20:] + `\nend"}`}
		if n == 3 { // it was told
			pieces = []string{`{"file_path":"/o","content":"real text"}`}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range writing(pieces...) {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	})
	p := start(t, "llm_cache {\n\texpand off\n}\nreverse_proxy "+u.Listener.Addr().String())
	call := `{"role":"assistant","content":[` + sayText(strings.Repeat("I look into it. ", 2000)) + `,` +
		sayCall("toolu_1", "Bash", `{"command":"check"}`) + `]}`
	result := fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":%s}]}`,
		js(strings.Repeat("=== RUN   TestA\n", 60)))
	body := agent(0, true, call, result)
	first := read(t, p.post("/v1/messages", body))
	if strings.Contains(first, "llm_cache:") || !strings.Contains(first, `=== RUN   TestA\\n"`) ||
		!strings.Contains(first, "event: error") || strings.Contains(first, "message_stop") {
		t.Errorf("the client got %s", first)
	}
	second := read(t, p.post("/v1/messages", body))
	if strings.Contains(second, "llm_cache") || !strings.Contains(second, "real text") ||
		!strings.Contains(second, "message_stop") {
		t.Errorf("the second time the client got %s", second)
	}
	sent := u.requests()
	if len(sent) != 3 || !strings.Contains(sent[0].body, note) || !strings.Contains(sent[1].body, note) ||
		!strings.Contains(sent[2].body, "Not run: ") {
		t.Errorf("the upstream got %d requests, the last is %s", len(sent), short(u.last().body))
	}
}
