// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

// socket is a client that speaks the Responses API over a WebSocket.
type socket struct {
	t  *testing.T
	ws *websocket.Conn
}

func (p *proxy) socket(t *testing.T, headers ...string) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	h := http.Header{"Openai-Beta": {"responses_websockets=2026-02-06, other-1"}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	ws, res, err := websocket.Dial(ctx, "ws://"+p.addr+"/v1/responses",
		&websocket.DialOptions{HTTPHeader: h, Host: p.host})
	if err != nil {
		t.Fatal(err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &socket{t, ws}
}

func (s *socket) send(message string) {
	s.t.Helper()
	if err := s.ws.Write(s.t.Context(), websocket.MessageText, []byte(message)); err != nil {
		s.t.Fatal(err)
	}
}

// end is the event that ends an answer, all its events, and why there is none.
func (s *socket) end() (last gjson.Result, kinds []string, err error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	for {
		_, b, err := s.ws.Read(ctx)
		if err != nil {
			return last, kinds, err
		}
		last = gjson.ParseBytes(b)
		kinds = append(kinds, last.Get("type").Str)
		if slices.Contains([]string{"response.completed", "response.incomplete", "response.failed", "error"},
			kinds[len(kinds)-1]) {
			return last, kinds, nil
		}
	}
}

// ask sends a request and wants it answered.
func (s *socket) ask(message string) gjson.Result {
	s.t.Helper()
	s.send(message)
	e, _, err := s.end()
	if err != nil || e.Get("type").Str != "response.completed" {
		s.t.Fatalf("the answer ends by %s, %v", e, err)
	}
	return e
}

// refused sends a request and wants it refused.
func (s *socket) refused(message, code string, status int64) gjson.Result {
	s.t.Helper()
	s.send(message)
	e, _, err := s.end()
	if err != nil || e.Get("type").Str != "error" || e.Get("error.code").Str != code || e.Get("status").Int() != status {
		s.t.Fatalf("the answer ends by %s, %v; want %d %s", e, err, status, code)
	}
	return e
}

// socketCreate is a response.create: more are members, input the JSON of the input.
func socketCreate(more, input string) string {
	return `{"type":"response.create","model":"gpt-6-astra","store":false,"instructions":"You are an agent.",` + more +
		`"input":` + input + `}`
}

func socketUser(text string) string {
	return `{"type":"message","role":"user","content":[{"type":"input_text","text":"` + text + `"}]}`
}

func socketPrevious(e gjson.Result) string {
	return `"previous_response_id":"` + e.Get("response.id").Str + `",`
}

// socketHistory are items of tool turns that eager folds.
func socketHistory(turns int) string {
	var b strings.Builder
	b.WriteString(socketUser("Fix the build."))
	for i := range turns {
		fmt.Fprintf(&b,
			`,{"type":"function_call","call_id":"call_%d","name":"Read","arguments":"{\"file_path\":\"/src/file%d.go\"}"}`, i, i)
		fmt.Fprintf(&b, `,{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, i,
			strings.Repeat(fmt.Sprintf("line of file %d: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n", i), 40))
	}
	return b.String()
}

const socketEagerly = "policy eager\nzones {\nfrozen 0\nhot 1\nmin_messages 0\n}\n"

// TestWebSocket: requests on a socket are those of one conversation, edited like those
// that are posted, and go upstream as POST with all that was said.
func TestWebSocket(t *testing.T) {
	u := provider(t)
	p := start(t, "llm_cache {\nupstream openai\n"+socketEagerly+"}\nreverse_proxy "+u.Listener.Addr().String())
	s := p.socket(t, "Authorization", "Bearer sk-a", "Session-Id", "conv-1")
	first := s.ask(socketCreate("", "["+socketHistory(6)+"]"))
	got := u.last()
	if got.method != http.MethodPost || got.path != "/v1/responses" || got.header.Get("Authorization") != "Bearer sk-a" ||
		got.header.Get("Openai-Beta") != "other-1" ||
		got.header.Get("Upgrade") != "" || got.header.Get("Sec-Websocket-Key") != "" ||
		got.header.Get("Content-Type") != "application/json" {
		t.Errorf("upstream got %s %s with %v", got.method, got.path, got.header)
	}
	if full := socketCreate("", "["+socketHistory(6)+"]"); len(got.body) > len(full)*9/10 ||
		gjson.Get(got.body, "type").Exists() || !gjson.Get(got.body, "stream").Bool() {
		t.Errorf("%d bytes became %s", len(full), got.body)
	}
	last := first
	for n := range 3 {
		before := gjson.Get(u.last().body, "input").Raw
		last = s.ask(socketCreate(socketPrevious(last), "["+socketUser(fmt.Sprint("And ", n, "?"))+"]"))
		now := gjson.Get(u.last().body, "input").Raw
		// eager folds the last turn once there is another.
		if n > 0 && !strings.HasPrefix(now, strings.TrimSuffix(before, "]")) ||
			gjson.Get(u.last().body, "previous_response_id").Exists() {
			t.Fatalf("request %d has %s behind %s", n, now, before)
		}
	}
	if list := p.sessions(); len(list) != 1 || len(list[0].Conversations) != 1 || list[0].requests() != 4 {
		t.Errorf("sessions are %+v, want one conversation of four requests", list)
	}
	if n := p.metric("caddy_llm_cache_websocket_connections"); n < 1 {
		t.Errorf("%v connections", n)
	}

	// The same conversation on a new connection, sent whole: nothing is anew.
	whole := socketHistory(6)
	for _, o := range gjson.Get(u.last().body, "input").Array()[len(gjson.Parse("["+whole+"]").Array()):] {
		whole += "," + o.Raw
	}
	for _, o := range last.Get("response.output").Array() {
		whole += "," + o.Raw
	}
	before := gjson.Get(u.last().body, "input").Raw
	again := p.socket(t, "Authorization", "Bearer sk-a", "Session-Id", "conv-1")
	again.ask(socketCreate("", "["+whole+","+socketUser("All again.")+"]"))
	if now := gjson.Get(u.last().body, "input").Raw; !strings.HasPrefix(now, strings.TrimSuffix(before, "]")) {
		t.Errorf("sent whole it became %s behind %s", now, before)
	}

	// What one connection has heard is not another's.
	again.refused(socketCreate(socketPrevious(last), `"on"`), "previous_response_not_found", 400)

	// A clean end is one.
	if err := s.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
}

// TestWebSocketElsewhere: the mode works in front of what speaks no Responses API.
func TestWebSocketElsewhere(t *testing.T) {
	for name, site := range map[string]string{
		"anthropic": "llm_cache {\nupstream anthropic\n}\n", "box": "llm_cache {\nupstream mlx_lm\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			u := provider(t)
			p := start(t, site+"reverse_proxy "+u.Listener.Addr().String())
			s := p.socket(t)
			last := s.ask(socketCreate(`"stream_id":"main",`, `"One?"`))
			for n := range 3 {
				last = s.ask(socketCreate(`"stream_id":"main",`+socketPrevious(last), "["+socketUser(fmt.Sprint("And ", n, "?"))+
					"]"))
				if got := gjson.Get(u.last().body, "messages.#(role==user)#").Array(); len(got) != n+2 {
					t.Errorf("request %d reached the model as %s", n, u.last().body)
				}
			}
			if last.Get("stream_id").Str != "main" || last.Get("response.output.0.content.0.text").Str == "" {
				t.Errorf("the answer is %s", last)
			}
			// What was never said here is asked for, not left out.
			s.refused(`{"type":"response.create","model":"m","previous_response_id":"resp_x","input":"on"}`,
				"previous_response_not_found", 400)
		})
	}
}

// TestWebSocketStored: what the provider keeps itself is left to it.
func TestWebSocketStored(t *testing.T) {
	u := provider(t)
	p := start(t, "llm_cache {\nupstream openai\n}\nreverse_proxy "+u.Listener.Addr().String())
	s := p.socket(t)
	s.send(`{"type":"response.create","model":"m","previous_response_id":"resp_x","input":"on"}`)
	if _, _, err := s.end(); err != nil || gjson.Get(u.last().body, "previous_response_id").Str != "resp_x" {
		t.Errorf("upstream got %s, %v", u.last().body, err)
	}
}

// TestWebSocketErrors: an upstream's refusal, none at all, a cut answer and a message that
// is too big come to the client as what they are.
func TestWebSocketErrors(t *testing.T) {
	var answer http.HandlerFunc
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) { answer(w, r) })
	p := start(t, "llm_cache {\nupstream openai\nmax_body 4kB\n}\nreverse_proxy "+u.Listener.Addr().String())
	s := p.socket(t)
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Ratelimit-Reset-Tokens", "1s")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w,
			`{"error":{"message":"Slow down.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`)
	}
	e := s.refused(socketCreate("", `"go"`), "rate_limit_exceeded", 429)
	if e.Get("error.message").Str != "Slow down." || e.Get("headers.x-ratelimit-reset-tokens").Str != "1s" ||
		e.Get("headers.x-llm-cache").Str == "" {
		t.Errorf("the refusal is %s", e)
	}

	// An answer in one piece is an answer.
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w,
			`{"id":"resp_1","object":"response","status":"completed","output":[{"id":"msg_1","type":"message",`+
				`"role":"assistant","content":[{"type":"output_text","text":"Done."}]}],"usage":{"input_tokens":1,`+
				`"output_tokens":1}}`)
	}
	s.send(socketCreate("", `"go"`))
	if e, kinds, err := s.end(); err != nil ||
		!slices.Equal(kinds, []string{"response.output_item.done", "response.completed"}) ||
		e.Get("response.id").Str != "resp_1" {
		t.Errorf("one piece came as %v %s, %v", kinds, e, err)
	}

	// An error amid a stream has its own form there, and no status.
	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w,
			"event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"Slow down.\","+
				"\"param\":null}\n\n")
	}
	s.refused(socketCreate("", `"go"`), "rate_limit_exceeded", 429)

	answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w,
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_2\"}}\n\n")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	s.refused(socketCreate(`"stream_id":"a",`, `"go"`), "", 502)
	s.send(socketCreate("", `"go"`))
	if e, _, err := s.end(); websocket.CloseStatus(err) != websocket.StatusInternalError {
		t.Errorf("a cut answer ends by %s, %v", e, err)
	}

	s = p.socket(t)
	s.refused(socketCreate("", `"`+strings.Repeat("x", 4000)+`"`), "request_too_large", 413)
	if _, _, err := s.end(); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("then %v", err)
	}

	u.Close()
	p.socket(t).refused(socketCreate("", `"go"`), "", 502)
}

// TestWebSocketPacked: what a handshake says of packed answers is not said of those that come
// over the socket, not even for requests that are not understood.
func TestWebSocketPacked(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		const events = "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"output\":[]}}\n\n"
		w.Header().Set("Content-Type", "text/event-stream")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			_, _ = io.WriteString(w, events)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, gzipped(t, events))
	})
	p := start(t, plain(u))
	s := p.socket(t, "Accept-Encoding", "gzip, deflate")
	s.ask(socketCreate("", `"go"`))
	s.ask(`{"type":"response.create","model":"m","store":false,"tools":[],"tools":[],"input":"go"}`)
}

// TestWebSocketReload: a change of the configuration costs no answer: who waits gets it,
// and connections that nobody waits on are closed, to come again.
func TestWebSocketReload(t *testing.T) {
	begun, release := make(chan struct{}, 1), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_2\"}}\n\n")
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		<-release
		_, _ = io.WriteString(w,
			"data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_2\",\"output\":[],"+
				"\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n")
	})
	site := "llm_cache {\nupstream openai\n}\nreverse_proxy " + u.Listener.Addr().String()
	p := start(t, site)
	idle, busy := p.socket(t), p.socket(t)
	busy.send(socketCreate("", `"go"`))
	<-begun
	p.reload(site)
	if _, _, err := idle.end(); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("an idle connection ends by %v", err)
	}
	close(release)
	if e, _, err := busy.end(); err != nil || e.Get("type").Str != "response.completed" {
		t.Errorf("the answer ends by %s, %v", e, err)
	}
	if _, _, err := busy.end(); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("its connection ends by %v", err)
	}
}

// TestWebSocketLeft: a client that leaves ends the work for it.
func TestWebSocketLeft(t *testing.T) {
	begun, gone := make(chan struct{}, 1), make(chan struct{})
	u := newUpstream(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
		begun <- struct{}{}
		<-r.Context().Done()
		close(gone)
	})
	p := start(t, plain(u))
	s := p.socket(t)
	s.send(socketCreate("", `"go"`))
	<-begun
	_ = s.ws.CloseNow()
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Error("the upstream goes on")
	}
}
