// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestStreamPassesAsSent lets the upstream go on only when the client has what
// was sent before: nothing may be held back, not even half an event.
func TestStreamPassesAsSent(t *testing.T) {
	for name, site := range map[string]func(*upstream) string{"unedited": plain, "edited": eager} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan struct{})
			pieces := make([]string, 0, 2*len(events))
			for _, e := range events {
				if name == "edited" {
					// Calls are looked through for stubs and notes of ours, event by event.
					pieces = append(pieces, e)
					continue
				}
				pieces = append(pieces, e[:len(e)/2], e[len(e)/2:])
			}
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for _, piece := range pieces {
					_, _ = io.WriteString(w, piece)
					w.(http.Flusher).Flush()
					select {
					case <-seen:
					case <-r.Context().Done():
						return
					}
				}
			})
			p := start(t, site(u))
			res := p.post("/v1/messages", conversation(9, true), "TE", "trailers", "Connection", "TE")
			for i, piece := range pieces {
				buf := make([]byte, len(piece))
				if _, err := io.ReadFull(res.Body, buf); err != nil {
					t.Fatal(err)
				}
				if string(buf) != piece {
					t.Fatalf("piece %d is %q, want %q", i, buf, piece)
				}
				seen <- struct{}{}
			}
			if rest := read(t, res); rest != "" {
				t.Errorf("more came: %q", rest)
			}
			if res.Header.Get("X-Llm-Cache-Session") == "" || res.Header.Get("X-Llm-Cache-Cached-Tokens") != "" {
				t.Errorf("headers are %v", res.Header)
			}
			if got := res.Trailer.Get("X-Llm-Cache-Cached-Tokens"); got != "1234" {
				t.Errorf("trailer is %q, want 1234", got)
			}
			if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
				t.Errorf("sessions are %v, want one with one request", s)
			}
		})
	}
}

// TestGzipUpstream asks for answers that can be read, and reads those that come
// compressed all the same.
func TestGzipUpstream(t *testing.T) {
	polite := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			answerMessage(w, r, n)
			return
		}
		t.Error("gzip was asked for")
	})
	p := start(t, plain(polite))
	res := p.post("/v1/messages", conversation(1, false), "Accept-Encoding", "gzip, br")
	if read(t, res) != message || res.Header.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
		t.Errorf("headers are %v", res.Header)
	}

	for coding, packed := range map[string]string{"gzip": gzipped(t, message), "zstd": zstandard(t, message)} {
		rude := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", coding)
			_, _ = io.WriteString(w, packed)
		})
		p.reload(plain(rude))
		before := p.metric(`caddy_llm_cache_tokens_total{bucket="read"}`)
		res = p.post("/v1/messages", conversation(1, false), "X-Session-Id", "packed "+coding)
		if got := read(t, res); got != message || res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: answer is %q, headers %v", coding, got, res.Header)
		}
		if n := p.metric(`caddy_llm_cache_tokens_total{bucket="read"}`) - before; n != 1234 {
			t.Errorf("%s: %v tokens were counted as read", coding, n)
		}
	}

	unknown := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "br")
		_, _ = io.WriteString(w, "packed")
	})
	p.reload(plain(unknown))
	before := p.metric(`caddy_llm_cache_fail_open_total{reason="answer_encoding"}`)
	res = p.post("/v1/messages", conversation(1, false), "X-Session-Id", "brotli")
	if got := read(t, res); got != "packed" || res.Header.Get("Content-Encoding") != "br" {
		t.Error("answer changed")
	}
	if p.metric(`caddy_llm_cache_fail_open_total{reason="answer_encoding"}`) != before+1 {
		t.Error("not counted")
	}
}

// TestPackedStream: events that come compressed reach the client as they come,
// before the next one is sent, in its own format, and are counted; what is cut
// stays cut.
func TestPackedStream(t *testing.T) {
	for _, c := range []struct{ name, path, body, format string }{
		{"as it is", "/v1/messages", conversation(1, true), "anthropic"},
		{
			"translated", "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`,
			"openai_chat",
		},
		{"calls held", "/v1/messages", conversation(1, true), "anthropic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan struct{}, 1)
			cut := false
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				for i, e := range events {
					if i == len(events)-1 && cut {
						panic(http.ErrAbortHandler)
					}
					_, _ = io.WriteString(z, e)
					_ = z.Flush()
					_ = http.NewResponseController(w).Flush()
					if i == 0 {
						select {
						case <-seen:
						case <-time.After(time.Minute):
							t.Error("the first event never arrived")
							return
						}
					}
				}
				_ = z.Close()
			})
			options := ""
			if c.name == "calls held" {
				options = "buffer_tool_calls on\n"
			}
			p := start(t, "llm_cache {\n upstream anthropic\n "+options+"}\nreverse_proxy "+u.Listener.Addr().String())
			before := p.metric(`caddy_llm_cache_tokens_total{bucket="read"}`)
			for _, cut = range []bool{false, true} {
				res := p.post(c.path, c.body)
				first := make([]byte, 1)
				if _, err := io.ReadFull(res.Body, first); err != nil {
					t.Fatal(err)
				}
				seen <- struct{}{}
				rest, err := io.ReadAll(res.Body)
				turn := turnOf(wire.Format(c.format), true, string(first)+string(rest))
				if turn.Done == cut || (err != nil) != cut || res.Header.Get("Content-Encoding") != "" {
					t.Errorf("cut %t: %v, %+v of %s", cut, err, turn, rest)
				}
			}
			if n := p.metric(`caddy_llm_cache_tokens_total{bucket="read"}`) - before; n < 1234 {
				t.Errorf("%v tokens were counted as read", n)
			}
		})
	}
}

// TestCutStream must stay cut, and teach the session nothing.
func TestCutStream(t *testing.T) {
	for name, site := range map[string]func(*upstream) string{"unedited": plain, "edited": eager} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, events[0]+events[1])
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			p := start(t, site(u))
			before := p.metric(`caddy_llm_cache_requests_total{outcome="interrupted",policy="` + policyOf(name) + `"}`)
			res := p.post("/v1/messages", conversation(9, true))
			got, err := io.ReadAll(res.Body)
			if err == nil || string(got) != events[0]+events[1] {
				t.Errorf("got %q and error %v", got, err)
			}
			if s := p.sessions(); len(s) != 0 {
				t.Errorf("sessions are %v, want none", s)
			}
			if p.metric(`caddy_llm_cache_requests_total{outcome="interrupted",policy="`+policyOf(name)+`"}`) != before+1 {
				t.Error("not counted")
			}
		})
	}
}

func policyOf(name string) string {
	if name == "edited" {
		return "eager"
	}
	return "cost_aware"
}

// TestCutAnswer is the same for an answer that is held for its header.
func TestCutAnswer(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(message)))
		_, _ = io.WriteString(w, message[:50])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	p := start(t, plain(u))
	res := p.post("/v1/messages", conversation(1, false))
	got, err := io.ReadAll(res.Body)
	if err == nil || string(got) != message[:50] {
		t.Errorf("got %q and error %v", got, err)
	}
	if s := p.sessions(); len(s) != 0 {
		t.Errorf("sessions are %v, want none", s)
	}
}

// TestClientLeavesAfterTheEnd as Codex does: the exchange has succeeded.
func TestClientLeavesAfterTheEnd(t *testing.T) {
	left := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Join(events, ""))
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the stream stays open until the client goes
		close(left)
	})
	p := start(t, plain(u))
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/messages",
		strings.NewReader(conversation(1, true)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && lines.Text() != "event: message_stop" {
	}
	cancel()
	<-left
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
		t.Errorf("sessions are %v, want one with one request", s)
	}
}

// TestEarlyHints passes 1xx answers on without keeping their headers.
func TestEarlyHints(t *testing.T) {
	for name, site := range map[string]func(*upstream) string{"unedited": plain, "edited": eager} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
				w.Header().Set("Link", "</style.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				w.Header().Del("Link")
				answerMessage(w, r, n)
			})
			p := start(t, site(u))
			var hints []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints = append(hints, strconv.Itoa(code)+" "+h.Get("Link"))
					return nil
				},
			})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/v1/messages",
				strings.NewReader(conversation(9, false)))
			if err != nil {
				t.Fatal(err)
			}
			res, err := p.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if len(hints) != 1 || hints[0] != "103 </style.css>; rel=preload" {
				t.Errorf("hints are %q", hints)
			}
			if res.StatusCode != http.StatusOK || read(t, response{res}) != message || res.Header.Get("Link") != "" {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
		})
	}
}

// TestTrailersOfTheUpstream reach the client past our header map.
func TestTrailersOfTheUpstream(t *testing.T) {
	for name, site := range map[string]func(*upstream) string{"unedited": plain, "edited": eager} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "text/event-stream")
				w.Header().Set("Trailer", "X-Checksum")
				_, _ = io.WriteString(w, strings.Join(events, ""))
				w.Header().Set("X-Checksum", "42")
			})
			p := start(t, site(u))
			res := p.post("/v1/messages", conversation(9, true))
			if got := read(t, res); got != strings.Join(events, "") || res.Trailer.Get("X-Checksum") != "42" {
				t.Errorf("trailer is %v", res.Trailer)
			}
		})
	}
}

func TestHeadersOff(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, "llm_cache {\n headers off\n}\nreverse_proxy "+u.Listener.Addr().String())
	res := p.post("/v1/messages", conversation(2, false), "TE", "trailers")
	if read(t, res) != message {
		t.Error("answer changed")
	}
	for name := range res.Header {
		if strings.HasPrefix(name, "X-Llm-Cache") {
			t.Errorf("header %s", name)
		}
	}
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
		t.Errorf("sessions are %v, want one with one request", s)
	}
}

func TestHeaders(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	h := p.post("/v1/messages", conversation(2, false)).Header
	for name, want := range map[string]string{
		"Policy": "cost_aware", "Saved-Tokens": "0", "Reduction-Pct": "0.0", "Cached-Tokens": "1234",
	} {
		if got := h.Get("X-Llm-Cache-" + name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"Session", "Original-Tokens", "Sent-Tokens", "Transforms", "Overhead-Us"} {
		if h.Get("X-Llm-Cache-"+name) == "" {
			t.Errorf("no %s", name)
		}
	}
	if h.Get("X-Llm-Cache-Original-Tokens") != h.Get("X-Llm-Cache-Sent-Tokens") {
		t.Errorf("headers are %v", h)
	}
	// What is asked for most stands in one header, unless all is asked for.
	brief := p.post("/v1/messages", conversation(2, false), "X-Llm-Cache-Headers", "compact").Header
	if got := brief.Get("X-Llm-Cache"); !regexp.MustCompile(`^cost_aware; session="[0-9a-f]{16}"; tokens=\d+; saved=0; `+
		`read=1234; epoch=[a-z]+$`).MatchString(got) ||
		!strings.Contains(got, h.Get("X-Llm-Cache-Session")) {
		t.Errorf("the header is %q", got)
	}
	for name := range brief {
		if strings.HasPrefix(name, "X-Llm-Cache-") {
			t.Errorf("beside it there is %s", name)
		}
	}
	if got := u.last().header.Get("X-Llm-Cache-Headers"); got != "" {
		t.Errorf("the upstream was asked for %q headers", got)
	}
	// A second llm_cache upstream has its own figures; the outer one's count.
	chained := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("X-Llm-Cache-Policy", "off")
		w.Header().Set("X-Llm-Cache", "off")
		w.Header().Set("X-Llm-Cache-Cached-Tokens", "9")
		answerMessage(w, r, n)
	})
	p.reload(plain(chained))
	h = p.post("/v1/messages", conversation(2, false)).Header
	if len(h["X-Llm-Cache-Policy"]) != 1 || h.Get("X-Llm-Cache-Policy") != "cost_aware" || h.Get("X-Llm-Cache") != "" ||
		h.Get("X-Llm-Cache-Cached-Tokens") != "1234" {
		t.Errorf("headers are %v", h)
	}
}

// TestRespond answers by other handlers than a proxy.
func TestRespond(t *testing.T) {
	p := start(t, "route {\n llm_cache\n header Content-Type application/json\n respond <<E\n"+message+"\nE 200\n}")
	res := p.post("/v1/messages", conversation(1, false))
	if read(t, res) != message || res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Errorf("headers are %v", res.Header)
	}
	p.reload("route {\n llm_cache\n error 503\n}")
	if res := p.post("/v1/messages", conversation(1, false)); res.StatusCode != http.StatusServiceUnavailable ||
		res.Header.Get("X-Llm-Cache-Session") == "" {
		t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
	}
	p.reload("llm_cache")
	if res := p.post("/v1/messages", conversation(1, false)); res.StatusCode != http.StatusOK || read(t, res) != "" {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestUnreachable tells a client in its own API's words that there is no upstream,
// and names no address.
func TestUnreachable(t *testing.T) {
	const chat = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	for _, c := range []struct{ upstream, path, body, member, want string }{
		{"anthropic", "/v1/messages", conversation(1, false), "error.type", "api_error"},
		{"anthropic", "/v1/messages", conversation(1, true), "error.type", "api_error"},
		{"mlx_lm", "/v1/messages", conversation(1, true), "error.type", "api_error"},
		{"mlx_lm", "/v1/chat/completions", chat, "error.type", "server_error"},
		{"openai", "/v1/responses", `{"model":"m","input":"x"}`, "error.type", "server_error"},
		{
			"mlx_lm", "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`,
			"error.status", "INTERNAL",
		},
	} {
		t.Run(c.upstream+c.path, func(t *testing.T) {
			p := start(t, "llm_cache {\n upstream "+c.upstream+"\n}\nreverse_proxy 127.0.0.1:1")
			res := p.post(c.path, c.body)
			body := read(t, res)
			if res.StatusCode != http.StatusBadGateway || res.Header.Get("Content-Type") != "application/json" ||
				res.ContentLength != int64(len(body)) {
				t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
			}
			if got := gjson.Get(body, c.member).Str; got != c.want || strings.Contains(body, "127.0.0.1") ||
				gjson.Get(body, "error.message").Str == "" {
				t.Errorf("%s is %q in %s", c.member, got, body)
			}
			if res.Header.Get("X-Llm-Cache-Session") == "" {
				t.Error("no headers")
			}
		})
	}
	// An intercept in front has the error, as without llm_cache: it replaces answers only.
	p := start(t,
		"intercept {\n @down status 502\n handle_response @down {\n respond down 503\n }\n}\nllm_cache\nreverse_proxy "+
			"127.0.0.1:1")
	res := p.post("/v1/messages", conversation(1, false))
	if got := read(t, res); got != "" || res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d %q, want an empty 502", res.StatusCode, got)
	}
}

// TestStreamThatBeginsWithWhiteSpace: what comes before the first event, where the type of
// the answer does not say that it is a stream, costs the client nothing of it.
func TestStreamThatBeginsWithWhiteSpace(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/plain")
		for _, piece := range append([]string{"\n"}, events...) {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond) // or they come in one piece
		}
	})
	p := start(t, "llm_cache {\n upstream anthropic\n}\nreverse_proxy "+u.Listener.Addr().String())
	res := p.post("/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	if turn := turnOf(wire.OpenAIChat, true, read(t, res)); !turn.Done || turn.Failed() {
		t.Errorf("got %+v", turn)
	}
}
