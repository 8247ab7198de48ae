// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// startEngine starts a real engine until the test ends.
func startEngine(t *testing.T, o engine.Options) *engine.Engine {
	t.Helper()
	o.Packages, o.Dir = os.Getenv("LLM_CACHE_ENGINE"), t.TempDir()
	if o.Packages == "" {
		lacking(t, "an inference engine: set LLM_CACHE_ENGINE to a folder where npm has installed node-llama-cpp and @node-llama-cpp/linux-x64")
	}
	for _, name := range []string{"../../README.md", "../../CONTRIBUTING.md", "../../docs/concepts/planner.md", "../../docs/reference/caddyfile.md", "../../docs/guides/upstreams.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Text += string(text)
	}
	e, err := engine.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Kill)
	return e
}

// The engine itself: what it calls cached must be what a cache can hold.
func TestEngineCounts(t *testing.T) {
	for _, sliding := range []bool{false, true} {
		t.Run(fmt.Sprintf("sliding=%t", sliding), func(t *testing.T) { countsOf(t, sliding) })
	}
}

func countsOf(t *testing.T, sliding bool) {
	e := startEngine(t, engine.Options{Sliding: sliding})
	ask := func(system string, turns int) engine.Request {
		t.Helper()
		var b bytes.Buffer
		fmt.Fprintf(&b, `{"model":"tiny","messages":[{"role":"system","content":%q}`, system)
		for i := range turns {
			fmt.Fprintf(&b, `,{"role":"user","content":"Question %d about the weather."}`, i)
			if i+1 < turns {
				b.WriteString(`,{"role":"assistant","content":"A title"}`)
			}
		}
		b.WriteString(`]}`)
		res, err := http.Post("http://"+e.Addr+"/v1/chat/completions", "application/json", &b) //nolint:noctx // the server is ours
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		list, err := e.Requests(t.Context())
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", res.Status, err)
		}
		return list[len(list)-1]
	}
	system := strings.Repeat("You are an agent that looks after a repository. ", 60)
	cold := ask(system, 1)
	again := ask(system, 1)
	grown := ask(system, 2)
	other := ask("Other. "+system, 2)
	t.Logf("cold %+v\nagain %+v\ngrown %+v\nother %+v", cold, again, grown, other)
	if cold.Cached > 0 || cold.Prompt < 500 {
		t.Errorf("a new engine has %d of %d tokens cached", cold.Cached, cold.Prompt)
	}
	if again.Processed > 1 {
		t.Errorf("the same prompt again: %d tokens processed, want 1", again.Processed)
	}
	// The answer, as it was generated, is part of the prefix.
	if grown.Cached < cold.Prompt+3 {
		t.Errorf("a turn more: %d tokens cached, want more than the %d of the first prompt", grown.Cached, cold.Prompt)
	}
	if other.Cached > 20 {
		t.Errorf("another beginning: %d tokens cached", other.Cached)
	}
}
