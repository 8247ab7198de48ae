// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// pruning is a site that folds whatever one answer did not refer to.
func pruning(u *upstream) string {
	return `llm_cache {
	policy eager
	zones {
		frozen 0
		hot 1
		min_messages 0
	}
	compact_tool_results off
	breakpoints off
	prune {
		after 1
	}
}
reverse_proxy ` + u.Listener.Addr().String()
}

// agent is a request of an agent with tools after so many turns, with more
// messages behind.
func agent(turns int, stream bool, more ...string) string {
	body := conversation(turns, stream)
	body = strings.TrimSuffix(body, `]}`)
	for _, m := range more {
		body += "," + m
	}
	return body + `],"tools":[{"name":"Read","description":"Reads a file."` + strings.Repeat(" ", 8000) +
		`,"input_schema":{"type":"object"}},{"name":"Write","input_schema":{"type":"object"}}]}`
}

// said is an answer of a simulated model, block by block.
type said []string

func sayText(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }

func sayThought(s string) string {
	return fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":"sig-%s"}`, s, strings.ReplaceAll(s, " ", "-"))
}

func sayCall(id, name, input string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, name, input)
}

func sayExpand(id string, names ...string) string {
	b, _ := json.Marshal(map[string]any{"ids": names})
	return sayCall(id, "mcp__llm_cache__expand", string(b))
}

func (s said) reason() string {
	for _, b := range s {
		if gjson.Get(b, "type").Str == "tool_use" {
			return "tool_use"
		}
	}
	return "end_turn"
}

// events is the answer as a stream; n tells answers apart.
func (s said) events(n int) []string {
	event := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	out := []string{event("message_start",
		fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_%d","type":"message","role":"assistant",`+
			`"model":"claude-opus-4-6","content":[],"stop_reason":null,"usage":{"input_tokens":%d,`+
			`"cache_creation_input_tokens":40,"cache_read_input_tokens":1000,"output_tokens":1}}}`, n, n))}
	for i, b := range s {
		block := gjson.Parse(b)
		start, deltas := "", []string{}
		delta := func(kind, key, value string) {
			v, _ := json.Marshal(value)
			deltas = append(deltas, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, key, v))
		}
		switch block.Get("type").Str {
		case "text":
			start = `{"type":"text","text":""}`
			for _, word := range strings.SplitAfter(block.Get("text").Str, " ") {
				delta("text_delta", "text", word)
			}
		case "thinking":
			start = `{"type":"thinking","thinking":"","signature":""}`
			delta("thinking_delta", "thinking", block.Get("thinking").Str)
			delta("signature_delta", "signature", block.Get("signature").Str)
		case "tool_use":
			start = fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, block.Get("id").Str, block.Get("name").Str)
			raw := block.Get("input").Raw
			delta("input_json_delta", "partial_json", raw[:len(raw)/2])
			delta("input_json_delta", "partial_json", raw[len(raw)/2:])
		}
		out = append(out, event("content_block_start",
			fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, start)))
		for _, d := range deltas {
			out = append(out, event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i,
				d)))
		}
		out = append(out, event("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i)))
	}
	return append(out,
		event("message_delta",
			fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d}}`,
				s.reason(), 10*n)),
		event("message_stop", `{"type":"message_stop"}`))
}

// write answers by a stream or a message, as the request asks.
func (s said) write(w http.ResponseWriter, stream bool, n int) {
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range s.events(n) {
			_, _ = io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w,
		`{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-4-6","content":[%s],"stop_reason":%q,`+
			`"usage":{"input_tokens":%d,"cache_creation_input_tokens":40,"cache_read_input_tokens":1000,"output_tokens":%d}}`,
		n, strings.Join(s, ","), s.reason(), n, 10*n)
}

// got is a message as the client put it together.
type got struct {
	id, reason, err string
	blocks          []string
	usage           gjson.Result
	ended           int
}

// assemble reads a stream as a strict client does.
func assemble(t *testing.T, stream string) (g got) {
	t.Helper()
	starts := 0
	for e := range strings.SplitSeq(stream, "\n\n") {
		_, data, ok := strings.Cut(e, "data: ")
		if !ok {
			continue
		}
		root := gjson.Parse(data)
		index := int(root.Get("index").Int())
		switch root.Get("type").Str {
		case "message_start":
			starts++
			g.id = root.Get("message.id").Str
		case "content_block_start":
			if index != len(g.blocks) {
				t.Fatalf("block %d follows %d", index, len(g.blocks))
			}
			g.blocks = append(g.blocks, root.Get("content_block.type").Str+":"+root.Get("content_block.name").Str)
		case "content_block_delta":
			if index != len(g.blocks)-1 {
				t.Fatalf("delta of block %d in %d", index, len(g.blocks)-1)
			}
			d := root.Get("delta")
			g.blocks[index] += d.Get("text").Str + d.Get("thinking").Str + d.Get("partial_json").Str + d.Get("signature").Str
		case "message_delta":
			g.reason, g.usage = root.Get("delta.stop_reason").Str, root.Get("usage")
		case "message_stop":
			g.ended++
		case "error":
			g.err = root.Get("error.type").Str + ": " + root.Get("error.message").Str
		}
	}
	if starts != 1 {
		t.Fatalf("%d messages begin", starts)
	}
	return g
}

var stubName = regexp.MustCompile(`\[\[llm_cache:folded ([0-9a-f]{8}): Read /src/file0\.go`)

// folding runs a conversation up to a request with stubs in it, whose answers
// the test gives, one for each request that the upstream gets.
func folding(
	t *testing.T, stream bool, answers func(name string, n int, r *http.Request) said, headers ...string,
) (*proxy, *upstream) {
	t.Helper()
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		body := u.requests()[n-1].body
		streams := gjson.Get(body, "stream").Bool()
		if n == 1 {
			said{sayText("Unrelated.")}.write(w, streams, n)
			return
		}
		name := ""
		if m := stubName.FindStringSubmatch(body); m != nil {
			name = m[1]
		}
		if s := answers(name, n-1, r); s != nil {
			s.write(w, streams, n-1)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(529)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	})
	p := start(t, pruning(u))
	read(t, p.post("/v1/messages", agent(4, stream), headers...))
	return p, u
}

var fileZero = strings.Repeat("line of file 0: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", 40)
