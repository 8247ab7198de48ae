// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// A header handler behind writes into the values that it finds. What it finds is
// the request's own: no other request sees what became of it.
func TestHeadersBehindAreTheRequestsOwn(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, answerChat)
	const box = "upstream mlx_lm {\n format openai_chat\n}\n rejoin off\n"
	for name, options := range map[string]string{"native": "rejoin off\n", "translated": box} {
		site := "route {\n llm_cache {\n" + options + "}\n%s\nreverse_proxy " + u.Listener.Addr().String() + "\n}"
		p := start(t, fmt.Sprintf(site, "request_header Accept-Encoding identity x-plain"))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { p.post("/v1/messages", conversation(1, false)) })
		}
		wg.Wait()
		for _, r := range u.requests() {
			if got := r.header.Get("Accept-Encoding"); got != "x-plain" {
				t.Errorf("%s: the upstream was asked for %q", name, got)
			}
		}
		p.reload(fmt.Sprintf(site, ""))
		p.post("/v1/messages", conversation(1, false))
		if got := u.last().header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("%s: without the handler the upstream was asked for %q", name, got)
		}
		u.mu.Lock()
		u.got = nil
		u.mu.Unlock()
	}
}

// What is sent again later takes the way of the request, so that handlers behind
// do to it, once, what they did to the request.
func TestHeadersOfAWarmUpAreThoseOfTheRequest(t *testing.T) {
	t.Parallel()
	var trouble atomic.Bool
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		if trouble.CompareAndSwap(true, false) {
			panic(http.ErrAbortHandler)
		}
		answerChat(w, r, n)
	})
	p := start(t, fmt.Sprintf("route {\n llm_cache {\n upstream mlx_lm\n heartbeat off\n rejoin off\n queue\n warm\n}\n"+
		"request_header X-Team a aa\n request_header Authorization one once\n reverse_proxy %s\n}", u.Listener.Addr()))
	ask := func() { p.post("/v1/messages", withTools(1), "X-Api-Key", "sk-one", "X-Team", "a") }
	for i := range 3 { // a warm-up is made of the same copy each time
		ask()
		trouble.Store(true)
		ask()
		got := u.came(t, 3*i+3)
		for _, r := range got {
			if team, key := r.header.Get("X-Team"), r.header.Get("Authorization"); team != "aa" || key != "Bearer sk-once" {
				t.Fatalf("a request of %d came with the team %q and the key %q", len(got), team, key)
			}
		}
		p.until("caddy_llm_cache_queue_running", 0)
	}
}
