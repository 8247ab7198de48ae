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
		lacking(t,
			"an inference engine: set LLM_CACHE_ENGINE to a folder where npm has installed node-llama-cpp and "+
				"@node-llama-cpp/linux-x64")
	}
	for _, name := range []string{
		"../../README.md", "../../docs/guides/stores.md", "../../docs/concepts/planner.md",
		"../../docs/reference/caddyfile.md", "../../docs/guides/upstreams.md",
	} {
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

// TestWordingsOnEngine: a changing date, time or folder in the first messages, in any words, costs
// no more than its own tokens.
func TestWordingsOnEngine(t *testing.T) {
	b := startBox(t, engine.Options{}, "upstream llama_cpp\nqueue")
	const rules = "You are an agent that looks after a repository. "
	for i, c := range []struct{ was, is string }{
		{
			"Conversation started: Thursday, November 26, 2026 05:30 PM",
			"Conversation started: Friday, November 27, 2026 05:30 PM",
		},
		{"Today: 2026-11-26; current working directory: '/a'.", "Today: 2026-11-27; current working directory: '/b'."},
		{"2026-11-26 17:30 (Thursday)", "2026-11-26 17:31 (Thursday)"},
		{"Timestamp: 2026-11-26 17:30:12 UTC", "Timestamp: 2026-11-26 17:30:14 UTC"},
		{
			"The current date and time is Thursday, November 26, 2026 5:30 PM.",
			"The current date and time is Thursday, November 26, 2026 5:31 PM.",
		},
		{"now 2026-11-26T17:30:12.123Z", "now 2026-11-26T17:30:12.456Z"},
		{"Current working directory: /a", "Current working directory: /b"},
		{"You work in ~/src/one on a Mac.", "You work in ~/src/two on a Mac."},
		{"It is 26 Nov 2026 where the user lives.", "It is 27 Nov 2026 where the user lives."},
		{"Local time 9:05 a.m., Monday", "Local time 10:15 a.m., Tuesday"},
		{
			"Session 1b4e28ba-2fa1-11d2-883f-0016d3cca427 has begun.",
			"Session 6ba7b810-9dad-11d1-80b4-00c04fd430c8 has begun.",
		},
		{"The branch is at 3f2a9bc.", "The branch is at 77d0e1f."},
		{"Scratch files go to (/tmp/agent-1/work), nowhere else.", "Scratch files go to (/tmp/agent-2/work), nowhere else."},
		{"Date format here: 11/26/2026", "Date format here: 11/27/2026"},
		{"Heute ist der 26.11.2026, 9:05 Uhr.", "Heute ist der 27.11.2026, 10:15 Uhr."},
		{"Files were indexed on Nov 26, 2026 at 14:00.", "Files were indexed on Nov 27, 2026 at 14:00."},
		{"Root: C:\\src\\one", "Root: C:\\src\\two"},
	} {
		for _, place := range []string{"system", "user"} {
			body := func(line, more string) string {
				system, user := strings.Repeat(rules, 60), fmt.Sprintf("Task %d: mend the build.", i)
				if place == "system" {
					system += "\n" + line + "\nMore rules."
				} else {
					user = strings.Repeat("Read with care. ", 200) + "\n" + line + "\n" + user
				}
				return fmt.Sprintf(`{"model":"tiny","messages":[{"role":"system","content":%q},{"role":"user","content":%q}%s],`+
					`"tools":[{"type":"function","function":{"name":"Read","parameters":{"type":"object"}}}]}`, system, user, more)
			}
			for _, body := range []string{
				body(c.was, ""),
				body(c.is, `,{"role":"assistant","content":"Nothing is left to do."},{"role":"user","content":"Go on."}`),
			} {
				res, err := http.Post(b.url+"/v1/chat/completions", "application/json",
					strings.NewReader(body)) //nolint:noctx // the server is ours
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Fatal(res.Status)
				}
			}
			list, err := b.engine.Requests(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if last := list[len(list)-1]; last.Processed > 150 {
				t.Errorf("%q became %q in the %s message: %d of %d tokens processed, want no more than the telling", c.was, c.is,
					place, last.Processed, last.Prompt)
			}
		}
	}
}

// The engine itself: its count of cached tokens must be possible for a cache.
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
		res, err := http.Post("http://"+e.Addr+"/v1/chat/completions", "application/json",
			&b) //nolint:noctx // the server is ours
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
	// The generated answer is part of the prefix.
	if grown.Cached < cold.Prompt+3 {
		t.Errorf("a turn more: %d tokens cached, want more than the %d of the first prompt", grown.Cached, cold.Prompt)
	}
	if other.Cached > 20 {
		t.Errorf("another beginning: %d tokens cached", other.Cached)
	}
}
