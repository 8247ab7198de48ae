// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package integration_test

import (
	"bufio"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// TestPageLoad measures what viewers of the live page cost where there are 1,000 sessions, of
// which one goes on every half a second: the processor time of the whole process with and
// without ten of them. It runs where LLM_CACHE_PAGE_LOAD says for how long, as in 20s.
func TestPageLoad(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv("LLM_CACHE_PAGE_LOAD"))
	if err != nil {
		t.Skip("LLM_CACHE_PAGE_LOAD is no time: nothing is measured")
	}
	u := newUpstream(t, answerMessage)
	p := start(t, plain(u))
	for i := range 1000 {
		read(t, p.post("/v1/messages", conversation(2, false), "X-Session-Id", strconv.Itoa(i)))
	}
	run := func() time.Duration {
		t.Helper()
		before, n := testkit.ProcessorTime(), 0
		for end := time.Now().Add(long); time.Now().Before(end); n++ {
			read(t, p.post("/v1/messages", conversation(3, false), "X-Session-Id", strconv.Itoa(n)))
			time.Sleep(500 * time.Millisecond)
		}
		return testkit.ProcessorTime() - before
	}
	without := run()
	events := make(chan struct{}, 1<<16)
	for range 10 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+"/llm_cache/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := p.client.Do(req) //nolint:bodyclose // it is closed at the end
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer res.Body.Close()
			lines := bufio.NewScanner(res.Body)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				if len(lines.Bytes()) > 0 {
					events <- struct{}{}
				}
			}
		}()
	}
	with := run()
	if len(events) < 20 {
		t.Fatalf("%d events in %s", len(events), long)
	}
	t.Logf("%d events; %.2f %% of a core with 10 viewers, %.2f %% without: viewers cost %.2f %%", len(events),
		100*with.Seconds()/long.Seconds(), 100*without.Seconds()/long.Seconds(), 100*(with-without).Seconds()/long.Seconds())
}
