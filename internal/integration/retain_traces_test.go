// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	agents "github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/agent"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli/trial/recording"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
)

// recordings returns some of the recorded conversations, every step'th.
func recordings(t *testing.T, step int) (some []*recording.Conversation) {
	t.Helper()
	all := testkit.RecordingFiles(t)
	more, err := filepath.Glob(filepath.Join(testkit.RecordingFolder(t), "more", "*.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range append(all, more...) {
		if i%step != 0 {
			continue
		}
		found, err := recording.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		some = append(some, found...)
	}
	return some
}

// TestRetainRecorded: recorded conversations through edge and origin. What the model gets
// is what the client has sent, to the byte, and what goes over the line is a fraction.
func TestRetainRecorded(t *testing.T) {
	conversations := recordings(t, 24*testkit.Every(3))
	for _, name := range []string{"anthropic-5m", "openai-responses", "openai", "kv"} {
		t.Run(name, func(t *testing.T) { holdRecorded(t, conversations, profileOf(t, name), "policy observe") })
	}
	// Where the edge edits, what it sends is another body, and folds change it in many places.
	t.Run("edited", func(t *testing.T) {
		holdRecorded(t, conversations, profileOf(t, "anthropic-5m"),
			"policy cost_aware")
	})
}

func holdRecorded(t *testing.T, conversations []*recording.Conversation, profile pricing.Profile, policy string) {
	path, answer := "/v1/messages", message
	switch profile.Format {
	case "openai_chat":
		path, answer = "/v1/chat/completions",
			`{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",`+
				`"content":"Done."},"finish_reason":"stop"}]}`
	case "openai_responses":
		path, answer = "/v1/responses",
			`{"id":"r1","object":"response","status":"completed","model":"m","output":[{"type":"message","id":"m1",`+
				`"role":"assistant","content":[{"type":"output_text","text":"Done."}]}]}`
	}
	s := twoSites(t, newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, answer)
	}))
	s.client = &http.Client{Transport: &http.Transport{}}
	s.policy = policy + "\nretain origin"
	s.load(s.sites("llm_cache_origin"))
	var shares []float64
	var whole, sent, first, wire int64
	for i, c := range conversations {
		last := 0
		err := agents.Requests(c, profile, func(part int, body []byte) error {
			before := s.line.up.Load()
			res := s.post(path, string(body), "X-Api-Key", "a", "X-Session-Id", fmt.Sprint(i, " ", part))
			if got := read(t, res); res.StatusCode != http.StatusOK || got != answer {
				t.Fatalf("status %d: %s", res.StatusCode, got)
			}
			if policy == "policy observe" && s.model.last().body != string(body) {
				t.Fatalf("%s: the model got another body", c.Name)
			}
			s.model.forget()
			n := len(body)
			if _, err := fmt.Sscanf(res.Header.Get("X-Llm-Cache-Retained"), "delta; sent=%d;", &n); err != nil && last == part {
				t.Logf("%s: %s", c.Name, res.Header.Get("X-Llm-Cache-Retained"))
			}
			if last != part {
				last = part
				first += int64(n)
				return nil
			}
			wire += s.line.up.Load() - before
			whole += int64(len(body))
			sent += int64(n)
			shares = append(shares, float64(n)/float64(len(body)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(shares)
	mean, median := float64(sent)/float64(whole), shares[len(shares)/2]
	t.Logf("%d conversations, %d requests: %.2f %% of %d bytes, %.2f %% with headers, half of them below %.2f %%, nine "+
		"tenths below %.2f %%; the first ones %d bytes",
		len(conversations), len(shares), 100*mean, whole, 100*float64(wire)/float64(whole), 100*median,
		100*shares[len(shares)*9/10], first)
	if mean > 0.03 || median > 0.01 {
		t.Errorf("%.2f %% went over the line, half of them above %.2f %%", 100*mean, 100*median)
	}
}

// profileOf returns a profile.
func profileOf(t *testing.T, name string) pricing.Profile {
	t.Helper()
	p, err := pricing.ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// forget forgets what was received.
func (u *upstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.got = nil
}
