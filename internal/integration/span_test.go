// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spans is a collector of them.
type spans struct {
	mu  sync.Mutex
	got []*traces.Span
}

func (s *spans) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var all collector.ExportTraceServiceRequest
	if proto.Unmarshal(body, &all) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range all.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			s.got = append(s.got, scope.Spans...)
		}
	}
}

// await returns the spans once there are so many.
func (s *spans) await(t *testing.T, n int) []*traces.Span {
	t.Helper()
	for range 400 {
		s.mu.Lock()
		got := s.got
		s.mu.Unlock()
		if len(got) >= n {
			return got
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatalf("%d spans have not come", n)
	return nil
}

// TestSpans: behind Caddy's handler tracing, with its own exporter, a request has a span that
// is the child of Caddy's and the parent of what the upstream would make, in every request
// that goes there. Folding, translation and continuations are its events.
func TestSpans(t *testing.T) {
	got := new(spans)
	c := httptest.NewServer(got)
	t.Cleanup(c.Close)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")

	p, u := folding(t, true, func(name string, at int, _ *http.Request) said {
		if at == 1 {
			return said{sayExpand("toolu_e", name)}
		}
		return said{sayText("I see.")}
	})
	p.reload("tracing\n" + pruning(u))
	first := len(u.requests())
	read(t, p.post("/v1/messages", agent(5, true), "X-Api-Key", "sk-secret"))
	u2 := newUpstream(t, answerMessage)
	p.reload("tracing\nllm_cache {\n upstream anthropic\n}\nreverse_proxy " + u2.Listener.Addr().String() +
		" {\n header_up Host {upstream_hostport}\n}")
	read(t,
		p.post("/v1/chat/completions", `{"model":"claude-opus-4-6","messages":[{"role":"user","content":"Fix the build."}]}`,
			"Authorization", "Bearer sk-secret"))

	u3 := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.NewReplacer(":1234,", ":9000,", ":40,", ":1000,").Replace(message))
	})
	p.reload("tracing\n" + strings.Replace(plain(u3), "llm_cache", "llm_cache {\n planner {\n risk 100\n }\n}", 1))
	tools := func(body string) string {
		return strings.Replace(body, `"messages":[`,
			`"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[`, 1)
	}
	read(t, p.post("/v1/messages", tools(conversation(12, false)), "X-Session-Id", "f"))
	read(t, p.post("/v1/messages", tools(conversation(13, false)), "X-Session-Id", "f"))
	// which has none of it cached
	read(t, p.post("/v1/messages", tools(strings.Replace(conversation(14, false), "claude-opus-4-6", "claude-opus-4-5",
		1)), "X-Session-Id", "f"))

	all := got.await(t, 10)
	byID := map[string]*traces.Span{}
	for _, s := range all {
		byID[string(s.SpanId)] = s
	}
	var ours []*traces.Span
	for _, s := range all {
		if strings.HasPrefix(s.Name, "chat ") {
			ours = append(ours, s)
		}
	}
	if len(all) != 10 || len(ours) != 5 {
		t.Fatalf("%d spans, %d of them ours", len(all), len(ours))
	}
	events := map[string]int{}
	for _, s := range ours {
		if parent := byID[string(s.ParentSpanId)]; parent == nil || parent.Name == s.Name {
			t.Errorf("%s is no child of Caddy's", s.Name)
		}
		for _, e := range s.Events {
			events[e.Name]++
		}
		for _, text := range []string{"Fix the build", "I see", "sk-secret", "line of file"} {
			if strings.Contains(s.String(), text) {
				t.Errorf("%q is in %s", text, s)
			}
		}
		server := false
		for _, a := range s.Attributes {
			server = server || a.Key == "server.address" && a.Value.GetStringValue() == "127.0.0.1"
		}
		if !server {
			t.Errorf("the server is not in %s", s)
		}
	}
	if events["llm_cache.fold"] != 1 || events["llm_cache.expand"] != 1 || events["llm_cache.translate"] != 1 {
		t.Errorf("events %v", events)
	}
	for _, r := range slices.Concat(u.requests()[first:], u2.requests(), u3.requests()) {
		parts := strings.Split(r.header.Get("Traceparent"), "-")
		if len(parts) != 4 {
			t.Fatalf("the upstream got %q", r.header.Get("Traceparent"))
		}
		found := false
		for _, s := range ours {
			found = found || parts[2] == hex.EncodeToString(s.SpanId)
		}
		if !found {
			t.Errorf("the upstream's parent is %s", parts[2])
		}
	}
	if n := len(u.requests()) - first; n != 2 {
		t.Errorf("the upstream got %d requests", n)
	}
}
