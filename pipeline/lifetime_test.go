// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// The long lifetime begins only without a live cache, if the client names none. A conversation with
// the long lifetime keeps it.
func TestLongLifetime(t *testing.T) {
	s := newScript(t, Options{}, keeping)
	n := 0
	step := func(pause time.Duration, want string) {
		t.Helper()
		s.now = s.now.Add(pause)
		u := wire.Usage{Uncached: 10, Read: int64(1000 * n), Write5m: 1000, Reported: true}
		if want == "1h" {
			u.Write5m, u.Write1h = 0, 1000
		}
		x := s.send(wire.Turn{Text: "unrelated", Done: true, Usage: u})
		marked, long := strings.Count(string(x.Prompt.Body.Bytes()), `"cache_control"`),
			strings.Count(string(x.Prompt.Body.Bytes()), `"type":"ephemeral","ttl":"1h"`)
		if got := map[bool]string{true: "1h", false: "5m"}[long > 0]; got != want || long != 0 && long != marked {
			t.Errorf("request %d: %d of %d markers are long, want %s", n, long, marked, want)
		}
		s.turn(n, "/a.go", long200)
		n++
	}
	s.prompt("Fix the bug.")
	step(0, "5m")
	s.s.SetLifetime(sessioncache.LifetimeLong)
	step(time.Minute, "5m") // the cache is alive
	step(10*time.Minute, "1h")
	step(time.Minute, "1h")
	s.s.SetLifetime(sessioncache.LifetimeKept)
	step(30*time.Minute, "1h")
	step(2*time.Hour, "5m")
	s.s.SetLifetime(sessioncache.LifetimeLong)
	step(10*time.Minute, "1h")
	s.s.SetLifetime(sessioncache.LifetimeAsked)
	step(time.Minute, "5m")
	s.s.SetLifetime(sessioncache.LifetimeLong)
	s.marker = `,"cache_control":{"type":"ephemeral","ttl":"5m"}` // the client names a lifetime
	step(10*time.Hour, "5m")
	s.marker = "" // the client caches nothing
	step(10*time.Hour, "5m")
}

var long200 = strings.Repeat("a line of text to fill the prompt with\n", 200)

// A new conversation has the long lifetime from its first request on, including the marker of the
// whole request.
func TestLongLifetimeFromTheStart(t *testing.T) {
	const body = `{"model":"m","cache_control":{"type":"ephemeral"},"tools":[{"name":"Read"}],` +
		`"messages":[{"role":"user","content":"Fix the bug."}]}`
	s := newScript(t, Options{}, keeping)
	s.s.SetLifetime(sessioncache.LifetimeLong)
	v, err := wire.Parse(wire.Anthropic, []byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	x := s.p.Begin(v, s.s, s.now)
	x.Abandon()
	if want := strings.Replace(body, `"ephemeral"`, `"ephemeral","ttl":"1h"`, 1); string(x.Prompt.Body.Bytes()) != want ||
		!x.Prompt.Edited {
		t.Errorf("sent %s", x.Prompt.Body.Bytes())
	}
}
