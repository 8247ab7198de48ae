// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
)

const chatMessage = `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"Done.","reasoning":"Hm."},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":1000,"completion_tokens":5,"total_tokens":1005}}`

func answerChat(w http.ResponseWriter, _ *http.Request, _ int) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, chatMessage)
}

// Each kind of box gets requests that it can read.
func TestCompat(t *testing.T) {
	const plain = `{"model":"claude-opus-5-5","seed":7,"stream_options":{},"metadata":{"a":1},"prompt_cache_key":"k",` +
		`"messages":[{"role":"user","content":[{"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]},` +
		`{"role":"assistant","reasoning":"Hm.","content":"Hello"},{"role":"user","content":"Go"}]}`
	for _, c := range []struct {
		upstream, body string
		want, not      []string
	}{
		{
			"mlx_lm", plain,
			[]string{
				`"model":"default_model"`, `"max_tokens":32768`, `"reasoning_content":"Hm."`, `"preserve_thinking":true`,
				`"content":"Hi"`,
			},
			[]string{"seed", "metadata", "prompt_cache_key", "cache_control", `"reasoning":`, "stream_options", "id_slot"},
		},
		{
			"mlx_lm {\n drop\n max_tokens_default 99\n body chat_template_kwargs null\n reasoning none\n model x y\n}", plain,
			[]string{`"seed":7`, `"metadata":{"a":1}`, `"max_tokens":99`, `"model":"claude-opus-5-5"`},
			[]string{"Hm.", "chat_template_kwargs"},
		},
		{
			"ollama", strings.Replace(plain, `"reasoning":`, `"reasoning_content":`, 1),
			[]string{`"reasoning":"Hm."`, `"seed":7`},
			[]string{"reasoning_content", "max_tokens", "metadata"},
		},
		{
			"ollama {\n model claude-* qwen3:8b\n body keep_alive `\"24h\"`\n}", plain,
			[]string{`"model":"qwen3:8b"`, `"keep_alive":"24h"`, `"content":"Hi"`},
			[]string{"prompt_cache_key", "cache_control", "chat_template_kwargs", "id_slot"},
		},
		{"omlx", plain, []string{`"cache_control":{"type":"ephemeral"}`, `"reasoning_content":"Hm."`}, []string{"metadata"}},
		{
			"lm_studio {\n body ttl 3600\n cache_control on\n}", plain,
			[]string{`"ttl":3600`, `"cache_control"`},
			[]string{"preserve_thinking"},
		},
		{"llama_cpp {\n body id_slot 3\n}", plain, []string{`"id_slot":3`}, nil},
		{"llama_cpp", plain, nil, []string{"id_slot"}}, // there is no queue
		{"openai", plain, []string{plain}, nil},
	} {
		u := newUpstream(t, answerChat)
		p := start(t, behind(u, c.upstream))
		res := p.post("/v1/chat/completions", c.body)
		got := u.last()
		if res.StatusCode != http.StatusOK || got.length != int64(len(got.body)) || !gjson.Valid(got.body) {
			t.Errorf("%s: status %d, length %d of %s", c.upstream, res.StatusCode, got.length, got.body)
		}
		for _, w := range c.want {
			if !strings.Contains(got.body, w) {
				t.Errorf("%s: no %s in\n%s", c.upstream, w, got.body)
			}
		}
		for _, w := range c.not {
			if strings.Contains(got.body, w) {
				t.Errorf("%s: %s in\n%s", c.upstream, w, got.body)
			}
		}
	}
}

// The slot that the queue has given goes into the request.
func TestSlotOfTheQueue(t *testing.T) {
	u := newUpstream(t, answerChat)
	p := start(t, "llm_cache {\n upstream llama_cpp\n queue {\n slots 2\n}\n}\nreverse_proxy "+u.Listener.Addr().String())
	p.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if slot := gjson.Get(u.last().body, "id_slot"); slot.Type != gjson.Number || slot.Int() < 0 || slot.Int() > 1 {
		t.Errorf("the slot is %s in %s", slot.Raw, u.last().body)
	}
}

// Thinking goes to clients of chat completions under the name that they know.
func TestReasoningOfAnswers(t *testing.T) {
	u := newUpstream(t, answerChat)
	p := start(t, behind(u, "mlx_lm"))
	body := `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	if got, want := read(t, p.post("/v1/chat/completions", body)),
		strings.Replace(chatMessage, `"reasoning"`, `"reasoning_content"`, 1); got != want {
		t.Errorf("got %s", got)
	}
	events := newUpstream(t, stream(chatEvents...))
	p.reload(behind(events, "mlx_lm"))
	want := strings.Replace(strings.Join(chatEvents, "\n\n")+"\n\n", `"reasoning"`, `"reasoning_content"`, 1)
	if got := read(t, p.post("/v1/chat/completions",
		strings.Replace(body, `{"model"`, `{"stream":true,"stream_options":{"include_usage":true},"model"`,
			1))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Where the upstream does not say what was cached, an answer tells an estimate
// and that it is one.
func TestEstimate(t *testing.T) {
	u := newUpstream(t, answerChat)
	p := start(t, "respond 204")
	path := filepath.Join(t.TempDir(), "audit.db")
	p.audited(behind(u, "lm_studio"), sqliteAt(path, ""))
	system := `{"role":"system","content":"` + strings.Repeat("Be kind. ", 200) + `"}`
	body := `{"model":"m","messages":[` + system + `,{"role":"user","content":"x"}`
	res := p.post("/v1/chat/completions", body+"]}")
	if res.Header.Get("X-Llm-Cache-Cached-Tokens") != "0" || res.Header.Get("X-Llm-Cache-Cached-Tokens-Estimated") != "1" {
		t.Errorf("first: %v", res.Header)
	}
	res = p.post("/v1/chat/completions", body+`,{"role":"assistant","content":"Done."},{"role":"user","content":"Go"}]}`)
	var n int
	if _, err := fmt.Sscan(res.Header.Get("X-Llm-Cache-Cached-Tokens"), &n); err != nil || n < 900 || n >= 1000 ||
		res.Header.Get("X-Llm-Cache-Cached-Tokens-Estimated") != "1" {
		t.Errorf("second: %v", res.Header)
	}
	if gjson.Get(read(t, res), "usage.prompt_tokens_details").Exists() {
		t.Error("the estimate stands in the answer")
	}
	p.audited(behind(u, "llama_cpp"), sqliteAt(path, ""))
	if res := p.post("/v1/chat/completions", body+"]}"); res.Header.Get("X-Llm-Cache-Cached-Tokens-Estimated") != "" {
		t.Error("an upstream that reports is estimated")
	}
	for i, r := range turns(t, path, 3) {
		if want := []int64{0, int64(n), 0}[i]; r.ReadEstimated != want || want > 0 && r.Billed.Read != want {
			t.Errorf("record %d: %d tokens read, %d of them estimated, want %d", i, r.Billed.Read, r.ReadEstimated, want)
		}
	}
}

// The tools of a prompt keep their order: a box's by the overlay, a hosted API's by the pipeline.
// What diverges is counted and told.
func TestOverlay(t *testing.T) {
	tool := func(name string) string {
		return `{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object"}}}`
	}
	body := func(tools, rest string) string {
		return `{"model":"m","tools":[` + tools + `],"messages":[{"role":"user","content":"x"}` + rest + `]}`
	}
	first, second := body(tool("A")+","+tool("B"), ""),
		body(tool("B")+","+tool("A"), `,{"role":"assistant","content":"Done."},{"role":"user","content":"Go"}`)
	ordered := body(tool("A")+","+tool("B"), `,{"role":"assistant","content":"Done."},{"role":"user","content":"Go"}`)
	for _, c := range []struct{ options, want string }{
		{"upstream llama_cpp {\n body chat_template_kwargs null\n}", ordered},
		{"upstream llama_cpp {\n body chat_template_kwargs null\n}\noverlay off", second},
		{"upstream llama_cpp {\n body chat_template_kwargs null\n}\noverlay {\n tool_order off\n}", second},
		{"upstream llama_cpp {\n body chat_template_kwargs null\n}\npolicy observe", second},
		{"upstream openai", ordered},
		{"upstream openai\npolicy observe", second},
		{"upstream openai\noverlay on", ordered},
	} {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Replace(chatMessage, `,"reasoning":"Hm."`, "", 1))
		})
		p := start(t, "llm_cache {\n "+c.options+"\n}\nreverse_proxy "+u.Listener.Addr().String())
		before := p.metric(`caddy_llm_cache_divergence_total{cause="tool_order"}`)
		read(t, p.post("/v1/chat/completions", first))
		res := p.post("/v1/chat/completions", second)
		read(t, res)
		if got := u.last().body; got != c.want {
			t.Errorf("%s: sent\n%s\nwant\n%s", c.options, got, c.want)
		}
		diverged := p.metric(`caddy_llm_cache_divergence_total{cause="tool_order"}`) - before
		watched := strings.Contains(c.options, "llama") && c.want == second
		if watched != (diverged == 1) {
			t.Errorf("%s: %v divergences", c.options, diverged)
		}
		var state string
		p.adminDo(http.MethodGet, "/llm_cache/sessions/"+res.Header.Get("X-Llm-Cache-Session"), &state)
		if cause := gjson.Get(state, "overlay.0.divergences.0.cause").Str; watched != (cause == "tool_order") {
			t.Errorf("%s: the admin API tells %q", c.options, state)
		}
	}
}

// A box that refuses an overlay gets the request as it came, and no more overlays
// in that conversation.
func TestOverlayRefused(t *testing.T) {
	refuse := true
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if refuse {
			refuse = false
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Refused", "1")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"roles must alternate","type":"invalid_request_error"}}`)
			return
		}
		answerChat(w, r, n)
	})
	p := start(t, behind(u, "llama_cpp {\n body chat_template_kwargs null\n}"))
	body := `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"system","content":"Plan"}]}`
	res := p.post("/v1/chat/completions", body)
	got := u.requests()
	if read(t, res); res.StatusCode != http.StatusOK || res.Header.Get("X-Refused") != "" || len(got) != 2 ||
		got[0].body == body || got[1].body != body {
		t.Fatalf("status %d, %+v", res.StatusCode, got)
	}
	read(t, p.post("/v1/chat/completions", body))
	if u.last().body != body {
		t.Errorf("again: %s", u.last().body)
	}
	// The request without the overlay is refused, too: that refusal passes, all of it.
	for _, says := range []string{`{"error":{"message":"out of memory"}}`, `{"error":{"message":"out of memory","at":"` +
		strings.Repeat("0", 100_000) + `"}}`} {
		u2 := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(says)))
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, says)
		})
		p.reload(behind(u2, "llama_cpp"))
		if res := p.post("/v1/chat/completions",
			strings.Replace(body, `"x"`, `"y"`, 1)); res.StatusCode != http.StatusBadRequest || read(t, res) != says ||
			len(u2.requests()) != 2 {
			t.Errorf("status %d, %d requests", res.StatusCode, len(u2.requests()))
		}
	}
}

// What a stranger sends leaves nothing behind: fronts are those of requests that
// were accepted.
func TestRefusedRequestsLeaveNoFront(t *testing.T) {
	var status atomic.Int64
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if s := status.Load(); s != http.StatusOK {
			w.WriteHeader(int(s))
			return
		}
		answerChat(w, r, n)
	})
	p := start(t, behind(u, "mlx_lm\n overlay {\n group all\n}"))
	ask := func(tools, hello string, code int) (sent string) {
		t.Helper()
		status.Store(int64(code))
		p.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"`+
			hello+`"}],"tools":[`+tools+`]}`, "Authorization", "Bearer "+hello)
		return gjson.Get(u.last().body, "tools.#.function.name").Raw
	}
	const a, b = `{"type":"function","function":{"name":"A","parameters":{}}}`,
		`{"type":"function","function":{"name":"B","parameters":{}}}`
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError} {
		ask(a+","+b, fmt.Sprint("stranger ", code), code)
	}
	if got := ask(b+","+a, "one", http.StatusOK); got != `["B","A"]` {
		t.Errorf("the first who was let in has the front %s of one who was not", got)
	}
	if got := ask(a+","+b, "two", http.StatusOK); got != `["B","A"]` {
		t.Errorf("the second has the front %s", got)
	}
}

// TestCutPrompts: a local server that counts far less than it was sent, and no more than before, has
// left messages out, which a metric tells.
func TestCutPrompts(t *testing.T) {
	var prompt atomic.Int64
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w,
			`{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Done."},`+
				`"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":5,"total_tokens":0}}`, prompt.Load())
	})
	p := start(t, behind(u, "ollama"))
	count := func() float64 { return p.metric("caddy_llm_cache_cut_prompts_total") }
	before, messages := count(), ""
	for i, c := range []struct {
		words  int // that are new, of about two tokens
		prompt int64
		want   float64
	}{
		{2000, 4000, 0},
		{1000, 4000, 0}, // within the error of the estimate
		{4000, 4001, 0}, // more than before
		{1000, 4001, 1},
		{1000, 3990, 2},
		{10, 15000, 2}, // with another context length
	} {
		prompt.Store(c.prompt)
		if i > 0 {
			messages += `,{"role":"assistant","content":"Done."},`
		}
		messages += `{"role":"user","content":"` + strings.Repeat("several ", c.words) + strconv.Itoa(i) + `"}`
		read(t, p.post("/v1/chat/completions", `{"model":"m","messages":[`+messages+`]}`))
		if got := count() - before; got != c.want {
			t.Errorf("request %d: counted %v, want %v", i, got, c.want)
		}
	}
}
