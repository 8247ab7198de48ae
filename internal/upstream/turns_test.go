// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
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

// A request goes upstream with the same bytes and length, with and without remembered turns.
func TestTranslatedBody(t *testing.T) {
	p := (&Upstream{Format: wire.Anthropic}).Profile(Options{})
	memory := NewTranslations(1<<20, time.Now)
	var got []byte
	next := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) (err error) {
		if got, err = io.ReadAll(r.Body); err != nil || r.ContentLength != int64(len(got)) {
			t.Errorf("got %d bytes and error %v, want %d bytes", len(got), err, r.ContentLength)
		}
		return nil
	})
	list := `{"role":"user","content":"go"}`
	for i := range 5 {
		list += fmt.Sprintf(`,{"role":"assistant","content":"","tool_calls":[{"id":"t%d","type":"function","function":{"name":"f",`+
			`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"t%[1]d","content":"%s"}`, i, strings.Repeat("x", 9<<10))
		body := []byte(`{"model":"m","messages":[` + list + `],"tools":[{"type":"function","function":{"name":"f"}}]}`)
		view, err := wire.Parse(wire.OpenAIChat, body, nil)
		if err != nil {
			t.Fatal(err)
		}
		var bodies [2]string
		for j, memory := range []*Translations{nil, memory} {
			p.Translations = memory
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
			httpx.SetBody(r, body)
			_ = p.Translate(next, wire.OpenAIChat, sessioncache.Tenant{1}, "s", view).ServeHTTP(httptest.NewRecorder(), r)
			bodies[j] = string(got)
		}
		if i > 0 && memory.Bytes() == 0 {
			t.Errorf("request %d: got no turns remembered, want some", i)
		}
		if bodies[0] != bodies[1] || len(bodies[0]) < len(body)/2 {
			t.Errorf("request %d: got %.300q with turns, want %.300q", i, bodies[1], bodies[0])
		}
	}
}
