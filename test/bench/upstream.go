// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/conversation"
)

// Headers with the client's instructions for the upstream. Both are this process, and the response
// is the one that the client's next request sends back.
const (
	headerTape   = "X-Bench-Tape"
	headerTurns  = "X-Bench-Turns"
	headerLength = "X-Bench-Length"
	headerStream = "X-Bench-Stream"
	headerStatus = "X-Bench-Status"
	headerRate   = "X-Bench-Rate"  // events a second of a crowd's stream
	headerProof  = "X-Bench-Proof" // stores the request for arrived
)

// upstream is a model that responds at once.
type upstream struct {
	addr   string
	server *http.Server

	mu    sync.RWMutex
	tapes []*reel
	last  arrival
}

// arrival is a request as it reached the model.
type arrival struct {
	path string
	body []byte
}

// reel is a tape with its shape.
type reel struct {
	*conversation.Tape
	shape  conversation.Shape
	retold sync.Map // *remark, by turns
}

func newUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	u := &upstream{addr: l.Addr().String()}
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: 10 * time.Second}
	go u.server.Serve(l) //nolint:errcheck // ends with close
	return u, nil
}

func (u *upstream) close() { _ = u.server.Close() }

// add registers a tape and returns its value of headerTape.
func (u *upstream) add(t *conversation.Tape, shape conversation.Shape) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tapes = append(u.tapes, &reel{Tape: t, shape: shape})
	return strconv.Itoa(len(u.tapes) - 1)
}

// arrived returns the last request with headerProof.
func (u *upstream) arrived() arrival {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.last
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(headerProof) != "" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has left
		}
		u.mu.Lock()
		u.last = arrival{r.URL.Path, body}
		u.mu.Unlock()
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // the client has left
	}
	if status, err := strconv.Atoi(r.Header.Get(headerStatus)); err == nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
		return
	}
	switch r.Header.Get(headerStream) {
	case headerClocked, headerClockedCall:
		clockedStream(w, r.Header.Get(headerStream) == headerClockedCall)
		return
	case "crowd":
		crowdStream(w, r)
		return
	}
	tape, _ := strconv.Atoi(r.Header.Get(headerTape))
	turns, _ := strconv.Atoi(r.Header.Get(headerTurns))
	length, _ := strconv.Atoi(r.Header.Get(headerLength))
	u.mu.RLock()
	t := u.tapes[tape]
	u.mu.RUnlock()
	if t.shape == conversation.Chat && r.URL.Path == conversation.Claude.Path() {
		t.retell(w, turns, length) // the request was translated
		return
	}
	stream := r.Header.Get(headerStream) == "true"
	w.Header().Set("Content-Type", "application/json")
	if stream {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	_, _ = w.Write(t.Answer(turns, length, stream))
}

// Clocked streams, by headerStream, and their events.
const (
	headerClocked     = "clocked"
	headerClockedCall = "clocked-call"

	clockedEvents = 200
	clockedGap    = 4 * time.Millisecond
	clockedMark   = `"text":"sent at `
)

// clockedStream sends events with timestamps, of a text or of a call.
func clockedStream(w http.ResponseWriter, call bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w).Flush
	block, before, after, reason := `{"type":"text","text":""}`, `{"type":"text_delta",`+clockedMark,
		strings.Repeat("word ", 8), "end_turn"
	if call {
		block = `{"type":"tool_use","id":"toolu_1","name":"Write","input":{}}`
		before, after, reason = `{"type":"input_json_delta","partial_json":"sent at `,
			`rows[i] = append(rows[i], cells[j]) // [see below] `, "tool_use"
	}
	fmt.Fprint(w,
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\","+
			"\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n"+
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"+block+"}\n\n")
	if call {
		fmt.Fprint(w,
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"+
				"\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"content\\\":\\\"\"}}\n\n")
	}
	for range clockedEvents {
		time.Sleep(clockedGap)
		fmt.Fprintf(w,
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":%s%d %s\"}}\n\n", before,
			time.Now().UnixNano(), after)
		if flush() != nil {
			return
		}
	}
	if call {
		fmt.Fprint(w,
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"+
				"\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\\\"}\"}}\n\n")
	}
	fmt.Fprintf(w, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":%q,\"stop_sequence\":null},"+
		"\"usage\":{\"output_tokens\":200}}\n\n"+
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", reason)
}
