// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// fleet is a few boxes, each of which says its name in its answers.
func fleet(t *testing.T, n int, before func(box int, r *http.Request)) (addrs []string, servers []*httptest.Server) {
	t.Helper()
	for i := range n {
		s := boxAt(t, testkit.FreeAddress(t), func(w http.ResponseWriter, r *http.Request) {
			before(i, r)
			w.Header().Set("X-Box", strconv.Itoa(i))
			answerMessage(w, r, 0)
		})
		t.Cleanup(s.Close)
		addrs, servers = append(addrs, s.Listener.Addr().String()), append(servers, s)
	}
	return addrs, servers
}

func boxAt(t *testing.T, addr string, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: serve}}
	s.Start()
	return s
}

func TestAffinityKeepsConversationsOnTheirBox(t *testing.T) {
	t.Parallel()
	addrs, servers := fleet(t, 3, func(int, *http.Request) {})
	// A connection that was kept may be closed just as it is taken up again: no Caddy sends
	// a POST once more then.
	p := start(t, fmt.Sprintf(`llm_cache
reverse_proxy %s {
	lb_policy llm_session 100
	lb_try_duration 5s
	lb_try_interval 10ms
	fail_duration 100ms
	transport http {
		keepalive off
	}
}`, strings.Join(addrs, " ")))
	const sessions = 30 // of which each box has some
	homes := func(settled bool) (at [sessions]string) {
		for i := range at {
			for turns := 1; turns <= 3; turns++ {
				res := p.post("/v1/messages", conversation(turns, false), "X-Session-Id", strconv.Itoa(i))
				if res.StatusCode != http.StatusOK {
					t.Fatalf("session %d: %s: %s", i, res.Status, read(t, res))
				}
				box := res.Header.Get("X-Box")
				if settled && turns > 1 && box != at[i] {
					t.Fatalf("session %d moved from box %s to %s between two requests", i, at[i], box)
				}
				at[i] = box
			}
		}
		return at
	}
	before := homes(true)
	servers[1].Close()
	during := homes(true)
	moved := 0
	for i := range before {
		switch {
		case before[i] == "1":
			moved++
		case during[i] != before[i]:
			t.Errorf("session %d moved from box %s, which is alive, to %s", i, before[i], during[i])
		}
	}
	if moved == 0 || moved == sessions {
		t.Fatalf("%d of %d sessions lived on the box that died: this shows nothing", moved, sessions)
	}
	s := boxAt(t, addrs[1], func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Box", "1")
		answerMessage(w, r, 0)
	})
	t.Cleanup(s.Close)
	for range 100 { // until the failure is forgotten
		if homes(false) == before {
			return
		}
	}
	t.Errorf("conversations are at %v, want them back at %v", homes(false), before)
}

func TestAffinityPassesABusyBoxOver(t *testing.T) {
	t.Parallel()
	var (
		mu    sync.Mutex
		count [2]int
		wait  = make(chan struct{})
	)
	arrived := make(chan struct{}, 8)
	addrs, _ := fleet(t, 2, func(box int, _ *http.Request) {
		mu.Lock()
		count[box]++
		mu.Unlock()
		arrived <- struct{}{}
		<-wait
	})
	p := start(t, fmt.Sprintf(`llm_cache
reverse_proxy %s {
	lb_policy llm_session 1.5
}`, strings.Join(addrs, " ")))
	var wg sync.WaitGroup
	for i := range 8 { // one conversation, all of whose requests would go to one box
		wg.Go(func() {
			res, err := http.Post("http://"+p.addr+"/v1/messages", "application/json",
				strings.NewReader(conversation(1, false))) //nolint:noctx // the server is ours
			if err != nil {
				t.Errorf("request %d: %v", i, err)
				return
			}
			_ = res.Body.Close()
		})
		<-arrived
	}
	close(wait)
	wg.Wait()
	if min(count[0], count[1]) < 2 || max(count[0], count[1]) > 6 {
		t.Errorf("the boxes had %v of 8 requests at a time, want at most 6 and at least 2 each", count)
	}
}
