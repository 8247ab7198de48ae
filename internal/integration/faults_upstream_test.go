// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// faultyMessages writes Messages, as far as the matrix of faults needs them.
var faultyMessages = tongue{
	wire.Anthropic,
	func(bool) string { return "/v1/messages" },
	func(history []remark, stream bool) string {
		body := conversation(len(history)/2, stream)
		return strings.Replace(body, `"system":`,
			fmt.Sprintf(`"tools":[{"name":"Read","description":%q,"input_schema":{"type":"object"}},{"name":"Write",`+
				`"input_schema":{"type":"object"}}],"system":`, longTool), 1)
	},
	func(w http.ResponseWriter, _ []piece, stream bool, _ int) {
		if !stream {
			call := `,{"type":"tool_use","id":"toolu_x","name":"Read","input":{"file_path":"/a"}}],"stop_reason":"tool_use"`
			whole(w, strings.Replace(message, `],"stop_reason":"end_turn"`, call, 1))
			return
		}
		var data []string
		for i, e := range events {
			_, d, _ := strings.Cut(strings.TrimSpace(e), "data: ")
			if i == 4 {
				data = append(data,
					`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_x","name":"Read",`+
						`"input":{}}}`,
					`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"file_path\":"}}`,
					`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"/a\"}"}}`,
					`{"type":"content_block_stop","index":1}`)
				d = strings.Replace(d, "end_turn", "tool_use", 1)
			}
			data = append(data, d)
		}
		eventsOf(w, true, data...)
	},
}

var faultTongues = []tongue{faultyMessages, chatTongue, responsesTongue, geminiTongue, interactionsTongue}

func tongueOf(f wire.Format) tongue {
	for _, g := range faultTongues {
		if g.format == f {
			return g
		}
	}
	panic(f)
}

// sample is a good answer of a format, of which a fault makes a bad one.
type sample struct {
	format wire.Format
	stream bool
	body   string
	events []string // with their blank lines
	failed string   // an error of the format
}

func sampleOf(f wire.Format, stream bool) sample {
	rec := httptest.NewRecorder()
	tongueOf(f).answer(rec, []piece{text("Done."), called("call_x", `Read {"file_path":"/a"}`)}, stream, 1)
	s := sample{
		format: f, stream: stream, body: rec.Body.String(),
		failed: `{"error":{"message":"bad tool_use","type":"invalid_request_error","code":400,"status":"INVALID_ARGUMENT"}}`,
	}
	switch f {
	case wire.Interactions:
		s.failed = `{"error":{"message":"bad tool_use","code":"invalid_request"}}`
	case wire.Anthropic:
		s.failed = `{"type":"error","error":{"type":"invalid_request_error","message":"bad tool_use"}}`
	}
	if stream {
		s.events = strings.SplitAfter(s.body, "\n\n")
		s.events = s.events[:len(s.events)-1]
	}
	return s
}

// kind is the Content-Type of a good answer.
func (s sample) kind() string {
	if s.stream {
		return "text/event-stream"
	}
	return "application/json"
}

// script is what an upstream writes to its connection, piece by piece, before it
// closes it.
type script struct {
	pieces []string
	pause  time.Duration // between them
	reset  bool          // the connection is reset, not closed
}

// head is a status line with headers.
func head(status string, headers ...string) string {
	return "HTTP/1.1 " + status + "\r\n" + strings.Join(append(headers, "", ""), "\r\n")
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// chunked is an answer of a status in chunks; more headers may be given.
func chunked(status, kind string, parts []string, headers ...string) script {
	if kind != "" {
		headers = append(headers, "Content-Type: "+kind)
	}
	out := script{pieces: []string{head(status, append(headers, "Transfer-Encoding: chunked")...)}}
	for _, p := range parts {
		if p != "" {
			out.pieces = append(out.pieces, chunk(p))
		}
	}
	out.pieces = append(out.pieces, "0\r\n\r\n")
	return out
}

// sized is an answer of known length.
func sized(status, kind, body string, headers ...string) script {
	if kind != "" {
		headers = append(headers, "Content-Type: "+kind)
	}
	return script{pieces: []string{head(status, append(headers, fmt.Sprintf("Content-Length: %d", len(body)))...) + body}}
}

// good is the answer as a server gives it that has no faults.
func (s sample) good(parts ...string) script {
	if parts == nil {
		parts = []string{s.body}
		if s.stream {
			parts = s.events
		}
	}
	if s.stream {
		return chunked("200 OK", s.kind(), parts)
	}
	return sized("200 OK", s.kind(), strings.Join(parts, ""))
}

// faulty is an upstream that answers by the script that a request asks for.
type faulty struct {
	net.Listener
	faults   map[string]fault
	expanded [5]atomic.Int64 // requests with a folded result and the tool for it
}

func newFaulty(t *testing.T, faults []fault) *faulty {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &faulty{Listener: l, faults: map[string]fault{}}
	for _, f := range faults {
		u.faults[f.name] = f
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return u
}

func (u *faulty) serve(c *net.TCPConn) {
	defer c.Close()
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	body, err := io.ReadAll(r.Body)
	format, ok := wire.Detect(r.Method, r.URL.Path)
	if err != nil || !ok {
		return
	}
	stream := gjson.GetBytes(body, "stream").Bool() || strings.Contains(r.URL.Path, ":stream")
	s := sampleOf(format, stream)
	if bytes.Contains(body, []byte("[llm_cache:")) && bytes.Contains(body, []byte("mcp__llm_cache__expand")) {
		for i, g := range faultTongues {
			if g.format == format {
				u.expanded[i].Add(1)
			}
		}
	}
	does := s.good()
	if f, ok := u.faults[r.Header.Get("X-Fault")]; ok {
		does = f.script(s)
	}
	for i, p := range does.pieces {
		if i > 0 && does.pause > 0 {
			time.Sleep(does.pause)
		}
		if _, err := io.WriteString(c, p); err != nil {
			return
		}
	}
	if does.reset {
		_ = c.SetLinger(0)
	}
}
