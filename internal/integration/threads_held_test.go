// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/simulator"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// keeper is a provider that keeps conversations: whatever it is asked, it calls a tool.
type keeper struct {
	*upstream
	mu      sync.Mutex
	model   *simulator.Handler
	now     time.Time
	prompts []string // as the model got them
	fault   func(w http.ResponseWriter, body string) bool
	asked   func()
}

func newKeeper(t *testing.T, unthreaded ...string) *keeper {
	k := &keeper{upstream: new(upstream), now: time.Now()}
	k.restart(unthreaded...)
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		k.upstream.mu.Lock()
		k.got = append(k.got, received{r.Method, r.URL.Path, r.Header.Clone(), r.ContentLength, string(b)})
		k.upstream.mu.Unlock()
		k.mu.Lock()
		fault, model := k.fault, k.model
		k.mu.Unlock()
		if fault != nil && fault(w, string(b)) {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		model.ServeHTTP(w, r)
	}))
	t.Cleanup(k.Close)
	return k
}

// restart has the provider forget everything.
func (k *keeper) restart(unthreaded ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	calls := 0
	k.model = &simulator.Handler{
		Cache: pricing.NewSimulator(pricing.SimulatorConfig{}), Unthreaded: unthreaded,
		Hooks: simulator.Hooks{
			Now: func(context.Context) time.Time {
				k.mu.Lock()
				defer k.mu.Unlock()
				return k.now
			},
			Answer: func(_ context.Context, v *wire.View) *simulator.Answer {
				k.mu.Lock()
				asked := k.asked
				k.mu.Unlock()
				if asked != nil {
					asked()
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				k.prompts = append(k.prompts, string(v.Raw))
				calls++
				input := json.RawMessage(`{"command":"go test ./... # \u00e9"}`)
				return &simulator.Answer{Blocks: []simulator.Block{
					{Type: simulator.Thinking, Text: "Tests \"first\".\n", Signature: simulator.Sign("Tests \"first\".\n")},
					{Type: simulator.Text, Text: "I run them, é."},
					{Type: simulator.ToolUse, ID: fmt.Sprintf("toolu_%d_%d", calls, len(k.prompts)), Name: "Bash", Input: input},
				}}
			},
		},
	}
}

func (k *keeper) fail(fault func(w http.ResponseWriter, body string) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fault = fault
}

func (k *keeper) prompt() gjson.Result {
	k.mu.Lock()
	defer k.mu.Unlock()
	return gjson.Parse(k.prompts[len(k.prompts)-1])
}

// noisy is what the tool says in a turn: much that nobody needs.
func noisy(turn int) string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, "=== RUN   TestThing%d_%d\n", turn, i)
	}
	return b.String() + fmt.Sprintf("FAIL turn %d\n", turn)
}

// threader is a client that keeps its conversation in a thread.
type threader struct {
	t        *testing.T
	p        *proxy
	key      string
	stream   bool
	head     string // of each request that goes on
	answer   string // the last one's id
	call     string // that it asks for
	messages int    // so far
	turn     int
}

const workHead = `"system":[{"type":"text","text":"You are an agent."}],"tools":[{"name":"Bash","description":"`

func (c *threader) whole() string {
	return workHead + strings.Repeat("Runs a command. ", 2000) + `","input_schema":{"type":"object"}}],`
}

// body names the answer before it a second time, as Claude Code does.
func (c *threader) body(id, head, messages string) string {
	before := "null"
	if id != "" {
		before = `"` + id + `"`
	}
	return strings.Replace(threadBody(id, head, messages), `"max_tokens"`,
		fmt.Sprintf(`"stream":%t,"thinking":{"type":"adaptive"},"diagnostics":{"previous_message_id":%s},"max_tokens"`,
			c.stream, before), 1)
}

func (c *threader) send(body string) (response, string) {
	c.t.Helper()
	res := c.p.post("/v1/messages", body, "Anthropic-Beta", threadsBeta, "X-Api-Key", c.key)
	return res, read(c.t, res)
}

// take takes an answer in.
func (c *threader) take(res response, answer string) {
	c.t.Helper()
	turn := turnOf("anthropic", c.stream, answer)
	if res.StatusCode != http.StatusOK || !turn.Done || len(turn.Calls) != 1 {
		c.t.Fatalf("turn %d: status %d, %v: %s", c.turn, res.StatusCode, res.Header, answer)
	}
	c.answer, c.call = turn.ID, turn.Calls[0].ID
	c.messages += 2
	c.turn++
}

func (c *threader) begin() response {
	c.t.Helper()
	c.messages, c.turn = 0, 0
	res, answer := c.send(c.body("", c.whole(), userText("Go.")))
	c.take(res, answer)
	return res
}

func (c *threader) result() string {
	text, _ := json.Marshal(noisy(c.turn))
	return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + c.call + `","content":` + string(text) +
		`,"cache_control":{"type":"ephemeral"}}]}`
}

func (c *threader) next() response {
	c.t.Helper()
	res, answer := c.send(c.body(c.answer, c.head, c.result()))
	c.take(res, answer)
	return res
}

// knows checks that the model has all of the conversation, and of each result what it was
// first shown.
func (c *threader) knows(k *keeper) {
	c.t.Helper()
	prompt := k.prompt()
	if n := len(prompt.Get("messages").Array()); n != c.messages-1 {
		c.t.Fatalf("turn %d: the model has %d messages, want %d: %s", c.turn, n, c.messages-1, prompt)
	}
	if prompt.Get("tools.#").Int() != 1 || prompt.Get("system.0.text").Str != "You are an agent." {
		c.t.Errorf("turn %d: the prompt begins with %s", c.turn, prompt.Get("system"))
	}
	for i := 2; i < c.messages-1; i += 2 {
		said := prompt.Get(fmt.Sprint("messages.", i, ".content.0.content")).String()
		if turn := i / 2; !strings.Contains(said, "left out") ||
			!strings.Contains(said, fmt.Sprintf("FAIL turn %d\n", turn)) || strings.Contains(said, "_30\n") {
			c.t.Errorf("turn %d: the model was shown %q", turn, said)
		}
		if id := prompt.Get(fmt.Sprint("messages.", i-1, ".content.2.id")).Str; id == "" ||
			id != prompt.Get(fmt.Sprint("messages.", i, ".content.0.tool_use_id")).Str {
			c.t.Errorf("turn %d: call %q", i/2, id)
		}
	}
}

// TestThreadsAdmitted: what is new in a thread is edited as if the client had sent all of
// it; the provider is sent no more than that.
func TestThreadsAdmitted(t *testing.T) {
	k := newKeeper(t)
	p := start(t, plain(k.upstream))
	for i, repeats := range []bool{true, false} {
		for j, stream := range []bool{true, false} {
			c := &threader{t: t, p: p, key: fmt.Sprint("k", i, j), stream: stream}
			if repeats {
				c.head = c.whole()
			}
			session := c.begin().Header.Get("X-Llm-Cache-Session")
			saved := ""
			for n := range 5 {
				id := c.answer
				res := c.next()
				c.knows(k)
				last := gjson.Parse(k.last().body)
				if last.Get("thread.previous_message_id").Str != id || last.Get("messages.#").Int() != 1 ||
					last.Get("tools").Exists() != repeats || k.last().length != int64(len(k.last().body)) {
					t.Errorf("turn %d: sent %s", n, last)
				}
				h := res.Header
				if !strings.HasPrefix(h.Get("X-Llm-Cache-Retained"), "delta; ") || h.Get("X-Llm-Cache-Session") != session ||
					h.Get("X-Llm-Cache-Saved-Tokens") == saved || !strings.Contains(h.Get("X-Llm-Cache-Transforms"),
					fmt.Sprint("admission;n=", n+1)) {
					t.Errorf("turn %d: %v", n, h)
				}
				saved = h.Get("X-Llm-Cache-Saved-Tokens")
			}
			if s := p.sessions(); len(s[0].Conversations) != 1 || s[0].requests() != 6 {
				t.Errorf("sessions are %+v, want one conversation of six requests", s)
			}
		}
	}
}

// TestThreadsMissed: whatever a provider has against what is new, it gets all of it, and the
// client gets its answer.
func TestThreadsMissed(t *testing.T) {
	refusal := func(status int, code string) func(*keeper) {
		return func(k *keeper) {
			k.fail(func(w http.ResponseWriter, body string) bool {
				if gjson.Get(body, "thread.type").Str != "continue" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w,
					`{"type":"error","error":{"type":"invalid_request_error","message":"No.","details":{"error_code":%q}}}`, code)
				return true
			})
		}
	}
	for name, c := range map[string]struct {
		cause string
		do    func(k *keeper)
	}{
		"thread_not_found":            {"thread_not_found", refusal(404, "thread_not_found")},
		"thread_already_continued":    {"thread_already_continued", refusal(400, "thread_already_continued")},
		"thread_continue_in_flight":   {"thread_continue_in_flight", refusal(400, "thread_continue_in_flight")},
		"thread_fingerprint_mismatch": {"thread_fingerprint_mismatch", refusal(400, "thread_fingerprint_mismatch")},
		"thread_unsupported_request":  {"thread_unsupported_request", refusal(400, "thread_unsupported_request")},
		"another error":               {"refused", refusal(422, "new")},
		"restarted":                   {"thread_not_found", func(k *keeper) { k.restart() }},
		"cut": {"cut", func(k *keeper) {
			k.fail(func(_ http.ResponseWriter, body string) bool {
				if gjson.Get(body, "thread.type").Str == "continue" {
					panic(http.ErrAbortHandler)
				}
				return false
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t)
			p := start(t, plain(k.upstream))
			client := &threader{t: t, p: p, key: "a", stream: true}
			client.begin()
			client.next()
			client.next()
			c.do(k)
			missed := `caddy_llm_cache_retain_misses_total{cause="` + c.cause + `",driver="threads"}`
			before := p.metric(missed)
			res := client.next()
			client.knows(k)
			if got := res.Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(got, "whole; cause="+c.cause) ||
				gjson.Get(k.last().body, "thread.type").Str != "create" {
				t.Errorf("%s; sent %s", got, k.last().body)
			}
			if n := p.metric(missed) - before; n != 1 {
				t.Errorf("%v misses were counted", n)
			}
			k.fail(nil)
			if got := client.next().Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(got, "delta") {
				t.Errorf("then %s", got)
			}
			client.knows(k)
		})
	}
}

// TestThreadsOthers: errors that all of it would meet as well are the client's, what one
// tenant has said is not another's, and two requests at once both get an answer.
func TestThreadsOthers(t *testing.T) {
	k := newKeeper(t)
	p := start(t, plain(k.upstream))
	c := &threader{t: t, p: p, key: "a"}
	c.begin()
	c.next()

	k.fail(func(w http.ResponseWriter, _ string) bool {
		w.WriteHeader(529)
		return true
	})
	before := len(k.requests())
	if res, _ := c.send(c.body(c.answer, "", c.result())); res.StatusCode != 529 || len(k.requests()) != before+1 {
		t.Errorf("status %d after %d requests", res.StatusCode, len(k.requests())-before)
	}
	k.fail(nil)

	other := *c
	other.key = "b"
	if res, got := other.send(c.body(c.answer, "", c.result())); res.StatusCode != http.StatusNotFound ||
		gjson.Get(got, "error.details.error_code").Str != "thread_not_found" ||
		strings.Contains(k.last().body, "FAIL turn 1") {
		t.Errorf("another tenant got %d: %s", res.StatusCode, got)
	}

	var first atomic.Bool
	begun, end := make(chan struct{}), make(chan struct{})
	k.mu.Lock()
	k.asked = func() {
		if !first.Swap(true) {
			close(begun)
			<-end
		}
	}
	k.mu.Unlock()
	body := c.body(c.answer, "", c.result())
	done := make(chan string)
	go func() {
		res := p.post("/v1/messages", body, "Anthropic-Beta", threadsBeta, "X-Api-Key", "a")
		done <- fmt.Sprint(res.StatusCode, " ", res.Header.Get("X-Llm-Cache-Retained"))
	}()
	<-begun
	res, answer := c.send(body)
	c.take(res, answer)
	if held := res.Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(held, "whole; cause=in_flight") {
		t.Errorf("the second went as %s", held)
	}
	c.knows(k)
	close(end)
	if got := <-done; !strings.HasPrefix(got, "200 delta") {
		t.Errorf("the first got %s", got)
	}
	c.next()
	c.knows(k)
}

// TestHoldThreads: a client that sends everything, towards a provider that keeps it.
func TestHoldThreads(t *testing.T) {
	for _, c := range []struct {
		name       string
		unthreaded []string
		option     string
		held       string
	}{
		{"on", nil, "on", "delta"},
		{"refused", []string{"thinking"}, "on", "whole; cause=refused"},
		{"off", nil, "off", ""},
		{"small", nil, "auto", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeeper(t, c.unthreaded...)
			p := start(t, "llm_cache {\n upstream anthropic\n retain threads "+c.option+"\n expand off\n}\nreverse_proxy "+
				k.Listener.Addr().String())
			client := &threader{t: t, p: p, key: "a", stream: true}
			messages := `{"role":"user","content":"Go."}`
			for n := range 5 {
				body := strings.Replace(client.body("", client.whole(), messages), `,"thread":{"type":"create"}`, "", 1)
				before := len(k.requests())
				res := p.post("/v1/messages", body, "X-Api-Key", "a", "Anthropic-Beta", "other-1")
				client.take(res, read(t, res))
				client.knows(k)
				sent, last := len(k.requests())-before, k.last()
				held := res.Header.Get("X-Llm-Cache-Retained")
				if n > 0 && !strings.HasPrefix(held, c.held) || n > 0 && c.held == "" && held != "" {
					t.Errorf("request %d: %s", n, held)
				}
				threaded := c.name == "on"
				if gjson.Get(last.body, "thread").Exists() != threaded ||
					strings.Contains(strings.Join(last.header["Anthropic-Beta"], ","), threadsBeta) != threaded ||
					!strings.Contains(strings.Join(last.header["Anthropic-Beta"], ","), "other-1") {
					t.Errorf("request %d went as %s with %v", n, last.body, last.header["Anthropic-Beta"])
				}
				if threaded && n > 0 && (len(last.body) > 5000 || gjson.Get(last.body, "tools").Exists() ||
					gjson.Get(last.body, "system").Exists()) {
					t.Errorf("request %d has %d bytes: %s", n, len(last.body), last.body)
				}
				if want := map[bool]int{true: 2, false: 1}[c.name == "refused" && n == 0]; sent != want {
					t.Errorf("request %d went up %d times", n, sent)
				}
				// Claude Code writes what was said in another order, and with members of its own.
				messages += fmt.Sprintf(`,{"role":"assistant","content":[{"signature":%q,"thinking":"Tests \"first\".\n",`+
					`"type":"thinking"},{"type":"text","text":"I run them, \u00e9."},{"type":"tool_use","id":%q,"name":"Bash",`+
					`"input":{"command":"go test ./... # é"}}]},`,
					simulator.Sign("Tests \"first\".\n"), client.call) + client.result()
				messages = strings.Replace(messages, `,"cache_control":{"type":"ephemeral"}`, "",
					strings.Count(messages, "cache_control")-1)
			}
		})
	}
}

// TestResponsesAdmitted: what goes on from a stored response is edited, too, and sent whole if
// the provider does not have it any more.
func TestResponsesAdmitted(t *testing.T) {
	k := newKeeper(t)
	p := start(t, behind(k.upstream, "openai"))
	id, call := "", ""
	turn := func(n int) response {
		t.Helper()
		text, _ := json.Marshal(noisy(n))
		items, previous := `{"role":"user","content":"Go."}`, ""
		if n > 0 {
			items, previous = `{"type":"function_call_output","call_id":"`+call+`","output":`+string(text)+`}`,
				`"previous_response_id":"`+id+`",`
		}
		res := p.post("/v1/responses", `{"model":"gpt-5.6",`+previous+
			`"include":["reasoning.encrypted_content"],"instructions":"`+strings.Repeat("Be brief. ", 1000)+
			`","tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}],"input":[`+items+`]}`, "Authorization",
			"Bearer a")
		answer := read(t, res)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("turn %d: status %d: %s", n, res.StatusCode, answer)
		}
		id, call = gjson.Get(answer, "id").Str, gjson.Get(answer, `output.#(type=="function_call").call_id`).Str
		outputs := k.prompt().Get(`input.#(type=="function_call_output")#.output`).Array()
		if len(outputs) != n {
			t.Fatalf("turn %d: the model has %d results: %s", n, len(outputs), k.prompt())
		}
		for i, o := range outputs {
			if !strings.Contains(o.Str, "left out") || !strings.Contains(o.Str, fmt.Sprintf("FAIL turn %d\n", i+1)) {
				t.Errorf("turn %d: the model was shown %q", n, o.Str)
			}
		}
		return res
	}
	for n := range 4 {
		before := id
		if res := turn(n); n > 0 && (gjson.Get(k.last().body, "previous_response_id").Str != before ||
			gjson.Get(k.last().body, "input.#").Int() != 1 || !strings.HasPrefix(res.Header.Get("X-Llm-Cache-Retained"),
			"delta")) {
			t.Errorf("turn %d: %s: sent %s", n, res.Header.Get("X-Llm-Cache-Retained"), k.last().body)
		}
	}
	k.restart()
	if held := turn(4).Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(held,
		"whole; cause=previous_response_not_found") {
		t.Errorf("then %s", held)
	}
	if held := turn(5).Header.Get("X-Llm-Cache-Retained"); !strings.HasPrefix(held, "delta") {
		t.Errorf("then %s", held)
	}
}
