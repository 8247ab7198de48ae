// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"
)

func gzipped(t *testing.T, body string) string {
	return compress(t, []byte(body), func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func zstandard(t *testing.T, body string) string {
	return compress(t, []byte(body), func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	})
}

// TestUntouched sends what is not understood, or not to be edited: it must
// reach the upstream byte for byte.
func TestUntouched(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, eager(u))
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, test := range []struct {
		name, path, body, reason string
		headers                  []string
	}{
		{name: "truncated JSON", body: conversation(3, false)[:500], reason: "parse"},
		{
			name: "duplicate keys",
			body: `{"model":"m","messages":[],"max_tokens":1,"messages":[{"role":"user","content":"b"}]}`, reason: "parse",
		},
		{
			name: "invalid UTF-8",
			body: "{\"model\":\"m\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}",
		},
		{
			name: "deep nesting", body: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":` + deep + `}]}`,
			reason: "parse",
		},
		{name: "missing messages", body: `{"model":"m","max_tokens":1}`, reason: "parse"},
		{
			name: "unknown blocks",
			body: `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"hologram","data":{"a":[1,2.50,` +
				`{}]}}]}]}`,
		},
		{name: "not an object", body: `[1,2,3]`, reason: "parse"},
		{name: "empty", body: ``, reason: "parse"},
		{
			name: "white space",
			body: "{ \"model\" : \"m\",\n\t\"max_tokens\":1, \"messages\" : [ {\"role\":\"user\",\"content\":\"h\\u00e9\"} ] }\n",
		},
		{
			name: "content type", body: conversation(9, false), headers: []string{"Content-Type", "text/plain"},
			reason: "content_type",
		},
		{
			name: "multipart", body: "--x\r\n", headers: []string{"Content-Type", "multipart/form-data; boundary=x"},
			reason: "content_type",
		},
		{
			name: "unknown encoding", body: conversation(9, false), headers: []string{"Content-Encoding", "br"},
			reason: "content_encoding",
		},
		{
			name: "two encodings", body: conversation(9, false), headers: []string{"Content-Encoding", "gzip, gzip"},
			reason: "content_encoding",
		},
		{name: "not gzip", body: conversation(9, false), headers: []string{"Content-Encoding", "gzip"}, reason: "decode"},
		{
			name: "cut gzip", body: gzipped(t, conversation(9, false))[:100], headers: []string{"Content-Encoding", "gzip"},
			reason: "decode",
		},
		{name: "not zstd", body: "zstd", headers: []string{"Content-Encoding", "zstd"}, reason: "decode"},
		{
			name: "gzip of truncated JSON", body: gzipped(t, conversation(3, false)[:500]),
			headers: []string{"Content-Encoding", "gzip"}, reason: "parse",
		},
		{
			name: "gzip of a short conversation", body: gzipped(t, conversation(0, false)),
			headers: []string{"Content-Encoding", "gzip"},
		},
		{name: "responses", path: "/v1/responses", body: `{"model":"m","input":"hi"}`},
		{name: "incremental", body: conversation(9, false), headers: []string{"Incremental", "?1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.t = t
			if test.path == "" {
				test.path = "/v1/messages"
			}
			counter := `caddy_llm_cache_fail_open_total{reason="` + test.reason + `"}`
			before := p.metric(counter)
			res := p.post(test.path, test.body, test.headers...)
			if res.StatusCode != http.StatusOK || read(t, res) != message {
				t.Errorf("status %d", res.StatusCode)
			}
			got := u.last()
			if got.body != test.body {
				t.Errorf("upstream got %d bytes, want %d as sent", len(got.body), len(test.body))
			}
			if got.length != int64(len(test.body)) {
				t.Errorf("upstream got Content-Length %d, want %d", got.length, len(test.body))
			}
			want := ""
			for i := 0; i < len(test.headers); i += 2 {
				if test.headers[i] == "Content-Encoding" {
					want = test.headers[i+1]
				}
			}
			if enc := got.header.Get("Content-Encoding"); enc != want {
				t.Errorf("upstream got Content-Encoding %q, want %q", enc, want)
			}
			if test.reason != "" && p.metric(counter) != before+1 {
				t.Errorf("%s did not count", counter)
			}
		})
	}
}

// TestChunkedBody sends a body of unknown length, which is forwarded as one.
func TestChunkedBody(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	body := conversation(1, false)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
		io.MultiReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Error("not processed")
	}
	if got := u.last(); got.body != body || got.length != -1 {
		t.Errorf("upstream got %d bytes, length %d", len(got.body), got.length)
	}
}

// TestEditedBody checks what surrounds an edited body.
func TestEditedBody(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, eager(u))
	body := conversation(9, false)
	for _, test := range []struct{ name, coding, body string }{
		{"plain", "", body},
		{"gzip", "gzip", gzipped(t, body)},
		{"zstd", "zstd", zstandard(t, body)},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.t = t
			headers := []string{"X-Session-Id", test.name, "X-Other", "kept"}
			if test.coding != "" {
				headers = append(headers, "Content-Encoding", test.coding)
			}
			res := p.post("/v1/messages", test.body, headers...)
			if read(t, res) != message {
				t.Error("answer changed")
			}
			got := u.last()
			if len(got.body) >= len(body) || !json.Valid([]byte(got.body)) {
				t.Errorf("upstream got %d bytes of %d, valid JSON: %t", len(got.body), len(body), json.Valid([]byte(got.body)))
			}
			if got.length != int64(len(got.body)) {
				t.Errorf("Content-Length is %d for %d bytes", got.length, len(got.body))
			}
			if enc := got.header.Get("Content-Encoding"); enc != "" {
				t.Errorf("Content-Encoding is %q", enc)
			}
			if got.header.Get("X-Other") != "kept" || got.header.Get("Accept-Encoding") != "identity" {
				t.Errorf("headers are %v", got.header)
			}
			saved, err := strconv.Atoi(res.Header.Get("X-Llm-Cache-Saved-Tokens"))
			if err != nil || saved <= 0 {
				t.Errorf("saved %q tokens", res.Header.Get("X-Llm-Cache-Saved-Tokens"))
			}
			if tr := res.Header.Get("X-Llm-Cache-Transforms"); !strings.Contains(tr, "compact_tool_results;n=") {
				t.Errorf("transforms are %q", tr)
			}
		})
	}
}

// TestObserveAndOff must not change a byte, and off must not even look.
func TestObserveAndOff(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "respond 500")
	body := conversation(9, false)
	for _, policy := range []string{"observe", "off"} {
		p.reload("llm_cache {\n policy " + policy + "\n zones {\n frozen 0\n hot 1\n min_messages 0\n }\n}\nreverse_proxy " +
			u.Listener.Addr().String())
		res := p.post("/v1/messages", body)
		if got := u.last(); got.body != body {
			t.Errorf("%s: body changed", policy)
		}
		if got := res.Header.Get("X-Llm-Cache-Policy"); (got == policy) != (policy == "observe") {
			t.Errorf("%s: policy header is %q", policy, got)
		}
	}
}

func TestTooLarge(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	big := strings.Repeat("x", 33<<20)
	noise := make([]byte, 1<<20) // nothing makes it small: it is no bomb
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	packed := string(noise) + big
	for _, test := range []struct {
		name, coding string
		body         io.Reader
	}{
		{"33 MiB", "", strings.NewReader(big)},
		{"33 MiB in chunks", "", io.MultiReader(strings.NewReader(big))},
		{"gzip", "gzip", strings.NewReader(gzipped(t, packed))},
		{"zstd", "zstd", strings.NewReader(zstandard(t, packed))},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages", test.body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Expect", "100-continue") // or the refusal may meet a client that is still writing
			if test.coding != "" {
				req.Header.Set("Content-Encoding", test.coding)
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: 1 << 40}}
			res, err := client.Do(req)
			if err != nil {
				// The server may close a connection whose client writes on.
				if test.name == "33 MiB in chunks" && strings.Contains(err.Error(), "connection reset") {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusRequestEntityTooLarge ||
				gjson.GetBytes(body, "error.type").Str != "request_too_large" || !strings.Contains(string(body), "33554432 bytes") {
				t.Errorf("status %d, want 413 in words: %s", res.StatusCode, body)
			}
		})
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("upstream got %d requests", n)
	}
}

func TestMaxBody(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\n max_body 1kB\n}\nreverse_proxy "+u.Listener.Addr().String())
	for n, want := range map[int]int{1000: http.StatusOK, 1001: http.StatusRequestEntityTooLarge} {
		body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":""}]}`
		body = strings.Replace(body, `""`, `"`+strings.Repeat("a", n-len(body))+`"`, 1)
		if res := p.post("/v1/messages", body); res.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", n, res.StatusCode, want)
		}
	}
}

func TestWebSocketIsRefused(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	get := func(path, upgrade string) response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if upgrade != "" {
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", upgrade)
		}
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return response{res}
	}
	res := get("/v1/responses", "websocket")
	if res.StatusCode != http.StatusUpgradeRequired || !strings.Contains(read(t, res), "Upgrade Required") {
		t.Errorf("status %d, want 426", res.StatusCode)
	}
	if n := len(u.requests()); n != 0 {
		t.Errorf("upstream got %d requests", n)
	}
	for path, upgrade := range map[string]string{"/v1/responses": "", "/v1/models": "", "/socket": "h2c"} {
		if res := get(path, upgrade); res.StatusCode != http.StatusOK {
			t.Errorf("GET %s: status %d", path, res.StatusCode)
		}
	}
}

func TestHead(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+p.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || u.last().method != http.MethodHead ||
		res.Header.Get("X-Llm-Cache-Policy") != "" {
		t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
	}
}

// TestFormat lets requests pass that the upstream is said not to speak.
func TestFormat(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\n upstream anthropic\n translate off\n}\nreverse_proxy "+u.Listener.Addr().String())
	chat := `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`
	if res := p.post("/v1/chat/completions", chat); res.Header.Get("X-Llm-Cache-Session") != "" || u.last().body != chat {
		t.Error("a chat completion was processed")
	}
	if res := p.post("/v1/messages", conversation(1, false)); res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Error("a message was not processed")
	}
}

// TestNesting serves from inside routes and handles, with a rewrite between.
func TestNesting(t *testing.T) {
	u := newUpstream(t, answerMessage)
	addr := u.Listener.Addr().String()
	for name, site := range map[string]string{
		"route":       "route {\n llm_cache\n reverse_proxy " + addr + "\n}",
		"handle_path": "handle_path /team/* {\n llm_cache\n reverse_proxy " + addr + "\n}\nhandle {\n respond 404\n}",
		"matcher":     "@agents path /team/*\nllm_cache @agents\nreverse_proxy " + addr,
		"encode":      "encode gzip\nllm_cache\nreverse_proxy " + addr,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, site)
			res := p.post("/team/v1/messages", conversation(2, false))
			if res.StatusCode != http.StatusOK || res.Header.Get("X-Llm-Cache-Session") == "" || read(t, res) != message {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
		})
	}
}

// TestErrorRoute sees the original when the upstream cannot be reached.
func TestErrorRoute(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, strings.Replace(eager(u), u.Listener.Addr().String(), "127.0.0.1:1", 1)+
		"\nhandle_errors 502 {\n reverse_proxy "+u.Listener.Addr().String()+"\n}")
	body := conversation(9, false)
	res := p.post("/v1/messages", body, "X-Session-Id", "error-route")
	if read(t, res) != message || u.last().body != body {
		t.Errorf("status %d; fallback got the original: %t", res.StatusCode, u.last().body == body)
	}
	if res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Error("no headers")
	}
	if s := p.sessions(); len(s) != 0 {
		t.Errorf("committed: %v", s)
	}
}

// TestPlaceholders resolves them after the answer, in an access log.
func TestPlaceholders(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t,
		"header >X-Seen \"{http.llm_cache.session} {http.vars.llm_session} {http.llm_cache.policy} "+
			"{http.llm_cache.saved_tokens}\"\n"+plain(u))
	res := p.post("/v1/messages", conversation(1, false))
	id := res.Header.Get("X-Llm-Cache-Session")
	if got, want := res.Header.Get("X-Seen"), id+" "+id+" cost_aware 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestHealth(t *testing.T) {
	p := start(t,
		"route {\n llm_cache {\n upstream ollama {\n context_window 32768\n body api_key `\"sk-secret\"`\n }\n policy "+
			"eager\n health /llm\n }\n respond 404\n}")
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 404} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.addr+"/llm", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := read(t, response{res})
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", method, res.StatusCode, want)
		}
		if method != http.MethodGet {
			continue
		}
		for _, part := range []string{
			`"status":"ok"`, `"preset":"ollama"`, `"context_window":32768`, `"policy":"eager"`,
			`"max_body":33554432`, `"session_header":"X-Session-Id"`, `"body":{"api_key":"REDACTED"}`,
		} {
			if !bytes.Contains([]byte(body), []byte(part)) {
				t.Errorf("%s lacks %s", body, part)
			}
		}
	}
}

// TestNullMarkers: a cache_control of null is no marker, and a marker of ours takes
// its place and does not come beside it.
func TestNullMarkers(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\n policy cost_aware\n breakpoints on\n}\nreverse_proxy "+u.Listener.Addr().String())
	body := `{"model":"claude-opus-4-6","max_tokens":9,"tools":[{"name":"f","cache_control":null,` +
		`"input_schema":{"type":"object"}}],` +
		`"system":[{"type":"text","cache_control": null,"text":"` + strings.Repeat("Be kind. ", 4000) +
		`"}],"messages":[{"role":"user","content":[{"cache_control":null,"type":"text","text":"Hi"}]}]}`
	read(t, p.post("/v1/messages", body))
	want := strings.Replace(body, `"text","cache_control": null`, `"text","cache_control": {"type":"ephemeral"}`, 1)
	want = strings.Replace(want, `{"cache_control":null`, `{"cache_control":{"type":"ephemeral"}`, 1)
	if sent := u.last().body; sent != want {
		t.Errorf("sent %s", strings.ReplaceAll(sent, "Be kind. ", ""))
	}
}
