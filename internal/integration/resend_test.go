// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestResend sends the original once when an edited request was refused, through
// route groups that let a request pass only once.
func TestResend(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-First", "yes")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w,
			`{"type":"error","error":{"type":"invalid_request_error","message":"messages.3.content.0: tool_use ids were `+
				`found without tool_result blocks"}}`)
	})
	site := "route {\n" + strings.Replace(eager(u), "reverse_proxy",
		"handle /v1/* {\n uri strip_prefix /v1\n reverse_proxy", 1) +
		" {\n header_up X-Var {vars.team}\n }\n }\n handle {\n respond 404\n }\n}"
	p := start(t, "vars team red\n"+site)
	before := p.metric(resendsAccepted)
	body := conversation(9, false)
	res := p.post("/v1/messages", gzipped(t, body), "Content-Encoding", "gzip")
	if res.StatusCode != http.StatusOK || read(t, res) != message {
		t.Fatalf("status %d", res.StatusCode)
	}
	got := u.requests()
	if len(got) != 2 {
		t.Fatalf("upstream got %d requests, want 2", len(got))
	}
	if len(got[0].body) >= len(body) || got[0].header.Get("Content-Encoding") != "" {
		t.Error("the first request was not edited")
	}
	if got[1].body != gzipped(t, body) || got[1].header.Get("Content-Encoding") != "gzip" {
		t.Error("the second request was not the original")
	}
	for i, r := range got {
		if r.path != "/messages" || r.header.Get("X-Var") != "red" || r.header.Get("Accept-Encoding") != "identity" {
			t.Errorf("request %d: path %s, headers %v", i, r.path, r.header)
		}
	}
	h := res.Header
	if len(h["Via"]) != 1 || len(h["Content-Type"]) != 1 || h.Get("X-First") != "" {
		t.Errorf("headers are %v", h)
	}
	if h.Get("X-Llm-Cache-Transforms") != "none;resent" || h.Get("X-Llm-Cache-Saved-Tokens") != "0" {
		t.Errorf("headers are %v", h)
	}
	if p.metric(resendsAccepted) != before+1 {
		t.Error("not counted")
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
		t.Errorf("sessions are %v, want one with one request", s)
	}

	// From here on the conversation is left alone.
	longer := conversation(10, false)
	if read(t, p.post("/v1/messages", longer)); len(u.last().body) < len(longer) {
		t.Error("the text was edited again")
	}
}

// What was sent more than once is counted by its outcome.
const (
	resendsAccepted = `caddy_llm_cache_resends_total{outcome="accepted"}`
	resendsRefused  = `caddy_llm_cache_resends_total{outcome="refused"}`
	resendsLeftOut  = `caddy_llm_cache_resends_left_out_total`
)

// TestResendAfter: any refusal of an edited request is followed by the client's own, in
// whatever words and by whatever status it came.
func TestResendAfter(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"words", `{"error":{"message":"messages.2.content.0: Invalid signature"}}`, 400},
		{"no words", "", 400},
		{"a page", "<html><body>Bad Request</body></html>", 400},
		{"a long page", strings.Repeat("no ", 100_000), 400},
		{"forbidden", `{"error":{"message":"not with this key"}}`, 403},
		{"not found", `{"error":{"message":"no such route"}}`, 404},
		{"a conflict", "{}", 409},
		{"not to be processed", `{"detail":[{"msg":"extra fields not permitted"}]}`, 422},
		{"a teapot", "", 418},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
				if n > 1 {
					answerMessage(w, r, n)
					return
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			p := start(t, eager(u))
			body := conversation(9, false)
			if res := p.post("/v1/messages", body); res.StatusCode != 200 || read(t, res) != message || len(u.requests()) != 2 ||
				u.last().body != body {
				t.Errorf("status %d after %d requests", res.StatusCode, len(u.requests()))
			}
		})
	}
}

// TestAcquitted: where the original is refused as the edited request was, the
// client has its answer, and the conversation goes on being edited.
func TestAcquitted(t *testing.T) {
	const refusal = "messages.2.content.0: Invalid `signature` in `thinking` block."
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 2 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Request-Id", "req_"+strconv.Itoa(n))
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, refusal)
	})
	p := start(t, eager(u))
	res := p.post("/v1/messages", conversation(9, false))
	if got := read(t, res); res.StatusCode != http.StatusBadRequest || got != refusal ||
		res.Header.Get("Request-Id") != "req_2" || len(u.requests()) != 2 {
		t.Errorf("%d, %s, %v after %d requests", res.StatusCode, got, res.Header, len(u.requests()))
	}
	body := conversation(10, false)
	if read(t, p.post("/v1/messages", body)); len(u.last().body) >= len(body) {
		t.Error("the conversation is not edited any more")
	}
}

// TestOtherErrors reach the client as they are, once: they say nothing about the request,
// or nothing was edited.
func TestOtherErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  int
		body    string
		edited  bool
		refused int // requests
	}{
		{"client's own 400", 400, `{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, false, 1},
		{
			"client's own 400, edited", 400, `{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, true,
			2,
		},
		{"long 400, edited", 400, `{"error":{"message":"` + strings.Repeat("tool_use ", 10_000) + `"}}`, true, 2},
		{"credential", 401, `{"error":{"message":"tool_use"}}`, true, 1},
		{"payment", 402, `{"error":{"message":"tool_use"}}`, true, 1},
		{"timeout", 408, "", true, 1},
		{"too large", 413, `{"error":{"message":"thinking"}}`, true, 1},
		{"rate limit", 429, `{"error":{"message":"slow down"}}`, true, 1},
		{"server", 500, `{"error":{"message":"tool_use thinking"}}`, true, 1},
		{"overloaded", 529, `{"error":{"message":"tool_use thinking"}}`, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Request-Id", "req_1")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			turns := 0
			if test.edited {
				turns = 9
			}
			p := start(t, eager(u))
			res := p.post("/v1/messages", conversation(turns, false))
			if res.StatusCode != test.status || read(t, res) != test.body || res.Header.Get("Request-Id") != "req_1" {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
			if res.Header.Get("X-Llm-Cache-Session") == "" || len(res.Header["Via"]) != 1 {
				t.Errorf("headers are %v", res.Header)
			}
			if n := len(u.requests()); n != test.refused {
				t.Errorf("upstream got %d requests, want %d", n, test.refused)
			}
			if s := p.sessions(); len(s) != 0 {
				t.Errorf("sessions are %v, want none", s)
			}
		})
	}
}

// TestMappedRefusals: what the site makes of the upstream's status hides no refusal, and
// makes none.
func TestMappedRefusals(t *testing.T) {
	for _, c := range []struct {
		name, proxy string // the directives behind, with %s for the upstream
		status      int    // of the upstream
		requests    int
		want        int // what the client gets where the upstream refuses the original, too
	}{
		{"replace_status", "reverse_proxy %s {\n@bad status 4xx\nreplace_status @bad 500\n}", 400, 2, 500},
		{"replace_status to 200", "reverse_proxy %s {\n@bad status 4xx\nreplace_status @bad 200\n}", 422, 2, 200},
		{
			"handle_response that responds",
			"reverse_proxy %s {\n@bad status 4xx\nhandle_response @bad {\nrespond mapped 503\n}\n}", 403, 2, 503,
		},
		{
			"handle_response that copies",
			"reverse_proxy %s {\n@bad status 4xx\nhandle_response @bad {\ncopy_response 502\n}\n}", 400, 2, 502,
		},
		{
			"handle_response that fails", "reverse_proxy %s {\n@bad status 4xx\nhandle_response @bad {\nerror mapped 500\n}\n}",
			400, 2, 500,
		},
		{"intercept", "intercept {\n@bad status 4xx\nreplace_status @bad 500\n}\nreverse_proxy %s", 400, 2, 500},
		{
			"intercept that responds",
			"intercept {\n@bad status 4xx\nhandle_response @bad {\nrespond `{\"error\":{\"message\":\"NO\"}}` " +
				"503\n}\n}\nreverse_proxy %s", 400, 2, 503,
		},
		{"a failure that looks like one", "reverse_proxy %s {\n@bad status 5xx\nreplace_status @bad 400\n}", 500, 1, 400},
		{"a rate limit that looks like one", "reverse_proxy %s {\n@bad status 429\nreplace_status @bad 400\n}", 429, 1, 400},
	} {
		for _, accepts := range []bool{true, false} {
			t.Run(c.name+map[bool]string{true: ", accepted", false: ", refused again"}[accepts], func(t *testing.T) {
				u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
					if accepts && n > 1 {
						answerMessage(w, r, n)
						return
					}
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
				})
				edits, _, _ := strings.Cut(eager(u), "reverse_proxy")
				want := c.want
				if accepts && c.requests > 1 {
					want = 200
				}
				p := start(t, "route {\n"+edits+fmt.Sprintf(c.proxy, u.Listener.Addr())+"\n}")
				body := conversation(9, false)
				res := p.post("/v1/messages", body)
				if got := read(t, res); res.StatusCode != want || want == 200 && accepts && got != message {
					t.Errorf("got %d %s, want %d", res.StatusCode, got, want)
				}
				got := u.requests()
				if len(got) != c.requests {
					t.Fatalf("upstream got %d requests, want %d", len(got), c.requests)
				}
				if c.requests > 1 && got[1].body != body {
					t.Errorf("the second request is not the original: of %d bytes, then of %d, not %d", len(got[0].body),
						len(got[1].body), len(body))
				}
			})
		}
	}
}

// A refusal that is cut is one all the same.
func TestResendAfterCutRefusal(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	p := start(t, eager(u))
	if res := p.post("/v1/messages", conversation(9, false)); res.StatusCode != 200 || len(u.requests()) != 2 ||
		len(u.last().body) != len(conversation(9, false)) {
		t.Errorf("status %d after %d requests", res.StatusCode, len(u.requests()))
	}
}

// The status of another reverse_proxy in front is not the upstream's.
func TestResendBehindForwardAuth(t *testing.T) {
	gate := newUpstream(t, func(http.ResponseWriter, *http.Request, int) {})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	p := start(t, "forward_auth "+gate.Listener.Addr().String()+" {\nuri /\n}\n"+eager(u))
	if res := p.post("/v1/messages", conversation(9, false)); res.StatusCode != 200 || len(u.requests()) != 2 {
		t.Errorf("status %d after %d requests, want 200 after 2", res.StatusCode, len(u.requests()))
	}
}

// agentic is the first request of an agent's conversation.
func agentic(name string) string {
	return fmt.Sprintf(`{"model":"claude-sonnet-5","max_tokens":10,"system":%q,"tools":[{"name":"Bash",`+
		`"input_schema":{"type":"object"}},{"name":"Read","input_schema":{"type":"object"}}],"messages":[{"role":"user",`+
		`"content":%q}]}`,
		strings.Repeat("Follow the rules of the house. ", 600), name)
}

// TestRefusedTool: an upstream that takes no tool but the client's costs each conversation one
// request, until two tenants have shown it; one tenant alone changes no other's requests.
func TestRefusedTool(t *testing.T) {
	var u *upstream
	u = newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if strings.Contains(u.last().body, "llm_cache") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		answerMessage(w, r, n)
	})
	p := start(t, plain(u))
	for _, c := range []struct {
		key, name string
		requests  int
	}{
		{"anna", "one", 2},
		{"anna", "two", 2}, // one tenant shows nothing about others
		{"ben", "three", 2},
		{"carla", "four", 1},
		{"anna", "five", 1},
	} {
		n := len(u.requests())
		res := p.post("/v1/messages", agentic(c.name), "Authorization", "Bearer sk-"+c.key)
		if got := len(u.requests()) - n; read(t, res) != message || got != c.requests {
			t.Errorf("%s of %s: status %d after %d requests, want %d", c.name, c.key, res.StatusCode, got, c.requests)
		}
		// From here on the conversation goes without.
		n = len(u.requests())
		longer := strings.Replace(agentic(c.name), "}]}",
			`},{"role":"assistant","content":"Done."},{"role":"user","content":"go on"}]}`, 1)
		if res = p.post("/v1/messages", longer, "Authorization", "Bearer sk-"+c.key); read(t, res) != message ||
			len(u.requests()) != n+1 {
			t.Errorf("%s of %s goes on: status %d after %d requests, want 1", c.name, c.key, res.StatusCode, len(u.requests())-n)
		}
	}
}

// TestLoopOfRefusals: a client whose own requests are refused does not double the load.
func TestLoopOfRefusals(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, strconv.Itoa(n))
	})
	p := start(t, eager(u))
	refused, leftOut := p.metric(resendsRefused), p.metric(resendsLeftOut)
	const requests = 30
	for range requests {
		if res := p.post("/v1/messages", conversation(9, false)); res.StatusCode != 400 ||
			read(t, res) != strconv.Itoa(len(u.requests())) {
			t.Fatalf("status %d", res.StatusCode)
		}
	}
	twice := len(u.requests()) - requests
	if twice < 1 || twice > requests/3 {
		t.Errorf("%d of %d requests were sent twice", twice, requests)
	}
	if got := p.metric(resendsRefused) - refused; got != float64(twice) {
		t.Errorf("%v are counted, want %d", got, twice)
	}
	if got := p.metric(resendsLeftOut) - leftOut; got != float64(requests-twice) {
		t.Errorf("%v are counted as left out, want %d", got, requests-twice)
	}
}

// TestResendOfTranslation: what a translation adds of its own is left out, too.
func TestResendOfTranslation(t *testing.T) {
	for _, c := range []struct {
		name, site, path, body, added string
		answer                        func(http.ResponseWriter, *http.Request, int)
	}{
		{
			"marker", "upstream anthropic", "/v1/chat/completions",
			`{"model":"claude-sonnet-5","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],` +
				`"messages":[{"role":"user","content":"Hi"}]}`, "cache_control", answerMessage,
		},
		{
			"cache key", "upstream openai", "/v1/messages",
			`{"model":"gpt-6.1","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`, "prompt_cache_key", answerResponse,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
				if n > 1 {
					c.answer(w, r, n)
					return
				}
				w.WriteHeader(http.StatusUnprocessableEntity)
			})
			p := start(t, "llm_cache {\n"+c.site+"\n}\nreverse_proxy "+u.Listener.Addr().String())
			res := p.post(c.path, c.body)
			got := u.requests()
			if res.StatusCode != 200 || len(got) != 2 {
				t.Fatalf("status %d after %d requests: %s", res.StatusCode, len(got), read(t, res))
			}
			if !strings.Contains(got[0].body, c.added) || strings.Contains(got[1].body, c.added) {
				t.Errorf("sent %s and then %s", got[0].body, got[1].body)
			}
			longer := strings.Replace(c.body, `"Hi"}`,
				`"Hi"},{"role":"assistant","content":"Done."},{"role":"user","content":"go on"}`, 1)
			if read(t, p.post(c.path, longer)); len(u.requests()) != 3 || strings.Contains(u.last().body, c.added) {
				t.Errorf("sent next: %s", u.last().body)
			}
		})
	}
}

// TestSecond400 reaches the client: the original is sent once, not for ever.
func TestSecond400(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "tool_use "+strconv.Itoa(n))
	})
	p := start(t, eager(u))
	res := p.post("/v1/messages", conversation(9, false))
	if got := read(t, res); res.StatusCode != http.StatusBadRequest || got != "tool_use 2" {
		t.Errorf("status %d, body %q", res.StatusCode, got)
	}
	if n := len(u.requests()); n != 2 {
		t.Errorf("upstream got %d requests, want 2", n)
	}
}
