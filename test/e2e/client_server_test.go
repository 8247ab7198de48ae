// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/contract"
)

// TestClientsOnServers: clients finish their tasks with known quirks of local servers: responses
// that all have the same id, and a window too small for the requested output.
func TestClientsOnServers(t *testing.T) {
	clients := map[string]func(url string) client{
		"Claude Code": func(url string) client { return claudeCode{url: url} },
		"Codex":       func(url string) client { return codex{url: url} },
	}
	for name, client := range clients {
		t.Run(name+", repeated ids", func(t *testing.T) {
			t.Parallel()
			onServer(t, client, func(p *httputil.ReverseProxy, _ http.Handler) http.Handler {
				p.ModifyResponse = repeatID
				return p
			})
		})
		t.Run(name+", small window", func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int64
			onServer(t, client, func(_ *httputil.ReverseProxy, next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !fits(w, r, &refused) {
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			if name == "Claude Code" && refused.Load() == 0 { // Codex sets no limit
				t.Error("got no request with more max_tokens than the window has, want the server to refuse some")
			}
		})
	}
}

// onServer runs a client's script on a server of chat completions with changed behaviour.
func onServer(
	t *testing.T, make func(url string) client, manner func(*httputil.ReverseProxy, http.Handler) http.Handler,
) {
	needClient(t, make(""))
	r := newRepository(t, make(""))
	first, second := r.brief()
	s := startStack(t, setup{
		cache:  "upstream vllm_mlx {\n model * qwen3-coder\n}",
		script: asFunctions(contract.Chat, slices.Concat(first, second)), manner: manner,
	})
	u := newUser(t, make(s.url), r.dir)
	u.ask(t, firstPrompt, first)
	u.ask(t, secondPrompt, second)
	r.check(t)
}

// behave starts a proxy with changed behaviour before another server.
func behave(t *testing.T, addr string, manner func(*httputil.ReverseProxy, http.Handler) http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	proxy.FlushInterval, proxy.ErrorLog = -1, log.New(io.Discard, "", 0) // clients leave
	server := &http.Server{Handler: manner(proxy, proxy)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

var answerID = regexp.MustCompile(`"id":"chatcmpl-[^"]*"`)

// repeatID sets the same id in all responses.
func repeatID(res *http.Response) error {
	from, to := res.Body, (*io.PipeWriter)(nil)
	res.Body, to = io.Pipe()
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	go func() {
		defer from.Close()
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadBytes('\n')
			if _, e := to.Write(answerID.ReplaceAll(line, []byte(`"id":"chatcmpl-0"`))); e != nil || err != nil {
				_ = to.CloseWithError(err)
				return
			}
		}
	}()
	return nil
}

// fits reports whether prompt and output fit into a window of 40,000 tokens. If not, it refuses the
// request like vLLM.
func fits(w http.ResponseWriter, r *http.Request, refused *atomic.Int64) bool {
	const window = 40_000
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	input, most := len(body)/6, int(max(gjson.GetBytes(body, "max_tokens").Int(),
		gjson.GetBytes(body, "max_completion_tokens").Int()))
	if input+most <= window {
		return true
	}
	refused.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w,
		`{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context `+
			`length is %d tokens and your request has %d input tokens (%d > %d - %d).","type":"BadRequestError",`+
			`"param":"max_tokens","code":400}}`,
		most, window, input, most, window, input)
	return false
}
