// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// socketed is a provider that answers over WebSockets, too. Whatever it is asked, it calls
// a tool.
type socketed struct {
	*upstream
	mu      sync.Mutex
	model   *simulator.Handler
	conns   []net.Conn // that are WebSockets
	shakes  []received
	posts   int
	prompts []string // as the model got them
	refuse  int      // the status of handshakes, 0 for one that is answered
	answer  func(n int) *simulator.Answer
	asked   func(n int)
}

func newSocketed(t *testing.T) *socketed {
	u := &socketed{upstream: new(upstream)}
	u.restart(0)
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		model, refuse := u.model, u.refuse
		if r.Method == http.MethodGet {
			u.shakes = append(u.shakes, received{method: r.Method, path: r.URL.Path, header: r.Header.Clone()})
		} else {
			u.posts++
		}
		u.mu.Unlock()
		if r.Method == http.MethodGet && refuse != 0 {
			w.WriteHeader(refuse)
			return
		}
		model.ServeHTTP(&catching{w, u}, r)
	}))
	t.Cleanup(func() {
		u.cut()
		u.Close()
	})
	return u
}

// catching notes connections that are taken over.
type catching struct {
	http.ResponseWriter
	of *socketed
}

func (c *catching) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.ResponseWriter).Hijack()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.conns = append(c.of.conns, conn)
	return conn, rw, err
}

func (c *catching) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// restart has the provider forget everything; a connection lives so long, 0 for an hour.
func (u *socketed) restart(life time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.model = &simulator.Handler{
		Cache: pricing.NewSimulator(pricing.SimulatorConfig{}), SocketLife: life,
		Hooks: simulator.Hooks{
			Answer: func(_ context.Context, v *wire.View) *simulator.Answer {
				u.mu.Lock()
				u.prompts = append(u.prompts, string(v.Raw))
				n, asked, answer := len(u.prompts), u.asked, u.answer
				u.mu.Unlock()
				if asked != nil {
					asked(n)
				}
				if answer != nil {
					if a := answer(n); a != nil {
						return a
					}
				}
				return calling(n)
			},
		},
	}
}

func calling(n int) *simulator.Answer {
	return &simulator.Answer{Blocks: []simulator.Block{
		{Type: simulator.Thinking, Text: "Tests \"first\".", Signature: simulator.Sign("Tests \"first\".")},
		{Type: simulator.Text, Text: "I run them, é."},
		{
			Type: simulator.ToolUse, ID: fmt.Sprint("call_", n), Name: "Bash",
			Input: json.RawMessage(`{"command":"go test ./... # \u00e9"}`),
		},
	}}
}

// cut cuts all connections that are WebSockets.
func (u *socketed) cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		_ = c.Close()
	}
	u.conns = nil
}

func (u *socketed) set(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

// counts is how often it was shaken hands with, posted to and asked.
func (u *socketed) counts() (shakes, posts, prompts int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.shakes), u.posts, len(u.prompts)
}

// poster is a client that posts all of its conversation.
type poster struct {
	t      *testing.T
	p      *proxy
	u      *socketed
	key    string
	id     string // of the session
	stream bool
	items  []string
	turn   int
	alone  bool // nobody else asks
}

func (c *poster) body() string {
	return fmt.Sprintf(`{"model":"gpt-6-astra","store":false,"stream":%t,"include":["reasoning.encrypted_content"],`+
		`"instructions":"%s","tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}],"input":[%s]}`,
		c.stream, strings.Repeat("Be brief. ", 400), strings.Join(c.items, ","))
}

// wordsOf is what a prompt says of a conversation, however it is written.
func wordsOf(prompt string) (all []string) {
	for _, item := range gjson.Get(prompt, "input").Array() {
		text := item.Get("content").String()
		if item.Get("content").IsArray() {
			text = ""
			for _, part := range item.Get("content.#.text").Array() {
				text += part.Str
			}
		}
		all = append(all, fmt.Sprint(item.Get("role").Str, text, item.Get("encrypted_content").Str, item.Get("call_id").Str,
			item.Get("name").Str, item.Get("arguments").Str, item.Get("output").Str))
	}
	return all
}

// post sends the conversation.
func (c *poster) post() (response, string, error) {
	res := c.p.post("/v1/responses", c.body(), "Authorization", "Bearer "+c.key, "Session-Id", c.id)
	b, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	return res, string(b), err
}

// ask sends the conversation and takes the answer in. It returns how it went.
func (c *poster) ask() string {
	c.t.Helper()
	if len(c.items) == 0 {
		c.items = []string{socketUser("Go, " + c.id + ".")}
	}
	sent := wordsOf(c.body())
	res, answer, err := c.post()
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("turn %d: status %d, %v: %s", c.turn, res.StatusCode, err, answer)
	}
	if c.alone {
		c.u.mu.Lock()
		got := wordsOf(c.u.prompts[len(c.u.prompts)-1])
		c.u.mu.Unlock()
		if !slices.Equal(got, sent) {
			c.t.Fatalf("turn %d: the model was asked\n%q, not\n%q", c.turn, got, sent)
		}
	}
	c.take(answer)
	return res.Header.Get("X-Llm-Cache-Retained")
}

// take takes an answer in, as clients do that keep little of it and write that anew.
func (c *poster) take(answer string) {
	c.t.Helper()
	object := gjson.Parse(answer)
	if c.stream {
		object = gjson.Result{}
		for line := range strings.Lines(answer) {
			if data, ok := strings.CutPrefix(line, "data: "); ok && gjson.Get(data, "type").Str == "response.completed" {
				object = gjson.Get(data, "response")
			}
		}
	}
	call := object.Get(`output.#(type=="function_call")`)
	if object.Get("status").Str != "completed" || !call.Exists() {
		c.t.Fatalf("turn %d: the answer is %s", c.turn, answer)
	}
	for _, item := range object.Get("output").Array() {
		switch item.Get("type").Str {
		case "message":
			c.items = append(c.items,
				`{"content":[{"text":"I run them, \u00e9.","type":"output_text"}],"role":"assistant","type":"message"}`)
		case "reasoning":
			c.items = append(c.items, `{"type":"reasoning","summary":[],"encrypted_content":"`+item.Get("encrypted_content").Str+
				`"}`)
		default:
			arguments, _ := json.Marshal(item.Get("arguments").Str)
			c.items = append(c.items, `{"type":"function_call","name":"Bash","arguments":`+string(arguments)+`,"call_id":"`+
				item.Get("call_id").Str+`"}`)
		}
	}
	c.turn++
	c.items = append(c.items, fmt.Sprintf(`{"type":"function_call_output","call_id":"%s","output":"ok %s %d"}`,
		call.Get("call_id").Str, c.id, c.turn))
}

func (u *socketed) site(more string) string {
	return "llm_cache {\nupstream openai\nretain websocket on\n" + more + "}\nreverse_proxy " + u.Listener.Addr().String()
}

// TestHoldSocket: behind the first request of a conversation, what is new goes over the
// connection that the first one has opened.
func TestHoldSocket(t *testing.T) {
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			u := newSocketed(t)
			p := start(t, u.site("policy observe\n"))
			delta := `caddy_llm_cache_retain_requests_total{driver="websocket",sent="delta"}`
			before := p.metric(delta)
			c := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: stream, alone: true}
			if held := c.ask(); !strings.HasPrefix(held, "whole; cause=new") {
				t.Errorf("the first went as %s", held)
			}
			for range 9 {
				if held := c.ask(); !strings.HasPrefix(held, "delta; sent=") {
					t.Errorf("turn %d went as %s", c.turn, held)
				}
			}
			shakes, posts, prompts := u.counts()
			if shakes != 1 || posts != 0 || prompts != 10 || p.metric(delta) != before+9 {
				t.Errorf("%d connections, %d posts, %d prompts, %v deltas", shakes, posts, prompts, p.metric(delta)-before)
			}
			u.set(func() {
				if h := u.shakes[0]; h.path != "/v1/responses" || h.header.Get("Authorization") != "Bearer a" ||
					!strings.Contains(h.header.Get("Openai-Beta"), "responses_websockets=") || h.header.Get("Content-Type") != "" {
					t.Errorf("the handshake was %+v", h)
				}
			})
			if list := p.sessions(); len(list) != 1 || len(list[0].Conversations) != 1 || list[0].requests() != 10 {
				t.Errorf("sessions are %+v, want one conversation of ten requests", list)
			}
			// Another tenant's conversation, word for word, is another's.
			other := &poster{
				t: t, p: p, u: u, key: "b", id: "one", stream: stream, alone: true, items: slices.Clone(c.items),
				turn: c.turn,
			}
			if held := other.ask(); !strings.HasPrefix(held, "whole; cause=new") {
				t.Errorf("another tenant's went as %s", held)
			}
			if held := c.ask(); !strings.HasPrefix(held, "delta") {
				t.Errorf("then %s", held)
			}
			if shakes, _, _ := u.counts(); shakes != 2 {
				t.Errorf("%d connections", shakes)
			}
		})
	}
}

// TestHoldSocketEdited: what is new is edited as ever, and what was edited is gone on from.
func TestHoldSocketEdited(t *testing.T) {
	u := newSocketed(t)
	p := start(t, u.site(""))
	c := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: true}
	c.ask()
	for n := range 5 {
		text, _ := json.Marshal(noisy(n))
		last := gjson.Parse(c.items[len(c.items)-1])
		c.items[len(c.items)-1] = `{"type":"function_call_output","call_id":"` + last.Get("call_id").Str + `","output":` +
			string(text) + `}`
		if held := c.ask(); !strings.HasPrefix(held, "delta") {
			t.Errorf("turn %d went as %s", n, held)
		}
		u.set(func() {
			outputs := gjson.Get(u.prompts[len(u.prompts)-1], `input.#(type=="function_call_output")#.output`).Array()
			if len(outputs) != n+1 {
				t.Errorf("turn %d: the model has %d results", n, len(outputs))
			}
			for i, o := range outputs {
				if !strings.Contains(o.Str, "left out") || !strings.Contains(o.Str, fmt.Sprintf("FAIL turn %d\n", i)) {
					t.Errorf("turn %d: the model was shown %q", n, o.Str)
				}
			}
		})
	}
}

// once has the model give an answer, the next time.
func (u *socketed) once(answer func(n int) *simulator.Answer) {
	u.set(func() {
		u.answer = func(n int) *simulator.Answer {
			u.mu.Lock()
			u.answer = nil
			u.mu.Unlock()
			return answer(n)
		}
	})
}

// refuses has the model answer by an error, the next time.
func (u *socketed) refuses(status int, code string) {
	u.once(func(int) *simulator.Answer {
		return &simulator.Answer{Failure: &simulator.Failure{Status: status, Code: code, Message: "No."}}
	})
}

// counted is how many requests went whole for a cause, known before or told by the upstream.
func (p *proxy) counted(cause string) float64 {
	return p.metric(`caddy_llm_cache_retain_requests_total{driver="websocket",sent="`+cause+`"}`) +
		p.metric(`caddy_llm_cache_retain_misses_total{cause="`+cause+`",driver="websocket"}`)
}

// TestHoldSocketFaults: whatever goes wrong with a connection, the model is asked what the
// client has said, the client gets an answer, and somebody counts.
func TestHoldSocketFaults(t *testing.T) {
	const notFound, limit = "previous_response_not_found", "websocket_connection_limit_reached"
	for name, c := range map[string]struct {
		fault  func(u *socketed, c *poster)
		causes []string // why the next one goes whole
	}{
		"cut between two requests": {func(u *socketed, _ *poster) { u.cut() }, []string{"lost", "cut"}},
		"restarted": {func(u *socketed, _ *poster) {
			u.restart(0)
			u.cut()
		}, []string{"lost", "cut"}},
		"cut before there is an answer": {func(u *socketed, _ *poster) {
			u.once(func(n int) *simulator.Answer {
				u.cut()
				return calling(n)
			})
		}, []string{"cut"}},
		"not found":     {func(u *socketed, _ *poster) { u.refuses(http.StatusBadRequest, notFound) }, []string{notFound}},
		"limit reached": {func(u *socketed, _ *poster) { u.refuses(http.StatusBadRequest, limit) }, []string{limit}},
		"refused as a delta": {func(u *socketed, _ *poster) {
			u.refuses(http.StatusBadRequest, "unknown_parameter")
		}, []string{"refused"}},
		"failed": {func(u *socketed, c *poster) {
			u.refuses(http.StatusTooManyRequests, "rate_limit_exceeded")
			if res, answer, err := c.post(); err != nil || res.StatusCode != http.StatusTooManyRequests ||
				gjson.Get(answer, "error.code").Str != "rate_limit_exceeded" || res.Header.Get("Retry-After") == "" {
				c.t.Errorf("status %d, %v: %s", res.StatusCode, err, answer)
			}
		}, []string{"lost"}},
		"cut amid an answer": {func(u *socketed, c *poster) {
			u.once(func(n int) *simulator.Answer {
				a := calling(n)
				a.Truncate = 4
				return a
			})
			if res, answer, err := c.post(); err == nil && (c.stream || res.StatusCode == http.StatusOK) {
				c.t.Errorf("a cut answer came as a whole one: %d %s", res.StatusCode, answer)
			}
		}, []string{"lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newSocketed(t)
			p := start(t, u.site("policy observe\n"))
			client := &poster{t: t, p: p, u: u, key: "a", id: "one", stream: true, alone: true}
			client.ask()
			client.ask()
			counted := func() (n float64) {
				for _, cause := range c.causes {
					n += p.counted(cause)
				}
				return n
			}
			before := counted()
			c.fault(u, client)
			held := client.ask()
			cause, _, _ := strings.Cut(strings.TrimPrefix(held, "whole; cause="), ";")
			if !slices.Contains(c.causes, cause) {
				t.Errorf("went as %s, want %s", held, c.causes)
			}
			if n := counted() - before; n != 1 {
				t.Errorf("%v were counted, want 1", n)
			}
			if held := client.ask(); !strings.HasPrefix(held, "delta") {
				t.Errorf("then %s", held)
			}
			if _, posts, _ := u.counts(); posts != 0 {
				t.Errorf("%d posts", posts)
			}
		})
	}
}
