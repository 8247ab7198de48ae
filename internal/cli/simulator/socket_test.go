// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// socket is a client of the WebSocket mode.
type socket struct {
	t  *testing.T
	ws *websocket.Conn
}

func dial(t *testing.T, h *Handler) *socket {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	ws, res, err := websocket.Dial(ctx, srv.URL+"/v1/responses", nil)
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

// next returns the next event.
func (s *socket) next() gjson.Result {
	s.t.Helper()
	_, b, err := s.ws.Read(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return gjson.ParseBytes(b)
}

// end returns the last event of a response.
func (s *socket) end() gjson.Result {
	s.t.Helper()
	for {
		e := s.next()
		if kind := e.Get("type").Str; slices.Contains([]string{
			"response.completed", "response.incomplete", "response.failed",
			"error",
		}, kind) {
			return e
		}
	}
}

func createEvent(more, input string) string {
	return `{"type":"response.create","model":"m","store":false,` + more + `"input":` + input + `}`
}

func previous(id string) string { return `"previous_response_id":"` + id + `",` }

const said = `[{"type":"message","role":"user","content":[{"type":"input_text","text":"%s"}]}]`

// TestSocket: over a WebSocket the model sees the same as over POST, and only new items are sent.
func TestSocket(t *testing.T) {
	script, err := ParseScript([]byte(`[{"thinking":"Hm.","text":"I look.","calls":[{"name":"Bash",` +
		`"input":{"command":"ls"}}]},{"text":"Two."},{"text":"Three."}]`))
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	h := &Handler{Cache: newCache(t, "openai-responses"), Script: script}
	h.Hooks.Answer = func(_ context.Context, v *wire.View) *Answer {
		seen = append(seen, string(v.Raw))
		return nil
	}
	s := dial(t, h)
	s.send(createEvent(responsesTools+",", fmt.Sprintf(said, "go")))
	first := s.end()
	if first.Get("type").Str != "response.completed" || first.Get("response.output.#").Int() != 3 ||
		first.Get("stream_id").Exists() {
		t.Fatalf("the first answer ends by %s", first)
	}
	call := first.Get("response.output.2.call_id").Str
	s.send(createEvent(responsesTools+","+previous(first.Get("response.id").Str),
		`[{"type":"function_call_output","call_id":"`+call+`","output":"main.go"}]`))
	second := s.end()
	if second.Get("response.output.0.content.0.text").Str != "Two." ||
		second.Get("response.usage.input_tokens").Int() <= first.Get("response.usage.input_tokens").Int() {
		t.Errorf("the second answer ends by %s", second)
	}
	whole := gjson.Parse(seen[1])
	if got := whole.Get("input.#").Int(); got != 5 || whole.Get("input.1").Raw != first.Get("response.output.0").Raw ||
		whole.Get("previous_response_id").Exists() || whole.Get("type").Exists() {
		t.Errorf("the model has seen %s", whole)
	}

	// A string is one message, and a warm-up gets an empty response.
	s.send(createEvent(`"generate":false,`+responsesTools+",", `[]`))
	warm := s.end()
	if warm.Get("type").Str != "response.completed" || warm.Get("response.output.#").Int() != 0 || len(seen) != 2 {
		t.Errorf("warming ends by %s after %d requests", warm, len(seen))
	}
	s.send(createEvent(responsesTools+","+previous(warm.Get("response.id").Str), `"go"`))
	if got := s.end(); got.Get("response.output.#").Int() != 3 || gjson.Get(seen[2], "input.0.content").Str != "go" {
		t.Errorf("behind warming: %s, the model has seen %s", got, seen[2])
	}
}

// TestSocketErrors: every error of the mode, and the survival of the connection.
func TestSocketErrors(t *testing.T) {
	script, err := ParseScript([]byte(`[{"text":"One."},{"status":429},{"text":"Three."}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := dial(t, &Handler{Cache: newCache(t, "openai-responses"), Script: script})
	expect := func(what, message, lane, code string, status int64) {
		t.Helper()
		s.send(message)
		e := s.end()
		if e.Get("type").Str != "error" || e.Get("error.code").Str != code || e.Get("status").Int() != status ||
			e.Get("stream_id").Str != lane {
			t.Errorf("%s: %s", what, e)
		}
	}
	expect("no JSON", `{"type":`, "", "invalid_json", 400)
	expect("another event", `{"type":"response.steer","stream_id":"a"}`, "a", "unknown_event_type", 400)
	expect("no lane", createEvent(`"stream_id":"",`, `"go"`), "", "invalid_stream_id", 400)
	expect("a bad lane", createEvent(`"stream_id":"a b",`, `"go"`), "", "invalid_stream_id", 400)
	expect("an unknown answer", createEvent(`"stream_id":"a",`+previous("resp_x"), `"go"`), "a",
		"previous_response_not_found", 400)
	expect("an invalid request", createEvent("", `[{"type":"function_call_output","call_id":"c","output":""}]`),
		"", "", 400)

	// A failed response deletes its predecessor.
	s.send(createEvent(responsesTools+",", `"go"`))
	first := s.end()
	on := createEvent(responsesTools+","+previous(first.Get("response.id").Str), `"on"`)
	s.send(on)
	if e := s.end(); e.Get("status").Int() != 429 || e.Get("error.message").Str == "" ||
		e.Get("headers.retry-after").Str != "1" {
		t.Errorf("a refusal: %s", e)
	}
	expect("an answer that failed", on, "", "previous_response_not_found", 400)

	// Other lanes continue, and may continue each other's responses.
	s.send(createEvent(`"stream_id":"b",`, `"go"`))
	b := s.end()
	if b.Get("type").Str != "response.completed" || b.Get("stream_id").Str != "b" {
		t.Errorf("a lane: %s", b)
	}
	s.send(createEvent(`"stream_id":"c",`+previous(b.Get("response.id").Str), `"fork"`))
	if c := s.end(); c.Get("type").Str != "response.completed" || c.Get("stream_id").Str != "c" {
		t.Errorf("a fork: %s", c)
	}
	for i := range 32 - 3 { // a, b and c exist
		s.send(createEvent(fmt.Sprintf(`"stream_id":"l%d",`, i), `"go"`))
		if e := s.end(); e.Get("type").Str != "response.completed" {
			t.Fatalf("lane %d: %s", i, e)
		}
	}
	expect("too many lanes", createEvent(`"stream_id":"z",`, `"go"`), "z", "websocket_stream_limit_reached", 400)

	s = dial(t, &Handler{Cache: newCache(t, "openai-responses"), SocketLife: time.Millisecond})
	for {
		s.send(createEvent("", `"go"`))
		if e := s.end(); e.Get("error.code").Str == "websocket_connection_limit_reached" && e.Get("status").Int() == 400 {
			break
		}
	}

	big := `"` + strings.Repeat("x", maxBody) + `"`
	s = dial(t, &Handler{Cache: newCache(t, "openai-responses")})
	expect("too much", createEvent("", big), "", "request_too_large", 413)
	if _, _, err := s.ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("then %v", err)
	}
}

// TestSocketCut: a cut response does not look complete to a client.
func TestSocketCut(t *testing.T) {
	script, err := ParseScript([]byte(`[{"text":"One.","truncate":4,"times":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := dial(t, &Handler{Cache: newCache(t, "openai-responses"), Script: script})
	s.send(createEvent(`"stream_id":"a",`+responsesTools+",", `"go"`))
	if e := s.end(); e.Get("type").Str != "error" || e.Get("status").Int() != 502 {
		t.Errorf("a lane's answer ends by %s", e)
	}
	s.send(createEvent(responsesTools+",", `"go"`))
	for {
		_, b, err := s.ws.Read(t.Context())
		if err == nil {
			if kind := gjson.GetBytes(b, "type").Str; kind == "response.completed" || kind == "error" {
				t.Fatalf("the answer ends by %s", b)
			}
			continue
		}
		if websocket.CloseStatus(err) != websocket.StatusInternalError {
			t.Errorf("the connection ends by %v", err)
		}
		return
	}
}

// TestSocketLanes: a request that waits in one lane delays no other lane.
func TestSocketLanes(t *testing.T) {
	release := make(chan struct{})
	h := &Handler{Cache: newCache(t, "openai-responses")}
	h.Hooks.Answer = func(ctx context.Context, v *wire.View) *Answer {
		if strings.Contains(string(v.Raw), "wait") {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	}
	s := dial(t, h)
	s.send(createEvent(`"stream_id":"slow",`, `"wait"`))
	s.send(createEvent(`"stream_id":"slow",`, `"behind"`))
	s.send(createEvent("", `"go"`))
	if e := s.end(); e.Get("stream_id").Exists() || e.Get("type").Str != "response.completed" {
		t.Errorf("first comes %s", e)
	}
	close(release)
	for range 2 {
		if e := s.end(); e.Get("stream_id").Str != "slow" || e.Get("type").Str != "response.completed" {
			t.Errorf("then comes %s", e)
		}
	}
}
