// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
)

// TestNamedSession: who names a session sends what is new, and is told if it is not known.
func TestNamedSession(t *testing.T) {
	status := http.StatusOK
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if status != http.StatusOK {
			http.Error(w, "busy", status)
			return
		}
		answerMessage(w, r, n)
	})
	site := "llm_cache_origin {\n sessions on\n}\nreverse_proxy " + u.Listener.Addr().String()
	p := start(t, site)
	ask := func(want int, path, body, to string, headers ...string) {
		t.Helper()
		before := len(u.requests())
		res := p.post(path, body, append([]string{"X-Api-Key", "a"}, headers...)...)
		answer := read(t, res)
		if res.StatusCode != want {
			t.Fatalf("status %d, want %d: %s", res.StatusCode, want, answer)
		}
		if to == "" {
			if len(u.requests()) != before {
				t.Errorf("the model was asked %s", u.last().body)
			}
			if want == http.StatusNotFound && !strings.HasPrefix(gjson.Get(answer, "error.message").Str, "session not found") {
				t.Errorf("the client is told %s", answer)
			}
			return
		}
		if got := u.last(); got.body != to || got.length != int64(len(to)) {
			t.Errorf("the model got\n%s\nwant\n%s", got.body, to)
		}
	}
	const messages, chat = "/v1/messages", "/v1/chat/completions"
	const news = `{"sessionId":"s 1","messages":[{"role":"assistant","content":"Hi."},{"role":"user","content":"Go on."}]}`
	ask(404, messages, news, "")
	ask(200, messages,
		`{"sessionId":"s 1","model":"m","max_tokens":1.0,"system":"S","messages":[{"role":"user","content":"h\u00e9"}],`+
			`"tools":[{"name":"t"}]}`,
		`{"model":"m","max_tokens":1.0,"system":"S","messages":[{"role":"user","content":"h\u00e9"}],"tools":[{"name":"t"}]}`)
	const second = `{"model":"m","max_tokens":1.0,"system":"S","messages":[{"role":"user","content":"h\u00e9"},` +
		`{"role":"assistant","content":"Hi."},{"role":"user","content":"Go on."}],"tools":[{"name":"t"}]}`
	status = http.StatusServiceUnavailable
	ask(503, messages, news, second)
	status = http.StatusOK
	ask(200, messages, news, second)
	ask(200, messages, news, second) // its answer was lost
	// A client whose stream broke asks for the same in one piece.
	ask(200, messages, strings.Replace(news, `{`, `{"stream":false,`, 1), strings.TrimSuffix(second, "}")+
		`,"stream":false}`)
	ask(404, messages, news, "", "X-Api-Key", "b")
	ask(200, messages,
		`{"messages":[{"role":"assistant","content":"Yes."}, {"role":"user","content":"More."}],"max_tokens":2,`+
			`"sessionId":"s 1","stream":true}`,
		strings.NewReplacer(`"Go on."}`, `"Go on."},{"role":"assistant","content":"Yes."}, {"role":"user","content":"More."}`,
			`1.0`, `2`, `"t"}]}`, `"t"}],"stream":true}`).Replace(second))
	ask(400, messages, `{"sessionId":"s 1","messages":"more"}`, "")

	// Chat completions have the system prompt among the messages; another session is another.
	ask(404, chat, `{"sessionId":"s 2","messages":[{"role":"user","content":"b"}]}`, "")
	ask(200, chat,
		`{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}],"sessionId":"s 2"}`,
		`{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a"}]}`)
	ask(200, chat, `{"sessionId":"s 2","messages":[{"role":"user","content":"b"}]}`,
		`{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"a"},{"role":"user",`+
			`"content":"b"}]}`)

	// A Responses request may begin with a text in the place of a list.
	ask(200, "/v1/responses", `{"model":"m","instructions":"S","input":"a\u00e9","sessionId":"s 3"}`,
		`{"model":"m","instructions":"S","input":"a\u00e9"}`)
	ask(200, "/v1/responses",
		`{"sessionId":"s 3","input":[{"role":"assistant","content":"Hi."},{"role":"user","content":"b"}]}`,
		`{"model":"m","instructions":"S","input":[{"role":"user","content":"a\u00e9"},{"role":"assistant",`+
			`"content":"Hi."},{"role":"user","content":"b"}]}`)

	// What names no session passes, and what a restart has forgotten is not made up.
	ask(200, messages, `{"model":"m","messages":[{"role":"user","content":"h"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"h"}]}`)
	p.reload("reverse_proxy " + u.Listener.Addr().String())
	p.reload(site)
	ask(404, chat, `{"sessionId":"s 2","messages":[{"role":"user","content":"b"}]}`, "")
}

// TestNamedSessionElsewhere: a name is a name at one model and in one API. A client may well
// give the same to all that it talks with for one task.
func TestNamedSessionElsewhere(t *testing.T) {
	a, b := newUpstream(t, answerMessage), newUpstream(t, answerMessage)
	site := ""
	for path, u := range map[string]*upstream{"a": a, "b": b} {
		site += "handle_path /" + path + "/* {\nllm_cache_origin {\nsessions on\n}\nreverse_proxy " +
			u.Listener.Addr().String() + "\n}\n"
	}
	p := start(t, site)
	ask := func(want int, path, body string) {
		t.Helper()
		if res := p.post(path, body, "X-Api-Key", "a"); res.StatusCode != want {
			t.Fatalf("%s: status %d, want %d: %s", path, res.StatusCode, want, read(t, res))
		}
	}
	const news = `{"sessionId":"build-7","messages":[{"role":"user","content":"on"}]}`
	for _, path := range []string{"/a/v1/messages", "/b/v1/messages", "/a/v1/chat/completions"} {
		ask(404, path, news)
		ask(200, path, `{"sessionId":"build-7","model":"m","system":"`+path+`","messages":[{"role":"user","content":"go"}]}`)
	}
	for path, u := range map[string]*upstream{"/a/v1/messages": a, "/b/v1/messages": b, "/a/v1/chat/completions": a} {
		ask(200, path, news)
		if got := gjson.Get(u.last().body, "system").Str; got != path {
			t.Errorf("what was said at %s reached the model behind what was said at %s", path, got)
		}
	}
}

// TestNamedSessionBounds: a session makes no larger bodies than any request may have, nor
// takes memory for them that is not there.
func TestNamedSessionBounds(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache_origin {\nsessions on\nmax_body 64KiB\n}\nreverse_proxy "+u.Listener.Addr().String())
	ask := func(body string) (status int, answer string) {
		res := p.post("/v1/messages", body, "X-Api-Key", "a")
		return res.StatusCode, read(t, res)
	}
	long := `"messages":[{"role":"user","content":"` + strings.Repeat("x", 40<<10) + `"}]}`
	if status, answer := ask(`{"sessionId":"s","model":"m","system":"S",` + long); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	status, answer := ask(`{"sessionId":"s",` + long)
	if status != http.StatusRequestEntityTooLarge || len(u.requests()) != 1 || gjson.Get(answer, "error.type").Str == "" {
		t.Errorf("status %d, %s; the model got %d bytes", status, answer, len(u.last().body))
	}

	room := budget.Of(p.caddy.Instance).Limit()
	defer budget.Of(p.caddy.Instance).Resize(room)
	budget.Of(p.caddy.Instance).Resize(32 << 10)
	taken := budget.Of(p.caddy.Instance).Open()
	defer taken.Close()
	if err := taken.Grow(t.Context(), 8<<10); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, body := range []string{
		`{"sessionId":"s","messages":[{"role":"user","content":"on"}]}`,
		`{"model":"m",` + long,
	} {
		all.Go(func() {
			if status, answer := ask(body); status != http.StatusServiceUnavailable ||
				gjson.Get(answer, "error.type").Str == "" {
				t.Errorf("without room %d bytes are answered by %d, %s", len(body), status, answer)
			}
		})
	}
	all.Wait()
	if n := len(u.requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
