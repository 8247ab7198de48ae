// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	conversation := func(started, rest string) string {
		return `{"requests":3,"started":"2026-01-01T` + started + `Z"` + rest + `}`
	}
	page := func(conversations ...string) string {
		return `{"sessions":[{"id":"a","conversations":[` + strings.Join(conversations, ",") + `]}],"total":1}`
	}
	const full = `,"ttl_seconds":300,"warm":true,"total_usage":{"uncached":10,"read":90},"cost":{"units":60,` +
		`"client_units":100,"usd":1.5,"client_usd":2.5},"last_cache_break":"expired"`
	for _, c := range []struct{ answer, want string }{
		{
			page(conversation("11:58:41", full), conversation("11:00:00", "")),
			"cache 3:41 · read 90 % · saved 40 % $1.00 · last miss: expired",
		},
		{page(conversation("11:50:00", `,"ttl_seconds":300`)), "cache cold"},
		{page(conversation("11:50:00", `,"ttl_seconds":300,"warm":true,"warmed":"2026-01-01T11:59:00Z"`)), "cache 4:00"},
		{page(conversation("11:00:00", `,"warm":true,"cost":{"units":80,"client_units":100}`)), "cache warm · saved 20 %"},
		{
			page(conversation("11:00:00", `,"warm":true,"cost":{"units":100.1,"client_units":100,"usd":1.001,"client_usd":1}`)),
			"cache warm · saved 0 % $0.00",
		},
		{
			page(conversation("11:00:00", `,"warm":true,"cost":{"units":120,"client_units":100,"usd":1.2,"client_usd":1}`)),
			"cache warm · saved -20 % -$0.20",
		},
		{page(), "llm_cache: no conversation yet"},
		{`{"sessions":[],"total":0}`, "llm_cache: no conversation yet"},
		{`nonsense`, "llm_cache: no answer from ADMIN"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/llm_cache/sessions":
				_, _ = io.WriteString(w, c.answer)
			case "/llm_cache/sessions/a":
				_, _ = io.WriteString(w, `{"id":"a","conversations":[`+conversation("11:59:00", full)+`]}`)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}))
		admin := s.Listener.Addr().String()
		if got := strings.ReplaceAll(StatusLine(t.Context(), admin, "", nil, now), admin, "ADMIN"); got != c.want {
			t.Errorf("%s:\n%q, want %q", c.answer, got, c.want)
		}
		if got := StatusLine(t.Context(), admin, "a", nil, now); !strings.HasPrefix(got, "cache 4:00") {
			t.Errorf("of a session: %q", got)
		}
		if got := StatusLine(t.Context(), admin, "b", nil, now); got != "llm_cache: no conversation yet" {
			t.Errorf("of none: %q", got)
		}
		s.Close()
		if got := StatusLine(t.Context(), admin, "", nil, now); got != "llm_cache: no answer from "+admin {
			t.Errorf("without a server: %q", got)
		}
	}
}

// Claude Code's input selects the conversation, and is the source if the admin API has none.
func TestLineOfAClient(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	asked := ""
	answer := `{"sessions":[],"total":7}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	admin := s.Listener.Addr().String()
	in := func(cache string) *StatusClient {
		return passed(strings.NewReader(`{"session_id":"0f4c","model":{"id":"claude"},"cost":{}` + cache + `}`))
	}
	for _, c := range []struct{ cache, want string }{
		{
			`,"prompt_cache":{"warm":true,"expires_at":1767269021,"hit_ratio":0.934,"last_miss_cause":"ttl_expired"}`,
			"cache 3:41 · read 93 % · last miss: ttl expired",
		},
		{`,"prompt_cache":{"warm":true,"expires_at":null,"hit_ratio":null,"last_miss_cause":null}`, "cache warm"},
		{`,"prompt_cache":{"warm":false,"expires_at":1,"hit_ratio":0}`, "cache cold · read 0 %"},
		{`,"prompt_cache":{"warm":true,"last_miss_at":1,"last_miss_cause":{"causes":["tools_changed","ttl_expired_5m"]},` +
			`"misses":2}`, "cache warm · last miss: tools changed, ttl expired 5m"},
		{`,"prompt_cache":{"warm":true,"last_miss_cause":{"causes":"unknown"}}`, "cache warm · last miss: unknown"},
		{`,"prompt_cache":{"warm":true,"last_miss_cause":{"causes":[]}}`, "cache warm"},
		{`,"prompt_cache":{"warm":true,"last_miss_cause":7,"expires_at":1767269021.5}`, "cache 3:41"},
		// Of an unknown type.
		{`,"prompt_cache":{"warm":true,"expires_at":"2026-01-01T12:03:41Z","hit_ratio":0.5}`, "cache warm · read 50 %"},
		{``, "llm_cache: no conversation yet"},
	} {
		if got := StatusLine(t.Context(), admin, "", in(c.cache), now); got != c.want {
			t.Errorf("%s:\n%q, want %q", c.cache, got, c.want)
		}
		if asked != "/llm_cache/sessions?client=0f4c" {
			t.Errorf("asked for %s", asked)
		}
	}
	answer = `{"sessions":[{"id":"a","conversations":[{"requests":3,"started":"2026-01-01T11:59:00Z","ttl_seconds":300,` +
		`"warm":true}]}],"total":7}`
	if got := StatusLine(t.Context(), admin, "", in(`,"prompt_cache":{"warm":false}`), now); got != "cache 4:00" {
		t.Errorf("of a conversation that is known here: %q", got)
	}
	for _, other := range []string{"", "not JSON", `"text"`, `[1]`} {
		if c := passed(strings.NewReader(other)); c != nil {
			t.Errorf("%q is taken for a client's input", other)
		}
	}
	open, _ := io.Pipe()
	if passed(open) != nil {
		t.Error("waited for an input that never comes")
	}
}

// The windows of a subscription come last, with their reset and an estimate of what edits have saved.
func TestLineOfASubscription(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.Local)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"sessions":[{"id":"a","conversations":[{"requests":3,"started":"2026-01-01T11:59:00Z","warm":true}],`+
			`"windows":[{"name":"claude 5h","used":0.42,"resets":%q,"status":"allowed","user":"anna","saved_points":5.6},`+
			`{"name":"claude 7d","used":0.913,"resets":%q,"status":"allowed_warning","user":"anna","saved_points":-0.2},`+
			`{"name":"claude 7d_oi","used":0,"user":"anna"}]}]}`,
			now.Add(time.Hour).Format(time.RFC3339), now.Add(72*time.Hour).Format(time.RFC3339))
	}))
	defer s.Close()
	const want = "cache warm · claude 5h 42 % until 13:00 (~6 points saved) · claude 7d 91 % until 4 Jan 12:00, allowed_warning " +
		"(~0 points saved) · claude 7d_oi 0 %"
	if got := StatusLine(t.Context(), s.Listener.Addr().String(), "", nil, now); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
