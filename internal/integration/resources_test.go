// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// do sends a request without a body.
func (p *proxy) do(method, path string, headers ...string) (status int, body string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.addr+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Host = p.host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// besides are the requests that the APIs have beside those for answers.
var besides = []struct {
	method, path string
	passes       bool   // to whatever stands behind
	missing      string // what the API says of it, where nobody has it
}{
	{
		"GET", "/v1/responses/resp_1", false,
		`{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,` +
			`"code":null}}`,
	},
	{
		"GET", "/v1/responses/resp_1?stream=true&starting_after=7", false,
		`{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,` +
			`"code":null}}`,
	},
	{
		"DELETE", "/v1/responses/resp_1", false,
		`{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,` +
			`"code":null}}`,
	},
	{
		"GET", "/v1/responses/resp_1/input_items?limit=20", false,
		`{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,` +
			`"code":null}}`,
	},
	{
		"POST", "/v1/responses/resp_1/cancel", false,
		`{"error":{"message":"Response with id 'resp_1' not found.","type":"invalid_request_error","param":null,` +
			`"code":null}}`,
	},
	// none of ours
	{
		"GET", "/v1/responses/f81d4fae", true,
		`{"error":{"message":"no such path","type":"invalid_request_error","param":null,"code":null}}`,
	},
	{
		"GET", "/v1/chat/completions/chatcmpl-1", false,
		`{"error":{"message":"Chat completion with id 'chatcmpl-1' not found.","type":"invalid_request_error",` +
			`"param":null,"code":null}}`,
	},
	{
		"POST", "/v1/chat/completions/chatcmpl-1", false,
		`{"error":{"message":"Chat completion with id 'chatcmpl-1' not found.","type":"invalid_request_error",` +
			`"param":null,"code":null}}`,
	},
	{
		"DELETE", "/v1/chat/completions/chatcmpl-1", false,
		`{"error":{"message":"Chat completion with id 'chatcmpl-1' not found.","type":"invalid_request_error",` +
			`"param":null,"code":null}}`,
	},
	{
		"GET", "/v1/chat/completions/chatcmpl-1/messages", false,
		`{"error":{"message":"Chat completion with id 'chatcmpl-1' not found.","type":"invalid_request_error",` +
			`"param":null,"code":null}}`,
	},
	{
		"GET", "/v1/chat/completions?model=m", true,
		`{"error":{"message":"no such path","type":"invalid_request_error","param":null,"code":null}}`,
	},
	{"POST", "/v1/messages/batches", true, `{"type":"error","error":{"type":"not_found_error","message":"no such path"}}`},
	{"GET", "/v1/messages/batches", true, `{"type":"error","error":{"type":"not_found_error","message":"no such path"}}`},
	{
		"GET", "/v1/messages/batches/msgbatch_1", true,
		`{"type":"error","error":{"type":"not_found_error","message":"no such path"}}`,
	},
	{
		"GET", "/v1/messages/batches/msgbatch_1/results", true,
		`{"type":"error","error":{"type":"not_found_error","message":"no such path"}}`,
	},
	{
		"POST", "/v1/messages/batches/msgbatch_1/cancel", true,
		`{"type":"error","error":{"type":"not_found_error","message":"no such path"}}`,
	},
	{
		"DELETE", "/v1/messages/batches/msgbatch_1", true,
		`{"type":"error","error":{"type":"not_found_error","message":"no such path"}}`,
	},
	{"POST", "/v1beta/cachedContents", true, `{"error":{"code":404,"message":"no such path","status":"NOT_FOUND"}}`},
	{"GET", "/v1beta/cachedContents/c1", true, `{"error":{"code":404,"message":"no such path","status":"NOT_FOUND"}}`},
	{"PATCH", "/v1beta/cachedContents/c1", true, `{"error":{"code":404,"message":"no such path","status":"NOT_FOUND"}}`},
	{"DELETE", "/v1beta/cachedContents/c1", true, `{"error":{"code":404,"message":"no such path","status":"NOT_FOUND"}}`},
	{
		"POST", "/v1beta/models/m:embedContent", true,
		`{"error":{"code":404,"message":"no such path","status":"NOT_FOUND"}}`,
	},
	{
		"POST", "/v1beta/models/m:batchGenerateContent", true,
		`{"error":{"code":404,"message":"no such path","status":"NOT_FOUND"}}`,
	},
	{
		"GET", "/v1beta/interactions/v1_1", false,
		`{"error":{"message":"The interaction 'v1_1' was not found.","code":"not_found"}}`,
	},
	{
		"DELETE", "/v1beta/interactions/v1_1", false,
		`{"error":{"message":"The interaction 'v1_1' was not found.","code":"not_found"}}`,
	},
	{
		"POST", "/v1beta/interactions/v1_1/cancel", false,
		`{"error":{"message":"The interaction 'v1_1' was not found.","code":"not_found"}}`,
	},

	// Nobody can say whose these are: they pass, and so does what is said of them.
	{"GET", "/v1/models", true, ""},
	{"GET", "/v1/models/m", true, ""},
	{"GET", "/v1beta/models?pageSize=9", true, ""},
	{"POST", "/v1/conversations", true, ""},
	{"GET", "/v1/conversations/conv_1", true, ""},
	{"DELETE", "/v1/conversations/conv_1", true, ""},
	{"GET", "/v1/conversations/conv_1/items", true, ""},
	{"POST", "/v1/files", true, ""},
	{"GET", "/v1/batches/batch_1", true, ""},
	{"HEAD", "/", true, ""},
}

// formatOf is the format of an API by a path of it, for configurations.
func formatOf(path string) string {
	switch {
	case strings.Contains(path, "/responses/"):
		return "openai_responses"
	case strings.Contains(path, "/chat/completions"):
		return "openai_chat"
	case strings.Contains(path, "/messages/"):
		return "anthropic"
	case strings.Contains(path, "/interactions/"):
		return "interactions"
	case strings.Contains(path, "/cachedContents"), strings.Contains(path, "/models/m:"):
		return "gemini"
	}
	return ""
}

// TestBesides: what is asked beside answers reaches an API of the client's own untouched, and so
// does what it says. Where answers are translated, nobody keeps them, and errors are the
// client's own; what an upstream has after all passes.
func TestBesides(t *testing.T) {
	const has = `{"object":"whatever","id":"x"}`
	lacks := `{"detail":"no such path"}`
	status, said := http.StatusOK, has
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Upstream", "1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, said)
	})
	for _, site := range []string{
		"", "retain threads on", "retain websocket on", "retain origin", "upstream openai",
		"upstream openai\nretain websocket on",
		"upstream anthropic", "upstream gemini", "upstream mlx_lm", "upstream {\nformat anthropic\n}",
		"upstream {\nformat openai_chat\n}", "upstream {\nformat openai_responses\n}",
		"upstream {\nformat gemini\n}", "upstream {\nformat interactions\n}",
	} {
		t.Run(strings.NewReplacer("\n", " ", "{", "", "}", "").Replace(site), func(t *testing.T) {
			p := start(t, "llm_cache {\n"+site+"\n}\nreverse_proxy "+u.Listener.Addr().String())
			native := map[string]bool{"": true}
			for f := range strings.SplitSeq(speaks(site), " ") {
				native[f] = true
			}
			for _, c := range besides {
				for _, there := range []bool{true, false} {
					if status, said = http.StatusOK, has; !there {
						status, said = http.StatusNotFound, lacks
					}
					before := len(u.requests())
					got, body := p.do(c.method, c.path, "Authorization", "Bearer a", "X-Api-Key", "a", "X-Goog-Api-Key", "a")
					passed := len(u.requests()) > before
					f := formatOf(c.path)
					mine := native[f] || native["any"] || f == ""
					what := fmt.Sprintf("%s %s, there %t, native %t: %d %s, passed %t", c.method, c.path, there, mine, got,
						body, passed)
					if passed != (mine || c.passes) {
						t.Error(what)
						continue
					}
					if passed && (u.last().method != c.method || u.last().path != strings.Split(c.path, "?")[0] ||
						u.last().header.Get("Authorization") != "Bearer a") {
						t.Errorf("%s: sent %+v", what, u.last())
					}
					switch {
					case passed && (mine || there): // untouched
						if c.method == http.MethodHead {
							said = ""
						}
						if got != status || body != said {
							t.Error(what)
						}
					case got != http.StatusNotFound || body != c.missing:
						t.Errorf("%s; want %s", what, c.missing)
					}
				}
			}
		})
	}
}

// speaks are the formats that a site sends on as they are.
func speaks(site string) string {
	for line := range strings.SplitSeq(site, "\n") {
		if f, ok := strings.CutPrefix(line, "format "); ok {
			return f
		}
		switch line {
		case "upstream anthropic":
			return "anthropic"
		case "upstream gemini":
			return "gemini interactions openai_chat"
		case "upstream openai":
			return "openai_responses openai_chat"
		case "upstream mlx_lm":
			return "openai_chat"
		}
	}
	return "any"
}

// TestDeleted: what a client has had deleted is forgotten here, too, once its provider has
// deleted it or does not know it. Nobody else can have that done.
func TestDeleted(t *testing.T) {
	status, n := http.StatusOK, 0
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			n++
			_, _ = io.WriteString(w, strings.Replace(completed, "resp_1", fmt.Sprintf("resp_%d", n), 1))
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"said":"by the provider"}`)
	})
	p := start(t, "llm_cache {\nupstream openai\n}\nreverse_proxy "+u.Listener.Addr().String())
	ask := func(key, previous, input string) (id, retained string) {
		t.Helper()
		if previous != "" {
			previous = `"previous_response_id":"` + previous + `",`
		}
		res := p.post("/v1/responses", `{"model":"gpt-5.6",`+previous+
			`"tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}],"input":[{"role":"user","content":"`+
			input+`"}]}`, "Authorization", "Bearer "+key)
		answer := read(t, res)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s of %s", res.StatusCode, answer, u.last().body)
		}
		return gjson.Get(answer, "id").Str, res.Header.Get("X-Llm-Cache-Retained")
	}
	known := func(key, id string, want bool) {
		t.Helper()
		_, retained := ask(key, id, "And?")
		if (retained != "") != want {
			t.Errorf("going on from %s is held %q, want %t", id, retained, want)
		}
		if sent := gjson.Parse(u.last().body); !want &&
			(sent.Get("previous_response_id").Str != id || sent.Get("input.#").Int() != 1) {
			t.Errorf("going on from %s, which is forgotten: %s", id, sent)
		}
	}
	id, _ := ask("a", "", "One?")
	known("a", id, true)
	for _, c := range []struct {
		name, key, path string
		status          int
		known           bool
	}{
		{"another's", "b", "/v1/responses/", http.StatusNotFound, true},
		{"under another address", "a", "/other/v1/responses/", http.StatusNotFound, true},
		{"not at all", "a", "/v1/responses/", http.StatusInternalServerError, true},
		{"denied", "a", "/v1/responses/", http.StatusUnauthorized, true},
		{"deleted", "a", "/v1/responses/", http.StatusOK, false},
		{"long gone", "a", "/v1/responses/", http.StatusNotFound, false},
	} {
		status = c.status
		id, _ := ask("a", "", c.name)
		next, _ := ask("a", id, "Two?")
		if got, body := p.do(http.MethodDelete, c.path+id, "Authorization", "Bearer "+c.key); got != c.status ||
			body != `{"said":"by the provider"}` || u.last().method != http.MethodDelete {
			t.Errorf("%s: %d %s", c.name, got, body)
		}
		known("a", id, c.known)
		known("a", next, c.known) // the deleted answer stands in it
	}
	status = http.StatusOK
	id, _ = ask("a", "", "Last?")
	p.do(http.MethodGet, "/v1/responses/"+id, "Authorization", "Bearer a")
	known("a", id, true)
}

// TestDeletedSigned: requests without a body are signed with the operator's key as well, and
// what is deleted so is forgotten for whoever has asked.
func TestDeletedSigned(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDOPERATOR")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "operator's secret")
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) { answerResponse(w, r, 0) })
	p := start(t, "llm_cache {\nupstream {\nformat openai_responses\nregion eu-central-1\n}\n}\nreverse_proxy "+
		u.Listener.Addr().String())
	ask := func(previous string) string {
		res := p.post("/v1/responses", `{"model":"gpt-5.6",`+previous+
			`"tools":[{"type":"function","name":"Bash","parameters":{"type":"object"}}],"input":[{"role":"user",`+
			`"content":"Hi"}]}`, "X-Api-Key", "a")
		read(t, res)
		return res.Header.Get("X-Llm-Cache-Retained")
	}
	const previous = `"previous_response_id":"resp_1",`
	ask("")
	if ask(previous) == "" {
		t.Error("the answer is not known")
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if status, body := p.do(method, "/v1/responses/resp_1", "X-Api-Key", "a"); status != http.StatusOK ||
			body != completed {
			t.Errorf("%s: %d %s", method, status, body)
		}
		if got := u.last(); got.method != method || !strings.HasPrefix(got.header.Get("Authorization"),
			"AWS4-HMAC-SHA256 Credential=AKIDOPERATOR/") {
			t.Errorf("%s went as %+v", method, got)
		}
	}
	if retained := ask(previous); retained != "" {
		t.Errorf("the answer is known: %s", retained)
	}
}

// TestDeletedFromAgents: an agent of Letta's does not go on from what its client has had
// deleted: it is emptied, and told all that the client says.
func TestDeletedFromAgents(t *testing.T) {
	s := newRESTServer(t)
	p := start(t, withAgents(s, ""))
	said := `{"role":"user","content":"one"}`
	ask := func() (id, retained string) {
		t.Helper()
		res := p.post("/v1/responses", `{"model":"coder","instructions":"Be brief.","input":[`+said+`]}`, "Authorization",
			"Bearer a")
		answer := gjson.Parse(read(t, res))
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", res.StatusCode, answer)
		}
		said += `,{"role":"assistant","content":` + answer.Get("output.0.content.0.text").Raw +
			`},{"role":"user","content":"more"}`
		return answer.Get("id").Str, res.Header.Get("X-Llm-Cache-Retained")
	}
	ask()
	id, retained := ask()
	if !strings.HasPrefix(retained, "delta") {
		t.Errorf("the second request went %s", retained)
	}
	p.do(http.MethodDelete, "/v1/responses/"+id, "Authorization", "Bearer b")
	if id, retained = ask(); !strings.HasPrefix(retained, "delta") {
		t.Errorf("after another's request the next one went %s", retained)
	}
	p.do(http.MethodDelete, "/v1/responses/"+id, "Authorization", "Bearer a")
	s.asked()
	if _, retained = ask(); !strings.HasPrefix(retained, "whole; cause=new") {
		t.Errorf("after it was deleted the next one went %s", retained)
	}
	if calls, _ := s.asked(); calls != "PATCH reset-messages" {
		t.Errorf("the server was asked for %q", calls)
	}
}

// TestDeletedFromSockets: what is kept of a conversation for a client's WebSocket, and nowhere
// else, is deleted there.
func TestDeletedFromSockets(t *testing.T) {
	for name, site := range map[string]string{"translated": "upstream anthropic", "unstored": "upstream openai"} {
		t.Run(name, func(t *testing.T) {
			u := provider(t)
			p := start(t, "llm_cache {\n"+site+"\n}\nreverse_proxy "+u.Listener.Addr().String())
			s := p.socket(t, "Authorization", "Bearer a")
			first := s.ask(socketCreate("", `"One?"`))
			id := first.Get("response.id").Str
			if got, body := p.do(http.MethodDelete, "/v1/responses/"+id, "Authorization",
				"Bearer b"); got != http.StatusNotFound {
				t.Errorf("another deletes it: %d %s", got, body)
			}
			second := s.ask(socketCreate(socketPrevious(first), `"Two?"`))
			id = second.Get("response.id").Str
			got, body := p.do(http.MethodDelete, "/v1/responses/"+id, "Authorization", "Bearer a")
			if want := `{"id":"` + id + `","object":"response","deleted":true}`; got != http.StatusOK || body != want {
				t.Errorf("%d %s, want %s", got, body, want)
			}
			s.refused(socketCreate(socketPrevious(second), `"Three?"`), "previous_response_not_found", 400)
			if got, body := p.do(http.MethodDelete, "/v1/responses/"+id, "Authorization",
				"Bearer a"); got != http.StatusNotFound {
				t.Errorf("once more: %d %s", got, body)
			}
		})
	}
}
