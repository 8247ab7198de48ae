// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// TestSmoketestOverEdge: the smoke test finds nothing wrong with an edge and its origin, and
// sees that what is new is all that is sent; where all is sent each time, it says so.
func TestSmoketestOverEdge(t *testing.T) {
	var s *edgeAndOrigin
	model := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		body, word := s.model.last().body, "Done."
		for _, w := range []string{"MAPLE", "WILLOW"} {
			if strings.Contains(body, "the one word "+w) {
				word = w
			}
		}
		put := strings.NewReplacer("Done.", word)
		if strings.Contains(body, `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = put.WriteString(w, strings.Join(events, ""))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = put.WriteString(w, message)
	})
	s = twoSites(t, model)
	// Its connections do not outlive a request: a reload may close one that is being used again.
	o := &cli.SmoketestOptions{
		URL: "http://" + s.addr, Model: "claude-opus-4-6", Format: wire.Anthropic, Key: "k",
		Client: s.client,
	}
	lines, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := cli.SmoketestFaults(lines); n > 0 || len(lines) != 5 {
		for _, l := range lines {
			t.Errorf("%+v", l)
		}
	}
	for _, l := range lines[1:3] {
		if l.Sent == 0 || l.Sent > l.Bytes/2 || l.Cached != 1234 {
			t.Errorf("%+v", l)
		}
	}

	s.load(s.sites("header /x X-Y z")) // no origin there
	o.URL = "http://" + s.addr
	if lines, err = o.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := cli.SmoketestFaults(lines); n != 2 || len(lines[1].Faults) != 1 ||
		!strings.Contains(lines[1].Faults[0], "was sent all of it") {
		for _, l := range lines {
			t.Errorf("%+v", l)
		}
	}
}
