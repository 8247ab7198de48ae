// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	_ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// serving starts a server with answers that repeat their input as text.
func serving(t *testing.T, s *Server, by Serve) (dial func() *websocket.Conn) {
	t.Helper()
	var ids sync.Mutex
	n := 0
	if by == nil {
		by = func(w http.ResponseWriter, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			ids.Lock()
			n++
			id := n
			ids.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w,
				"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\",\"input\":%s,"+
					"\"output\":[{\"type\":\"custom_tool_call\",\"status\":\"completed\",\"call_id\":\"c%d\"}]}}\n\n", id,
				gjson.GetBytes(body, "input").Raw, id)
			return nil
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Accept(w, r, by) }))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return func() *websocket.Conn {
		ws, res, err := websocket.Dial(ctx, srv.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body != nil {
			_ = res.Body.Close()
		}
		ws.SetReadLimit(-1)
		t.Cleanup(func() { _ = ws.CloseNow() })
		return ws
	}
}

func exchange(t *testing.T, ws *websocket.Conn, message string) gjson.Result {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	_, b, err := ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return gjson.ParseBytes(b)
}

func message(previous, text string) string {
	return `{"type":"response.create","store":false,"previous_response_id":"` + previous +
		`","input":[{"role":"user","content":"` + text + `"}]}`
}

// TestWhole: the earlier items stand before the new ones, byte for byte, and the answer in the form
// of an input.
func TestWhole(t *testing.T) {
	s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20)}
	ws := serving(t, s, nil)()
	first := exchange(t, ws, message("", "one"))
	second := exchange(t, ws, message(first.Get("response.id").Str, "two"))
	want := `[{"role":"user","content":"one"},{"type":"custom_tool_call","call_id":"c1"},{"role":"user","content":"two"}]`
	if got := second.Get("response.input").Raw; got != want {
		t.Errorf("the input is %s, want %s", got, want)
	}
	if s.Kept.Bytes() == 0 {
		t.Error("nothing is kept")
	}
	if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	for range 1000 {
		if s.Kept.Bytes() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d bytes are kept of a connection that is closed", s.Kept.Bytes())
}

// TestMemory: the connection with the most memory loses answers first, and its client is told to
// send the whole conversation.
func TestMemory(t *testing.T) {
	s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(8 << 10)}
	dial := serving(t, s, nil)
	small, large := dial(), dial()
	kept := exchange(t, small, message("", "one"))
	lost := exchange(t, large, message("", strings.Repeat("x", 10<<10)))
	if e := exchange(t, large, message(lost.Get("response.id").Str,
		"two")); e.Get("error.code").Str != "previous_response_not_found" {
		t.Errorf("the large one goes on by %.200s", e.Raw)
	}
	if e := exchange(t, small, message(kept.Get("response.id").Str, "two")); e.Get("type").Str != "response.completed" {
		t.Errorf("the small one goes on by %.200s", e.Raw)
	}
	if n := s.Kept.Bytes(); n > 8<<10 {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestForget: a deleted answer cannot be continued, nor can its continuations, even one in
// progress. Other connections keep their answers.
func TestForget(t *testing.T) {
	n, deletes := 0, false
	s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20)}
	forget := func(id, whose string) bool {
		return s.Kept.Forget(id, func(r *http.Request) bool { return whose == "all" })
	}
	ws := serving(t, s, func(w http.ResponseWriter, _ *http.Request) error {
		if n++; deletes && !forget(fmt.Sprint("resp_", n-1), "all") {
			t.Error("what is gone on from is not kept")
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := fmt.Fprintf(w,
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\",\"output\":[]}}\n\n", n)
		return err
	})()
	missing := func(e gjson.Result) bool { return e.Get("error.code").Str == "previous_response_not_found" }
	exchange(t, ws, message("", "one"))
	if forget("resp_1", "nobody's") || forget("resp_2", "all") {
		t.Error("what is another's was deleted")
	}
	exchange(t, ws, message("resp_1", "two"))
	exchange(t, ws, message("resp_2", "three"))
	if !forget("resp_1", "all") {
		t.Error("it is kept in what went on from it")
	}
	if e := exchange(t, ws, message("resp_3", "four")); !missing(e) {
		t.Errorf("what went on from it is kept: %s", e)
	}
	exchange(t, ws, message("", "anew"))
	deletes = true
	if e := exchange(t, ws, message("resp_4", "five")); e.Get("response.id").Str != "resp_5" {
		t.Errorf("what was on its way is %s", e)
	}
	if e := exchange(t, ws, message("resp_5", "six")); !missing(e) {
		t.Errorf("what was on its way is kept: %s", e)
	}
	if n := s.Kept.Bytes(); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestForgetSession: a response of a forgotten session cannot be continued; those of other sessions can.
func TestForgetSession(t *testing.T) {
	s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20)}
	n := 0
	dial := serving(t, s, func(w http.ResponseWriter, r *http.Request) error {
		n++
		session := fmt.Sprint("session ", n)
		InSession(r.Context(), func() string { return session })
		w.Header().Set("Content-Type", "text/event-stream")
		_, err := fmt.Fprintf(w,
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\",\"output\":[]}}\n\n", n)
		return err
	})
	one, other := dial(), dial()
	exchange(t, one, message("", "one"))
	exchange(t, other, message("", "one"))
	s.Kept.forgetSession("session 1")
	if e := exchange(t, one, message("resp_1", "two")); e.Get("error.code").Str != "previous_response_not_found" {
		t.Errorf("a forgotten session goes on by %s", e)
	}
	if e := exchange(t, other, message("resp_2", "two")); e.Get("response.id").Str != "resp_3" {
		t.Errorf("another session goes on by %s", e)
	}
}

// TestClose: the end of a configuration does not wait for clients.
func TestClose(t *testing.T) {
	s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20)}
	dial := serving(t, s, nil)
	for range 4 { // the clients never read, so they never answer the close
		_ = dial()
	}
	for range 1000 {
		if s.Connections() == 4 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Close()
	if n := s.Connections(); n == 0 {
		t.Error("it has waited until the last of them was closed")
	}
	late := dial()
	if _, _, err := late.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("who comes late is told %v", err)
	}
}

// TestPanic: a panic ends only its connection.
func TestPanic(t *testing.T) {
	s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20), Background: func(_ string, f func()) (ended bool) {
		defer func() { _ = recover() }()
		f()
		return true
	}}
	ws := serving(t, s, func(http.ResponseWriter, *http.Request) error { panic("of a test") })()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(message("", "go"))); err != nil {
		t.Fatal(err)
	}
	if _, b, err := ws.Read(t.Context()); err == nil {
		t.Errorf("the client is told %s", b)
	}
}

// TestEvents: every event of a lane names the lane.
func TestEvents(t *testing.T) {
	for in, want := range map[string]string{`{}`: `{"stream_id":"a"}`, `{ "type":"x"}`: `{"stream_id":"a","type":"x"}`} {
		if got := string(tagged([]byte(in), "a")); got != want {
			t.Errorf("%s became %s", in, got)
		}
	}
}

// TestAnswerIsKeptBeforeItIsTold: once a client has an answer's last event, any lane may continue
// the answer, however long the request still takes to end.
func TestAnswerIsKeptBeforeItIsTold(t *testing.T) {
	forked := make(chan struct{})
	ws := serving(t, &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20)},
		func(w http.ResponseWriter, r *http.Request) error {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			id, last := "resp_1", strings.Contains(string(body), "fork")
			if last {
				id = "resp_2"
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data: {\"type\":\"response.completed\",\"response\":{\"id\":%q,\"output\":[]}}\n\n", id)
			if last {
				return nil
			}
			select {
			case <-forked:
			case <-r.Context().Done():
			}
			return nil
		})()
	first := exchange(t, ws, `{"type":"response.create","model":"m","stream_id":"a","input":"go"}`)
	if first.Get("response.id").Str != "resp_1" {
		t.Fatalf("the first answer is %s", first)
	}
	fork := exchange(t, ws,
		`{"type":"response.create","model":"m","stream_id":"b","previous_response_id":"resp_1","input":"fork"}`)
	close(forked)
	if fork.Get("response.id").Str != "resp_2" {
		t.Errorf("the fork got %s", fork)
	}
}

// TestStreamedErrors: an error amid a stream arrives in the form for WebSockets, with the status
// that clients read.
func TestStreamedErrors(t *testing.T) {
	events := make(chan string, 1)
	read := func(event []byte) (int, []byte) {
		return translate.ReadFailure(wire.OpenAIResponses, 0, event).Write(wire.OpenAIResponses)
	}
	ws := serving(t, &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20), Failure: read},
		func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/event-stream")
			_, err := fmt.Fprintf(w, "event: error\ndata: %s\n\n", <-events)
			return err
		})()
	for sent, want := range map[string]string{
		`{"type":"error","code":"rate_limit_exceeded","message":"Slow down.","param":null,"sequence_number":3}`: `429 rate_limit_exceeded Slow down.`,
		`{"type":"error","code":"invalid_prompt","message":"No.","param":null}`:                                 `400 invalid_prompt No.`,
		`{"type":"error","error":{"type":"server_error","code":null,"message":"Broken."}}`:                      `500  Broken.`,
		`{"type":"error","status":418,"error":{"code":"teapot","message":"Tea."}}`:                              `418 teapot Tea.`,
	} {
		events <- sent
		e := exchange(t, ws, `{"type":"response.create","model":"m","stream_id":"a","input":"go"}`)
		got := fmt.Sprint(e.Get("status"), " ", e.Get("error.code").Str, " ", e.Get("error.message").Str)
		if e.Get("type").Str != "error" || e.Get("stream_id").Str != "a" || got != want {
			t.Errorf("the client is told %s, want %s", e, want)
		}
	}
}

// TestReasoningElsewhere: a provider that stores nothing refuses reasoning without its content. So
// a continuation leaves out that reasoning, and the ids that refer to it.
func TestReasoningElsewhere(t *testing.T) {
	const (
		bare   = `{"type":"reasoning","id":"rs_1","summary":[]}`
		sealed = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}`
		call   = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{}"}`
	)
	for name, test := range map[string]struct {
		behind          bool
		store, reasoned string
		want            string
	}{
		"kept nowhere": {
			true, "false", bare,
			`{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}`,
		},
		"encrypted":                   {true, "false", sealed, sealed + "," + call},
		"kept by the provider":        {true, "true", bare, bare + "," + call},
		"of a server that needs none": {false, "false", bare, bare + "," + call},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20), Behind: test.behind}
			ws := serving(t, s, func(w http.ResponseWriter, r *http.Request) error {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, err = fmt.Fprintf(w,
					"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"input\":%s,\"output\":[%s,%s]}}\n\n",
					gjson.GetBytes(body, "input").Raw, test.reasoned, call)
				return err
			})()
			exchange(t, ws, `{"type":"response.create","store":`+test.store+`,"input":[]}`)
			const result = `{"type":"function_call_output","call_id":"c1","output":"1"}`
			second := exchange(t, ws, `{"type":"response.create","store":`+test.store+
				`,"previous_response_id":"resp_1","input":[`+result+`]}`)
			if got, want := second.Get("response.input").Raw, "["+test.want+","+result+"]"; got != want {
				t.Errorf("the input is %s, want %s", got, want)
			}
		})
	}
}

// TestWholeAnswers: an answer in one piece ends with its status, and a failed answer cannot be
// continued.
func TestWholeAnswers(t *testing.T) {
	statuses := make(chan string, 1)
	ws := serving(t, &Server{MaxMessage: 1 << 20, Kept: NewMemory(1 << 20)},
		func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := fmt.Fprintf(w, `{"id":"resp_1","object":"response","status":%q,"output":[]}`, <-statuses)
			return err
		})()
	for _, status := range []string{"failed", "completed", "incomplete"} {
		statuses <- status
		if e := exchange(t, ws,
			`{"type":"response.create","model":"m","store":false,"input":"go"}`); e.Get("type").Str != "response."+status {
			t.Errorf("an answer that is %s ends by %s", status, e)
		}
		statuses <- "completed"
		e := exchange(t, ws, message("resp_1", "on"))
		if found := e.Get("type").Str == "response.completed"; found == (status == "failed") {
			t.Errorf("from an answer that is %s it goes on by %s", status, e)
		}
		select {
		case <-statuses: // no request was sent
		default:
		}
	}
}
