// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestCountsPassTheQueue: counts of tokens and embeddings need no slot. The box answers them
// while another conversation has the only slot.
func TestCountsPassTheQueue(t *testing.T) {
	t.Parallel()
	came, free := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/chat/completions"):
			came <- struct{}{}
			<-free
			answerChat(w, r, n)
		default:
			_, _ = io.WriteString(w, `{"input_tokens":77}`)
		}
	})
	p := start(t, "llm_cache {\n upstream llama_cpp\n queue {\n slots 1\n}\n}\nreverse_proxy "+u.Listener.Addr().String())
	var wg sync.WaitGroup
	var first asked
	p.ask(t.Context(), &wg, "s", "a", withTools(1), &first)
	<-came
	for _, path := range []string{"/v1/messages/count_tokens", "/v1/embeddings", "/tokenize", "/api/embed", "/api/pull"} {
		res := p.post(path, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		if got := read(t, res); got != `{"input_tokens":77}` {
			t.Errorf("%s: got %s, want the server's answer", path, got)
		}
	}
	close(free)
	wg.Wait()
	if first.status != http.StatusOK {
		t.Errorf("the answer: %+v", first)
	}
}

// TestServerThatDoesNotCount: where a box has no endpoint that counts tokens, the estimate
// answers, and the box is not asked again.
func TestServerThatDoesNotCount(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<html>not here")
	})
	p := start(t, behind(u, "llama_cpp"))
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("several words ", 1000) + `"}]}`
	for range 2 {
		res := p.post("/v1/messages/count_tokens", body)
		got := read(t, res)
		if n := gjson.Get(got, "input_tokens").Int(); res.StatusCode != http.StatusOK || n < 1000 ||
			res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s and %s, want an estimate", res.Status, got)
		}
	}
	if n := len(u.requests()); n != 1 {
		t.Errorf("the box was asked %d times, want once", n)
	}
}

// TestBusyServerLeavesCounts: a server that counts no tokens while it works or loads leaves the count to the estimate, and
// is asked again.
func TestBusyServerLeavesCounts(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch n {
		case 1:
			<-r.Context().Done()
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, `{"input_tokens":77}`)
		}
	})
	p := start(t, behind(u, "vllm_mlx"))
	for n, estimated := range []string{"1", "1", ""} {
		begun := time.Now()
		res := p.post("/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		got := read(t, res)
		if res.StatusCode != http.StatusOK || gjson.Get(got, "input_tokens").Int() == 0 || time.Since(begun) > 10*time.Second ||
			res.Header.Get("X-Llm-Cache-Input-Tokens-Estimated") != estimated {
			t.Errorf("count %d: got %s, %s, estimated %q after %s, want estimated %q", n, res.Status, got,
				res.Header.Get("X-Llm-Cache-Input-Tokens-Estimated"), time.Since(begun), estimated)
		}
	}
}

// TestChunkedBodiesHaveALength: a chunked body reaches a box with a Content-Length on every
// path, and other upstreams in chunks.
func TestChunkedBodiesHaveALength(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerMessage)
	const body = `{"model":"m","prompt":"Once"}`
	for upstream, want := range map[string]int64{"mlx_lm": int64(len(body)), "openai": -1} {
		p := start(t, behind(u, upstream))
		for _, c := range []struct{ method, path, coding string }{
			{http.MethodPost, "/v1/completions", ""},
			{http.MethodPost, "/v1/embeddings", ""},
			{http.MethodDelete, "/api/delete", ""},
			{http.MethodPost, "/v1/chat/completions", "gzip"}, // which it is not
		} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+p.addr+c.path,
				io.MultiReader(strings.NewReader(body[:9]), strings.NewReader(body[9:])))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if c.coding != "" {
				req.Header.Set("Content-Encoding", c.coding)
			}
			res, err := p.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if got := u.last(); got.length != want || got.body != body {
				t.Errorf("%s%s: length %d of %s, want %d", upstream, c.path, got.length, got.body, want)
			}
		}
	}
}
