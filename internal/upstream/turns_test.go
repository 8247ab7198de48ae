// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// turnsOf returns remembered turns of some size.
func turnsOf(t *testing.T) *translate.Turns {
	t.Helper()
	body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}` +
		strings.Repeat(`,{"role":"assistant","content":"`+strings.Repeat("x", 999)+`"},{"role":"user","content":"b"}`, 20) + `]}`
	out, err := translate.Convert(wire.Anthropic, wire.OpenAIChat,
		translate.Incoming{Body: []byte(body), Path: "/v1/messages", Remember: true}, translate.Options{})
	if err != nil || out.Turns == nil {
		t.Fatalf("got turns %v and error %v, want turns", out, err)
	}
	return out.Turns
}

func TestTranslations(t *testing.T) {
	now := time.Now()
	turns := turnsOf(t)
	m := NewTranslations(10*turns.Size(), func() time.Time { return now })
	a, b := sessioncache.Tenant{1}, sessioncache.Tenant{2}
	first := func(i int) wire.Hash { return wire.Hash{byte(i)} }

	m.put(a, "s", translated{first(1), wire.OpenAIChat, turns})
	for _, x := range []struct {
		session string
		first   wire.Hash
		to      wire.Format
		want    bool
	}{
		{"s", first(1), wire.OpenAIChat, true},
		{"s2", first(1), wire.OpenAIChat, false},
		{"s", first(2), wire.OpenAIChat, false},
		{"s", first(1), wire.Gemini, false},
	} {
		if got := m.get(x.session, x.first, x.to) != nil; got != x.want {
			t.Errorf("got turns of %s %s %s: %v, want %v", x.session, x.first, x.to, got, x.want)
		}
	}
	if m.put(a, "s", translated{first(1), wire.OpenAIChat, nil}); m.Bytes() != 0 {
		t.Errorf("got %d bytes after a request without turns, want 0", m.Bytes())
	}

	m.put(b, "other", translated{first(1), wire.OpenAIChat, turns})
	for i := range 50 {
		m.put(a, fmt.Sprint(i), translated{first(1), wire.OpenAIChat, turns})
	}
	if m.Bytes() > 10*turns.Size() || m.get("49", first(1), wire.OpenAIChat) == nil {
		t.Errorf("got %d bytes, want the newest sessions in at most %d", m.Bytes(), 10*turns.Size())
	}
	if m.get("other", first(1), wire.OpenAIChat) == nil {
		t.Error("one tenant has evicted another's turns")
	}
	for i := range 50 {
		m.put(a, "many", translated{first(i), wire.OpenAIChat, turns})
	}
	if n := len(m.sessions.Get("many").Value); n > maxTranslated {
		t.Errorf("got %d conversations of a session, want at most %d", n, maxTranslated)
	}
	if now = now.Add(maxIdleTurns + time.Second); m.get("49", first(1), wire.OpenAIChat) != nil {
		t.Error("got turns of an idle session, want none")
	}
}
