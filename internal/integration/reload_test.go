// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestReload keeps sessions, counters and the key that tenants are hashed
// with; a stream that began before still commits.
func TestReload(t *testing.T) {
	seen := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if !strings.Contains(r.Header.Get("X-Slow"), "yes") {
			answerMessage(w, r, n)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events[0])
		w.(http.Flusher).Flush()
		<-seen
		_, _ = io.WriteString(w, strings.Join(events[1:], ""))
	})
	p := start(t, plain(u))
	const counter = `caddy_llm_cache_requests_total{outcome="completed",policy="cost_aware"}`
	before := p.metric(counter)

	id := p.post("/v1/messages", conversation(1, false), "X-Session-Id", "a", "X-Api-Key",
		"k").Header.Get("X-Llm-Cache-Session")
	slow := p.post("/v1/messages", conversation(1, true), "X-Session-Id", "b", "X-Slow", "yes")
	for range 3 {
		p.load(p.config(plain(u)))
	}
	again := p.post("/v1/messages", conversation(2, false), "X-Session-Id", "a", "X-Api-Key", "k")
	if got := again.Header.Get("X-Llm-Cache-Session"); got != id {
		t.Errorf("session is %s after a reload, was %s", got, id)
	}
	close(seen)
	if got := read(t, slow); got != strings.Join(events, "") {
		t.Errorf("stream over a reload is %q", got)
	}
	for _, want := range []struct {
		id string
		n  int
	}{{id, 2}, {slow.Header.Get("X-Llm-Cache-Session"), 1}} {
		var r report
		if code := p.adminDo(http.MethodGet, "/llm_cache/sessions/"+want.id, &r); code != http.StatusOK ||
			r.requests() != want.n {
			t.Errorf("session %s: status %d, %d requests, want %d", want.id, code, r.requests(), want.n)
		}
	}
	if got := p.metric(counter); got != before+3 {
		t.Errorf("%s is %v, want %v", counter, got, before+3)
	}
	if got := p.metric("caddy_llm_cache_sessions"); got != 2 {
		t.Errorf("sessions gauge is %v, want 2", got)
	}
	if got := p.metric("caddy_llm_cache_store_bytes"); got <= 0 {
		t.Errorf("bytes gauge is %v", got)
	}
	if got := p.metric("caddy_llm_cache_overhead_seconds_count"); got < 3 {
		t.Errorf("overhead histogram counts %v", got)
	}
}

// TestFailedReload keeps sessions wherever the new configuration fails.
func TestFailedReload(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	p.post("/v1/messages", conversation(1, false))
	good := string(p.config(plain(u)))
	for name, bad := range map[string]string{
		"before the store is shared": strings.Replace(good, `"handler":"llm_cache"`, `"handler":"llm_cache","polcy":"x"`, 1),
		"in Validate":                strings.Replace(good, `"handler":"llm_cache"`, `"handler":"llm_cache","health":"x"`, 1),
		"in another handler": strings.Replace(good, `"handler":"reverse_proxy"`,
			`"handler":"reverse_proxy","trusted_proxies":["x"]`, 1),
		"in the store": strings.Replace(good, `"apps":{`,
			`"apps":{"llm_cache":{"store":{"module":"memory","idle_ttl":5}},`, 1),
		"in Start": strings.Replace(good, `"listen":[":`, `"listen":["192.0.2.1:`, 1),
	} {
		if bad == good {
			t.Fatalf("%s: nothing is wrong", name)
		}
		if err := p.caddy.Load([]byte(bad)); err == nil {
			t.Errorf("%s: loaded", name)
		}
		if s := p.sessions(); len(s) != 1 || s[0].requests() != 1 {
			t.Errorf("%s: sessions are %v", name, s)
		}
	}
	p.post("/v1/messages", conversation(2, false))
	if s := p.sessions(); len(s) != 1 || s[0].requests() != 2 {
		t.Errorf("sessions are %v", s)
	}
}

// TestChangedLimits apply without a loss.
func TestChangedLimits(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	p.post("/v1/messages", conversation(1, false))
	limited := strings.Replace(string(p.config(plain(u))), `"apps":{`, `"apps":{"llm_cache":{"memory":6291456},`, 1)
	p.load([]byte(limited))
	if s := p.sessions(); len(s) != 1 {
		t.Errorf("sessions are %v", s)
	}
}

// TestStoreCloses when no handler is left, and only after the last stream.
func TestStoreCloses(t *testing.T) {
	seen := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events[0])
		w.(http.Flusher).Flush()
		<-seen
		_, _ = io.WriteString(w, strings.Join(events[1:], ""))
	})
	p := start(t, plain(u))
	const counter = `caddy_llm_cache_requests_total{outcome="completed",policy="cost_aware"}`
	before := p.metric(counter)
	res := p.post("/v1/messages", conversation(1, true))
	p.reload("respond 204")
	if s := p.sessions(); len(s) != 0 {
		t.Errorf("sessions are %v", s)
	}
	close(seen)
	if got := read(t, res); got != strings.Join(events, "") {
		t.Errorf("stream is %q", got)
	}
	p.reload(plain(u)) // for the metrics
	if p.metric(counter) != before+1 {
		t.Error("the stream did not complete")
	}
}

func TestAdmin(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	secret := "sk-ant-secret"
	a := p.post("/v1/messages", conversation(2, false), "X-Api-Key", secret, "X-Session-Id",
		"visible-id").Header.Get("X-Llm-Cache-Session")
	b := p.post("/v1/messages", conversation(2, false), "X-Api-Key", secret+"2", "X-Session-Id",
		"visible-id").Header.Get("X-Llm-Cache-Session")
	if a == b {
		t.Error("two tenants share a session")
	}
	var text string
	p.adminDo(http.MethodGet, "/llm_cache/sessions", &text)
	for _, part := range []string{secret, "visible-id", "Fix the build", "file0.go", "You are an agent"} {
		if strings.Contains(text, part) {
			t.Errorf("%q leaks: %s", part, text)
		}
	}
	if s := p.sessions(); len(s) != 2 || s[0].ID != b || s[1].ID != a {
		t.Errorf("sessions are %v, want %s and %s", s, b, a)
	}
	p.post("/v1/messages", conversation(2, false), "X-Api-Key", secret, "X-Session-Id", "another")
	for client, want := range map[string]int{"visible-id": 2, "another": 1, "nobody": 0} {
		var named struct {
			Sessions []struct{ ID string }
		}
		p.adminDo(http.MethodGet, "/llm_cache/sessions?client="+client, &named)
		if len(named.Sessions) != want {
			t.Errorf("%d sessions are %s's, want %d", len(named.Sessions), client, want)
		}
	}
	for _, step := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/llm_cache/sessions/" + a, http.StatusOK},
		{http.MethodPost, "/llm_cache/sessions/" + a, http.StatusMethodNotAllowed},
		{http.MethodGet, "/llm_cache/sessions/nothing", http.StatusNotFound},
		{http.MethodDelete, "/llm_cache/sessions/nothing", http.StatusNotFound},
		{http.MethodDelete, "/llm_cache/sessions/" + a, http.StatusNoContent},
		{http.MethodGet, "/llm_cache/sessions/" + a, http.StatusNotFound},
		{http.MethodGet, "/llm_cache/sessions/" + b, http.StatusOK},
		{http.MethodDelete, "/llm_cache/sessions", http.StatusMethodNotAllowed},
	} {
		if got := p.adminDo(step.method, step.path, nil); got != step.want {
			t.Errorf("%s %s: status %d, want %d", step.method, step.path, got, step.want)
		}
	}
	if res := p.post("/v1/messages", conversation(3, false), "X-Api-Key", secret, "X-Session-Id",
		"visible-id"); res.StatusCode != http.StatusOK {
		t.Errorf("after a deletion: status %d", res.StatusCode)
	}
}

// TestReloadUnderLoad reloads while conversations go on: no request that has
// reached Caddy may fail, and none may be lost to its session. Connections that
// are reset as Caddy passes the port on are the client's to open again, with or
// without this module.
func TestReloadUnderLoad(t *testing.T) {
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	const workers, reloads = 4, 10
	done := make(chan struct{})
	var turns atomic.Int64
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			client := &http.Client{Transport: new(http.Transport)}
			defer client.CloseIdleConnections()
			id := "worker-" + strconv.Itoa(i)
			for n := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.addr+"/v1/messages",
					strings.NewReader(conversation(n, false)))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Session-Id", id)
				res, err := client.Do(req)
				if err != nil { // reset
					continue
				}
				n++
				turns.Add(1)
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("turn %d: status %d, %v", n, res.StatusCode, err)
				}
			}
		})
	}
	for range reloads {
		p.load(p.config(plain(u)))
		for before := turns.Load(); turns.Load() < before+workers; {
			time.Sleep(time.Millisecond)
		}
	}
	close(done)
	group.Wait()
	got := 0
	for _, s := range p.sessions() {
		got += s.requests()
	}
	if want := int(turns.Load()); got != want {
		t.Errorf("sessions hold %d requests, want %d", got, want)
	}
}
