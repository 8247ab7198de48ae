// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"hash/maphash"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestLargeAnswers: an answer of very many events, and one of a single very large one,
// pass under expand as the upstream sends them, in little memory and time. By hand, with
// -hostile 31, there are 300 MB of events.
func TestLargeAnswers(t *testing.T) {
	total := 128 << 20
	switch {
	case *hostileSize >= 31:
		total = 300 << 20
	case testing.Short():
		total = 8 << 20
	}
	event := func(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
	delta := func(size int) string {
		return event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+
			strings.Repeat("x", size)+`"}}`)
	}
	opened := event("message_start",
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-6",`+
			`"content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}`) +
		event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	closed := event("content_block_stop", `{"type":"content_block_stop","index":0}`) +
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`) +
		event("message_stop", `{"type":"message_stop"}`)
	for _, c := range []struct {
		name  string
		event string
		times int
		mb    int64
		ms    int64
	}{
		{"many deltas", delta(1000), total / 1000, 300, 30_000},
		{"one event", delta(8 << 20), 1, 200, 4000}, // twelve seconds, were it looked at from its start at each read
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, opened)
				for range c.times {
					for rest := c.event; rest != ""; { // as it comes over a network
						n := min(len(rest), 16<<10)
						if _, err := io.WriteString(w, rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
						if c.times == 1 {
							w.(http.Flusher).Flush()
						}
					}
				}
				_, _ = io.WriteString(w, closed)
			})
			p := start(t, "handle_path /bare/* {\nreverse_proxy "+u.Listener.Addr().String()+"\n}\n"+pruning(u))
			seed := maphash.MakeSeed()
			take := func(path string) (sum uint64, n int64) {
				res := p.post(path, agent(1, true))
				var h maphash.Hash
				h.SetSeed(seed)
				n, err := io.Copy(&h, res.Body)
				if err != nil {
					t.Fatal(err)
				}
				if path[1] != 'b' && !strings.Contains(u.last().body, "mcp__llm_cache__expand") {
					t.Error("the tool is not declared")
				}
				return h.Sum64(), n
			}
			var want, got uint64
			var n, m int64
			bare := measured(func() { want, n = take("/bare/v1/messages") })
			ours := measured(func() { got, m = take("/v1/messages") })
			t.Logf("%d MB: bare %d MB and %d ms, with expand %d MB and %d ms", n>>20, bare.mb, bare.ms, ours.mb, ours.ms)
			if got != want {
				t.Errorf("%d bytes arrived, and %d of bare Caddy", m, n)
			}
			if mb, ms := ours.mb-bare.mb, ours.ms-bare.ms; mb > c.mb || ms > c.ms {
				t.Errorf("%d MB and %d ms more than without llm_cache", mb, ms)
			}
		})
	}
}
