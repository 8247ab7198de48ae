// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// maxWhole bounds an answer that is no stream, in bytes.
const maxWhole = 32 << 20

// answer is the response writer of a POST. It sends the events to the client as messages.
type answer struct {
	conn     *conn
	lane     string
	header   http.Header
	status   int
	events   framing.SSEFramer
	stream   bool
	buffered []byte // of an answer that is no stream
	err      error  // of writing to the client

	id      string        // of the answer
	session func() string // see InSession, nil without one
	output  [][]byte
	over    bool // the answer has come to its end
	failed  bool // and cannot be continued
	// ended is called before the client gets the end: another lane may continue the answer at once.
	ended func()
}

func newAnswer(c *conn, lane string) *answer {
	return &answer{conn: c, lane: lane, header: make(http.Header)}
}

// Header implements [http.ResponseWriter].
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if a.status != 0 || status < http.StatusOK {
		return
	}
	a.status = status
	a.stream = status/100 == 2 && strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream")
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if !a.stream {
		if len(a.buffered)+len(p) <= maxWhole {
			a.buffered = append(a.buffered, p...)
		}
		return len(p), nil
	}
	a.events.Feed(p, a.take)
	return len(p), a.err
}

// Flush implements [http.Flusher]: each event is sent as it comes.
func (a *answer) Flush() {}

// FlushError is Flush for [http.ResponseController].
func (a *answer) FlushError() error { return a.err }

func (a *answer) take(e framing.Event) {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 || data[0] != '{' || a.err != nil || a.over {
		return
	}
	a.look(data)
	if read := a.conn.server.Failure; read != nil && gjson.GetBytes(data, "type").Str == "error" &&
		!gjson.GetBytes(data, "status").Exists() {
		status, body := read(data)
		a.tell(answered(status, http.Header{}, body))
		return
	}
	a.err = a.conn.send(tagged(data, a.lane))
}

// look records the answer's id, output and end.
func (a *answer) look(data []byte) {
	switch kind := gjson.GetBytes(data, "type").Str; kind {
	case "response.created":
		a.id = gjson.GetBytes(data, "response.id").Str
	case "response.output_item.done":
		a.output = append(a.output, asInput(gjson.GetBytes(data, "item")))
	case "response.completed", "response.incomplete":
		a.finish(gjson.GetBytes(data, "response"))
	case "response.failed", "error":
		a.conclude(true)
	}
}

// finish records the end of an answer.
func (a *answer) finish(object gjson.Result) {
	if id := object.Get("id").Str; id != "" {
		a.id = id
	}
	// The final output is authoritative where the event has it.
	if output := object.Get("output").Array(); len(output) > 0 {
		a.output = a.output[:0]
		for _, item := range output {
			a.output = append(a.output, asInput(item))
		}
	}
	a.conclude(a.id == "" || object.Get("status").Str == "failed")
}

func (a *answer) conclude(failed bool) {
	if a.over {
		return
	}
	if a.over, a.failed = true, failed; a.ended != nil {
		a.ended()
	}
}

// asInput converts an item of an answer to one of a request.
func asInput(item gjson.Result) []byte {
	raw := []byte(item.Raw)
	// A custom tool call has no status in requests. All else is the same.
	if item.Get("type").Str != "custom_tool_call" {
		return raw
	}
	if out, err := wire.Patch(raw, wire.Member{Name: "status"}); err == nil {
		return out
	}
	return raw
}

func tagged(event []byte, lane string) []byte {
	if lane == "" {
		return event
	}
	out := make([]byte, 0, len(event)+len(lane)+16)
	out = append(append(append(out, `{"stream_id":"`...), lane...), `",`...)
	rest := bytes.TrimSpace(event[1:])
	if len(rest) > 0 && rest[0] == '}' { // an object without members
		out = out[:len(out)-1]
	}
	return append(out, rest...)
}

// end sends the events of a response in one piece, and reports whether the client has got an end.
func (a *answer) end() bool {
	if a.stream {
		a.events.End(a.take)
		return a.over
	}
	switch {
	case a.status == 0:
		return false
	case a.status/100 != 2:
		a.tell(answered(a.status, a.header, a.buffered))
		return true
	}
	object := gjson.ParseBytes(a.buffered)
	if !rawjson.ValidBytes(a.buffered) || !object.IsObject() {
		return false
	}
	a.finish(object)
	for i, item := range a.output {
		a.say(map[string]any{"type": "response.output_item.done", "output_index": i, "item": json.RawMessage(item)})
	}
	status := object.Get("status").Str
	if status != "failed" && status != "incomplete" {
		status = "completed"
	}
	a.say(map[string]any{"type": "response." + status, "response": json.RawMessage(object.Raw)})
	return true
}

func (a *answer) tell(f *failure) {
	a.conclude(true)
	f.lane = a.lane
	if a.err == nil {
		a.err = a.conn.send(f.event())
	}
}

func (a *answer) say(event map[string]any) {
	b, err := json.Marshal(event)
	if err != nil {
		panic(err) // its parts are JSON already
	}
	if a.err == nil {
		a.err = a.conn.send(tagged(b, a.lane))
	}
}
