// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	_ "github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/valkey"
)

// readiness asks a Caddy whether it is ready: the status code and the word, 0 and the error without an answer.
func (p *proxy) readiness() (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.addr+"/up?ready", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, gjson.GetBytes(body, "status").Str
}

// TestReadyOnceStoresAreGivenUp: a process becomes ready once it has given up a store that accepts connections
// and never answers, not before.
func TestReadyOnceStoresAreGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	p.caddy.Stop(t)
	p.move()
	cfg := p.adapt(fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	log {
		output discard
	}
	llm_cache {
		store valkey {
			address %s
			key %s
		}
	}
}
http://%s {
	llm_cache {
		health /up
	}
	reverse_proxy %s
}
`, l.Addr(), strings.Repeat("ab", 32), p.addr, u.Listener.Addr()))
	loaded := make(chan error, 1)
	began := time.Now()
	go func() { loaded <- p.caddy.Load(cfg) }()
	starting := 0
	for {
		code, word := p.readiness()
		if code == http.StatusOK {
			break
		}
		if code == http.StatusServiceUnavailable && word == "starting" {
			starting++
		} else if code != 0 {
			t.Fatalf("got %d %s while the store is being opened", code, word)
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("not ready after %s: %d %s", time.Since(began), code, word)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < time.Second || starting == 0 {
		t.Errorf("it was ready after %s, %d times starting before: it has not waited for the store", took, starting)
	}
}

// TestDrain: during the shutdown delay a process is not ready and answers requests; after it a stream under way ends
// whole before the process does.
func TestDrain(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if n > 1 {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\","+
			"\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"usage\":{\"input_tokens\":1}}}\n\n")
		w.(http.Flusher).Flush()
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	})
	p := start(t, plain(u))
	p.move()
	p.load(p.adapt(fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	shutdown_delay 1s
	grace_period 20s
	log {
		output discard
	}
}
http://%s {
	llm_cache {
		health /up
	}
	reverse_proxy %s
}
`, p.addr, u.Listener.Addr())))
	if code, word := p.readiness(); code != http.StatusOK || word != "ready" {
		t.Fatalf("before: got %d %s, want 200 ready", code, word)
	}
	stream := make(chan string, 1)
	go func() { stream <- read(t, p.post("/v1/messages", conversation(1, true))) }()
	<-begun
	stopped := make(chan struct{})
	go func() { p.caddy.Stop(t); close(stopped) }()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if code, word := p.readiness(); code == http.StatusServiceUnavailable && word == "draining" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("during the delay: got %d %s, want 503 draining", code, word)
		}
	}
	if res := p.post("/v1/messages", conversation(2, false)); res.StatusCode != http.StatusOK {
		t.Errorf("a request during the delay: got %d, want 200", res.StatusCode)
	} else {
		read(t, res)
	}
	for code := -1; code != 0; time.Sleep(50 * time.Millisecond) { // until it accepts no more
		code, _ = p.readiness()
	}
	select {
	case <-stopped:
		t.Fatal("it has stopped during a stream")
	default:
	}
	close(finish)
	if got := <-stream; !strings.Contains(got, "message_stop") {
		t.Errorf("the stream is cut: %q", got)
	}
	<-stopped
}
