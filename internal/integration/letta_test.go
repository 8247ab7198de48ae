// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// appServer does what Letta's App Server does with Responses: it reads items that say
// that they are messages of the user, stores an answer if it is asked to, forks from one
// that it knows and then reads the last message alone, and calls tools of its own.
type appServer struct {
	*httptest.Server
	mu     sync.Mutex
	talks  map[string][]string // what the model sees, by conversation
	bodies []string
	fails  bool // the next answer fails
}

func newAppServer(t *testing.T) *appServer {
	t.Helper()
	a := &appServer{talks: map[string][]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *appServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies = append(a.bodies, string(raw))
	body := gjson.ParseBytes(raw)
	fail := func(status int, code, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","param":null,"code":%q}}`, message, code)
	}
	if r.URL.Path != "/v1/responses" {
		fail(http.StatusNotFound, "", "unknown endpoint")
		return
	}
	var before []string
	if id := body.Get("previous_response_id").Str; id != "" {
		name, _ := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(id, "resp_letta_"))
		var ok bool
		if before, ok = a.talks[string(name)]; !ok {
			fail(http.StatusNotFound, "response_not_found", "The response '"+id+"' does not exist or is no longer stored.")
			return
		}
	}
	var said []string
	text := func(item gjson.Result) string {
		if c := item.Get("content"); c.Type == gjson.String {
			return c.Str
		}
		var all []string
		for _, p := range item.Get("content").Array() {
			all = append(all, p.Get("text").Str+p.Get("image_url").Str)
		}
		return strings.Join(all, "+")
	}
	if in := body.Get("input"); in.Type == gjson.String {
		said = append(said, "user: "+in.Str)
	} else {
		for _, item := range in.Array() {
			if item.Get("type").Str == "message" && item.Get("role").Str == "user" {
				said = append(said, "user: "+text(item))
			}
		}
	}
	if len(before) > 0 && len(said) > 0 {
		said = said[len(said)-1:]
	}
	if len(said) == 0 {
		fail(http.StatusBadRequest, "", "input must include a user message with text or image content")
		return
	}
	if system := body.Get("instructions").Str; system != "" {
		said[len(said)-1] = "user: <" + system + "> " + strings.TrimPrefix(said[len(said)-1], "user: ")
	}
	now := append(before[:len(before):len(before)], said...)
	answer := fmt.Sprintf("answer %d", (len(now)+strings.Count(strings.Join(now, ""), "<user>")+
		strings.Count(strings.Join(now, ""), "<assistant>")+1)/2)
	name := fmt.Sprintf("conv-%d", len(a.bodies))
	a.talks[name] = append(now, "assistant: "+answer)
	id := "resp_letta_" + base64.RawURLEncoding.EncodeToString([]byte(name))
	if !body.Get("store").Bool() {
		delete(a.talks, name)
	}
	call := `{"type":"function_call","id":"fc_1","call_id":"c1","name":"Bash","arguments":"{}","status":"completed"}`
	result := `{"type":"function_call_output","id":"fco_1","call_id":"c1","output":[{"type":"input_text","text":"ok"}],` +
		`"status":"completed"}`
	message := fmt.Sprintf(`{"type":"message","id":"msg_1","status":"completed","role":"assistant",`+
		`"content":[{"type":"output_text","text":%q,"annotations":[]}]}`, answer)
	state := func(status, output string) string {
		return fmt.Sprintf(`{"id":%q,"object":"response","created_at":1,"status":%q,"model":"coder","output":[%s],`+
			`"error":null,"incomplete_details":null,"usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}`, id,
			status, output)
	}
	if a.fails {
		a.fails = false
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, state("failed", ""))
		return
	}
	if !body.Get("stream").Bool() {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, state("completed", call+","+result+","+message))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	emit := func(kind, members string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"sequence_number\":%d,\"type\":%q,%s}\n\n", kind, n, kind, members)
		n++
	}
	emit("response.created", `"response":`+state("in_progress", ""))
	emit("response.output_item.added", `"output_index":0,"item":`+call)
	emit("response.function_call_arguments.done", `"output_index":0,"item_id":"fc_1","name":"Bash","arguments":"{}"`)
	emit("response.output_item.done", `"output_index":0,"item":`+call)
	emit("response.output_item.added", `"output_index":1,"item":`+result)
	emit("response.output_item.done", `"output_index":1,"item":`+result)
	emit("response.output_item.added",
		`"output_index":2,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}`)
	emit("response.content_part.added",
		`"output_index":2,"content_index":0,"item_id":"msg_1","part":{"type":"output_text","text":"","annotations":[]}`)
	emit("response.output_text.delta", fmt.Sprintf(`"output_index":2,"content_index":0,"item_id":"msg_1","delta":%q`,
		answer))
	emit("response.output_text.done", fmt.Sprintf(`"output_index":2,"content_index":0,"item_id":"msg_1","text":%q`,
		answer))
	emit("response.output_item.done", `"output_index":2,"item":`+message)
	emit("response.completed", `"response":`+state("completed", call+","+result+","+message))
}

// restart has the server forget what it has stored.
func (a *appServer) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.talks = map[string][]string{}
}

// seen are the requests so far.
func (a *appServer) seen() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.bodies...)
}

// talk is what the model has seen of the conversation that it was asked about last.
func (a *appServer) talk() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.talks[fmt.Sprintf("conv-%d", len(a.bodies))]
}

// lettaClient is one that sends all of its conversation each time.
type lettaClient struct {
	t      *testing.T
	p      *proxy
	path   string
	system string
	stream bool
	said   []map[string]any
}

// body is the request with what was said.
func (c *lettaClient) body() string {
	o := map[string]any{"model": "coder", "stream": c.stream, "max_tokens": 100}
	said := c.said
	switch c.path {
	case "/v1/messages":
		o["messages"], o["system"] = said, c.system
	case "/v1/responses":
		o["input"], o["instructions"] = said, c.system
		delete(o, "max_tokens")
	default:
		o["messages"] = append([]map[string]any{{"role": "system", "content": c.system}}, said...)
	}
	b, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// send sends what was said, and returns the answer and how the request went.
func (c *lettaClient) send(headers ...string) (text, held string) {
	c.t.Helper()
	res := c.p.post(c.path, c.body(), append([]string{"X-Session-Id", "chat-1"}, headers...)...)
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("%v, %v: %s", res.Status, err, raw)
	}
	f, _ := wire.Detect(http.MethodPost, c.path)
	d := wire.NewDecoder(f, c.stream)
	d.Feed(raw)
	d.End()
	turn := d.Turn()
	if !turn.Done || turn.Failed() || len(turn.Calls) > 0 {
		c.t.Errorf("the answer is %+v of %s", turn, raw)
	}
	return turn.Text, res.Header.Get("X-Llm-Cache-Retained")
}

// ask says one thing more, and takes in the answer.
func (c *lettaClient) ask(text string, headers ...string) (answer, held string) {
	c.t.Helper()
	c.said = append(c.said, map[string]any{"role": "user", "content": text})
	answer, held = c.send(headers...)
	c.said = append(c.said, map[string]any{"role": "assistant", "content": answer})
	return answer, held
}

// transcript is what a model has to have seen of it.
func (c *lettaClient) transcript() (all []string) {
	for _, m := range c.said {
		all = append(all, fmt.Sprintf("%s: %s", m["role"], m["content"]))
	}
	return all
}

// told is how a conversation goes to an agent that does not have it.
func told(said []string) string {
	var b strings.Builder
	b.WriteString("<conversation>\n")
	for _, s := range said {
		who, what, _ := strings.Cut(s, ": ")
		fmt.Fprintf(&b, "<%s>\n%s\n</%s>\n", who, what, who)
	}
	return b.String() + "</conversation>\n\n"
}

// TestLetta: clients of every API that send everything get what is new forwarded, and the
// agent has it all, once: over a restart of the server, and one of ours.
func TestLetta(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream=%t", path, stream), func(t *testing.T) {
				a := newAppServer(t)
				site := "llm_cache {\n upstream letta\n}\nreverse_proxy " + a.Listener.Addr().String()
				c := &lettaClient{t: t, p: start(t, site), path: path, system: "Be brief.", stream: stream}
				for i := range 10 {
					switch i {
					case 4:
						a.restart()
					case 7:
						c.p.reload(site)
					}
					answer, held := c.ask(fmt.Sprintf("question %d", i+1))
					if want := fmt.Sprintf("answer %d", i+1); answer != want {
						t.Fatalf("turn %d: %q, want %q", i, answer, want)
					}
					want := "delta; "
					switch i {
					case 0:
						want = "whole; cause=new"
					case 4:
						want = "whole; cause=response_not_found"
					}
					if !strings.HasPrefix(held, want) {
						t.Errorf("turn %d: %q, want %q", i, held, want)
					}
				}
				seen := a.seen()
				if len(seen) != 11 {
					t.Errorf("%d requests, want 11: one was sent again", len(seen))
				}
				for i, body := range seen {
					n := gjson.Get(body, "input.#").Int()
					whole := i == 0 || i == 5
					if whole == gjson.Get(body, "previous_response_id").Exists() || n != 1 ||
						whole != gjson.Get(body, "instructions").Exists() || !gjson.Get(body, "store").Bool() {
						t.Errorf("request %d: %s", i, body)
					}
				}
				want := c.transcript()
				want = append([]string{"user: <Be brief.> " + told(want[:8]) + "+" + strings.TrimPrefix(want[8], "user: ")},
					want[9:]...)
				if got := a.talk(); strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("the model has seen\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestLettaDiffers: what an agent does not have as the client has it is sent whole.
func TestLettaDiffers(t *testing.T) {
	t.Parallel()
	a := newAppServer(t)
	c := &lettaClient{
		t: t, p: start(t, "llm_cache {\n upstream letta\n}\nreverse_proxy "+a.Listener.Addr().String()),
		path: "/v1/chat/completions", system: "Be brief.", stream: true,
	}
	c.ask("one")
	c.ask("two")
	held := func(why, want string) {
		t.Helper()
		if _, got := c.ask("next"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
	held("nothing has changed", "delta")
	c.system = "Be long."
	held("another system prompt", "whole; cause=bound")
	held("the same one again", "delta")
	c.said[0]["content"] = "One"
	held("another history", "whole; cause=diverged")
	if got := a.talk()[0]; !strings.Contains(got, "<conversation>\n<user>\nOne\n</user>\n<assistant>\nanswer 1\n") {
		t.Errorf("the model has seen\n%s", got)
	}
	c.ask("once more")
	c.said = c.said[:len(c.said)-1] // another answer to the last question is wished for
	if _, got := c.send(); !strings.HasPrefix(got, "delta") {
		t.Errorf("asked for another answer: %q", got)
	}
	c.said = append(c.said, map[string]any{"role": "assistant", "content": "cut amid"})
	held("an answer that was cut", "whole")
	// Two messages of the user: both go, as one.
	c.said = append(c.said, map[string]any{"role": "user", "content": "three"})
	held("two messages", "delta")
	if got := a.talk(); got[len(got)-2] != "user: three+next" {
		t.Errorf("the model has seen %q", got)
	}
	a.mu.Lock()
	a.fails = true
	a.mu.Unlock()
	c.said = append(c.said, map[string]any{"role": "user", "content": "fails"})
	if res := c.p.post(c.path, c.body(), "X-Session-Id", "chat-1"); res.StatusCode < 500 {
		t.Errorf("a turn that fails: %s", res.Status)
	}
	if _, got := c.send(); !strings.HasPrefix(got, "delta") {
		t.Errorf("after a turn that failed: %q", got)
	}
}

// TestLettaAgain: what was answered is not asked again, unless another answer is wished for.
func TestLettaAgain(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses"} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s stream=%t", path, stream), func(t *testing.T) {
				a := newAppServer(t)
				c := &lettaClient{
					t: t, p: start(t, "llm_cache {\n upstream letta\n}\nreverse_proxy "+a.Listener.Addr().String()),
					path: path, stream: stream, system: "s",
				}
				c.ask("one", "Idempotency-Key", "k1")
				c.ask("two", "Idempotency-Key", "k2")
				if text, _ := c.send(); text != "" || len(a.seen()) != 2 {
					t.Errorf("nothing new was answered by %q, after %d requests", text, len(a.seen()))
				}
				last := c.said[:len(c.said)-1]
				c.said = last
				for _, headers := range [][]string{{"X-Stainless-Retry-Count", "1"}, {"Idempotency-Key", "k2"}} {
					if text, _ := c.send(headers...); text != "answer 2" || len(a.seen()) != 2 {
						t.Errorf("%v: %q, after %d requests", headers, text, len(a.seen()))
					}
				}
				c.said = append(last, map[string]any{"role": "assistant", "content": "answer 2"})
				if _, held := c.ask("three"); !strings.HasPrefix(held, "delta") {
					t.Errorf("after a retry: %q", held)
				}
				c.said = c.said[:len(c.said)-1]
				n := len(a.seen())
				if text, _ := c.send("Idempotency-Key", "k3"); text != "answer 3" || len(a.seen()) != n+1 {
					t.Errorf("asked for another answer: %q, after %d requests", text, len(a.seen())-n)
				}
			})
		}
	}
}

// TestLettaRefuses: what an agent would pass over in silence is refused, and says why.
func TestLettaRefuses(t *testing.T) {
	t.Parallel()
	a := newAppServer(t)
	p := start(t, "llm_cache {\n upstream letta\n}\nreverse_proxy "+a.Listener.Addr().String())
	for _, c := range []struct{ name, path, body, want string }{
		{
			"tools", "/v1/chat/completions",
			`{"model":"coder","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function",` +
				`"function":{"name":"ls","parameters":{"type":"object","properties":{}}}}]}`, "runs tools of its own",
		},
		{
			"tools of Messages", "/v1/messages",
			`{"model":"coder","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"ls",` +
				`"input_schema":{"type":"object","properties":{}}}]}`, "runs tools of its own",
		},
		{
			"results", "/v1/responses",
			`{"model":"coder","input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"ls",` +
				`"arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`, "calls and results of tools",
		},
		{
			"a file", "/v1/responses",
			`{"model":"coder","input":[{"role":"user","content":[{"type":"input_file",` +
				`"file_data":"data:application/pdf;base64,AA=="}]}]}`, "texts and images",
		},
	} {
		res := p.post(c.path, c.body)
		raw, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusBadRequest ||
			!strings.Contains(gjson.GetBytes(raw, "error.message").Str, c.want) {
			t.Errorf("%s: %s, %v: %s", c.name, res.Status, err, raw)
		}
	}
	if n := len(a.seen()); n > 0 {
		t.Errorf("%d requests went upstream", n)
	}
	// Tools that are not to be called are left out; images go; who keeps its own account passes.
	for i, body := range []string{
		`{"model":"coder","tool_choice":"none","tools":[{"type":"function","name":"ls"}],"input":"hi"}`,
		`{"model":"coder","input":[{"role":"user","content":[{"type":"input_text","text":"What is it?"},` +
			`{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}]}`,
	} {
		if res := p.post("/v1/responses", body); res.StatusCode != http.StatusOK ||
			strings.Contains(a.seen()[i], "tool_choice") {
			t.Errorf("%s: %s", body, res.Status)
		}
	}
	if got := a.talk(); got[0] != "user: What is it?+data:image/png;base64,AA==" {
		t.Errorf("the model has seen %q", got)
	}
	body := `{"model":"coder","previous_response_id":"resp_letta_","input":"hi"}`
	if res := p.post("/v1/responses", body); res.StatusCode != http.StatusNotFound || a.seen()[2] != body {
		t.Errorf("a client with an account of its own: %s, %s", res.Status, a.seen()[2])
	}
}
