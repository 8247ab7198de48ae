// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// fleetTalk is a recorded conversation.
type fleetTalk struct {
	name     string
	named    bool // the client sends a session id
	streamed bool
	calls    [][]json.RawMessage // the messages that each call adds
}

// recordedTalks reads recorded conversations, the longest first, up to numbers of conversations and
// of calls in each.
func recordedTalks(t *testing.T, most, calls int) (talks []*fleetTalk) {
	t.Helper()
	for i, file := range testkit.RecordingFiles(t) {
		talk := readTalk(t, file)
		talk.named, talk.streamed = i%2 == 0, i%3 == 0
		talk.calls = talk.calls[:min(len(talk.calls), calls)]
		talks = append(talks, talk)
	}
	slices.SortStableFunc(talks, func(a, b *fleetTalk) int { return len(b.calls) - len(a.calls) })
	return talks[:min(len(talks), most)]
}

func readTalk(t *testing.T, file string) *fleetTalk {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	z, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 64<<20)
	lines.Scan() // the header
	talk := &fleetTalk{name: strings.TrimSuffix(filepath.Base(file), ".jsonl.gz")}
	for lines.Scan() {
		var call struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		talk.calls = append(talk.calls, call.Messages)
	}
	return talk
}

// body returns the request of a call.
func (k *fleetTalk) body(call int) []byte {
	b := fmt.Appendf(nil,
		`{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":%t,"system":[{"type":"text","text":"You are an agent `+
			`that works on a repository.","cache_control":{"type":"ephemeral"}}],`+
			`"tools":[{"name":"Read","input_schema":{"type":"object"}},{"name":"Bash","input_schema":{"type":"object"}}],`+
			`"cache_control":{"type":"ephemeral"},"messages":[`, k.streamed)
	for i, messages := range k.calls[:call+1] {
		for j, m := range messages {
			if i+j > 0 {
				b = append(b, ',')
			}
			b = append(b, m...)
		}
	}
	return append(b, "]}"...)
}

// Headers that identify the call for the model.
const (
	headerTalk = "X-Fleet-Talk"
	headerCall = "X-Fleet-Call"
)

// fleetModel answers like the recordings, stores the requests, and computes the tokens that a cache
// would have held.
type fleetModel struct {
	addr  string
	talks map[string]*fleetTalk

	mu     sync.Mutex
	bodies map[string][][][]byte // by conversation and call
}

func startModel(t *testing.T, talks []*fleetTalk) *fleetModel {
	m := &fleetModel{talks: map[string]*fleetTalk{}, bodies: map[string][][][]byte{}}
	for _, k := range talks {
		m.add(k)
	}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	m.addr = s.Listener.Addr().String()
	return m
}

// add adds a conversation to the model.
func (m *fleetModel) add(k *fleetTalk) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.talks[k.name] = k
	m.bodies[k.name] = make([][][]byte, len(k.calls))
}

// chatter returns the messages that a call of an invented conversation adds.
func chatter(call int) []json.RawMessage {
	user := json.RawMessage(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"Question %d."}]}`, call))
	if call == 0 {
		return []json.RawMessage{user}
	}
	return []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"Answer `+
		`%d."}]}`, call)), user}
}

// of returns the bodies of a call, several after retries.
func (m *fleetModel) of(k *fleetTalk, call int) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bodies[k.name][call]
}

// usage returns the usage of a prompt after the previous one, which is fully cached: a token is
// four bytes. Retries do not affect it.
func usage(before, body []byte) (read, written int) {
	i := 0
	for i < min(len(before), len(body)) && before[i] == body[i] {
		i++
	}
	return i / 4, (len(body) - i) / 4
}

// cost returns the cost of all prompts, in units of one uncached token.
func (m *fleetModel) cost() (sum float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, calls := range m.bodies {
		for i := range calls {
			var before []byte
			if i > 0 {
				before = calls[i-1][0]
			}
			read, written := usage(before, calls[i][0])
			sum += float64(read)*0.1 + float64(written)*1.25
		}
	}
	return sum
}

func (m *fleetModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the node was killed
	}
	name := r.Header.Get(headerTalk)
	call, _ := strconv.Atoi(r.Header.Get(headerCall))
	m.mu.Lock()
	talk := m.talks[name]
	calls := m.bodies[name]
	calls[call] = append(calls[call], body)
	var before []byte
	if call > 0 {
		before = calls[call-1][0]
	}
	m.mu.Unlock()
	read, written := usage(before, body)
	content := json.RawMessage(`[{"type":"text","text":"Done."}]`)
	if call+1 < len(talk.calls) {
		var m struct {
			Content json.RawMessage `json:"content"`
		}
		if json.Unmarshal(talk.calls[call+1][0], &m) == nil && bytes.HasPrefix(m.Content, []byte("[")) {
			content = m.Content
		}
	}
	message := func(content, stop string) string {
		return fmt.Sprintf(`{"id":"msg_%s_%d","type":"message","role":"assistant","model":"claude-sonnet-4-5",`+
			`"content":%s,"stop_reason":%s,"stop_sequence":null,`+
			`"usage":{"input_tokens":3,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d,"output_tokens":%d}}`, name,
			call, content, stop, read, written, len(content)/4)
	}
	if !talk.streamed {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, message(string(content), `"tool_use"`))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprintf(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":%s}\n\n", message("[]", "null"))
	_ = http.NewResponseController(w).Flush()
	var blocks []map[string]json.RawMessage
	_ = json.Unmarshal(content, &blocks)
	for i, b := range blocks {
		delta := ""
		switch string(b["type"]) {
		case `"text"`:
			delta = fmt.Sprintf(`{"type":"text_delta","text":%s}`, b["text"])
			b["text"] = json.RawMessage(`""`)
		case `"thinking"`:
			delta = fmt.Sprintf(`{"type":"thinking_delta","thinking":%s}`, b["thinking"])
			b["thinking"] = json.RawMessage(`""`)
		case `"tool_use"`:
			input, _ := json.Marshal(string(b["input"]))
			delta = fmt.Sprintf(`{"type":"input_json_delta","partial_json":%s}`, input)
			b["input"] = json.RawMessage(`{}`)
		}
		start, _ := json.Marshal(b)
		fmt.Fprintf(w,
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":%d,\"content_block\":%s}\n\n", i,
			start)
		fmt.Fprintf(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":%d,\"delta\":%s}\n\n",
			i, delta)
		fmt.Fprintf(w, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":%d}\n\n", i)
	}
	fmt.Fprintf(w,
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\","+
			"\"stop_sequence\":null},\"usage\":{\"output_tokens\":%d}}\n\n", len(content)/4)
	fmt.Fprint(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
}
