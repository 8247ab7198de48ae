// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

func TestTenant(t *testing.T) {
	s := new(Key)
	_, _ = rand.Read(s.Secret[:])
	of := func(user string, headers ...string) sessioncache.Tenant {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		repl := caddy.NewReplacer()
		if user != "" {
			repl.Set("http.auth.user.id", user)
		}
		return s.Of(r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)))
	}
	seen := map[sessioncache.Tenant]int{}
	cases := []sessioncache.Tenant{
		of(""),
		of("alice"),
		of("bob"),
		of("", "Authorization", "Bearer a"),
		of("alice", "Authorization", "Bearer a"),
		of("", "X-Api-Key", "Bearer a"),
		of("", "X-Goog-Api-Key", "Bearer a"),
		of("", "Api-Key", "Bearer a"),
		of("", "X-Api-Key", "a", "X-Api-Key", "b"),
		of("", "X-Api-Key", "ab"),
		of("", "X-Api-Key", "a", "X-Goog-Api-Key", "b"),
	}
	for i, c := range cases {
		if j, ok := seen[c]; ok {
			t.Errorf("cases %d and %d are one tenant", i, j)
		}
		seen[c] = i
	}
	if of("", "X-Api-Key", "ab") != of("", "X-Api-Key", "ab", "X-Session-Id", "z") {
		t.Error("a tenant is not stable")
	}
	query := func(raw string) sessioncache.Tenant {
		return s.Of(httptest.NewRequest(http.MethodPost, "/?"+raw, nil))
	}
	for i, raw := range []string{
		"key=a", "key=b", "access_token=a", "key=a&key=b", "key=a%00key%3Db", "key=a;b",
		"key=a;c",
	} {
		if j, ok := seen[query(raw)]; ok {
			t.Errorf("query %s and case %d are one tenant", raw, j)
		}
		seen[query(raw)] = len(cases) + i
	}
	if query("alt=sse") != of("") || query("key=a&alt=sse") != query("alt=sse&%6Bey=a") {
		t.Error("what is no credential makes another tenant")
	}
	other := &Key{Secret: [32]byte{1}}
	if r := httptest.NewRequest(http.MethodPost, "/", nil); other.Of(r) == s.Of(r) {
		t.Error("two stores hash alike")
	}
}

// TestIgnoredCredentials: where placeholders alone count, a renewed token changes nothing, and
// users stay distinct. If a placeholder is empty, tokens count.
func TestIgnoredCredentials(t *testing.T) {
	s := new(Key)
	_, _ = rand.Read(s.Secret[:])
	users := new(Users)
	type who struct {
		tenant sessioncache.Tenant
		user   User
	}
	of := func(user, team, token string, alone bool, by ...string) who {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Authorization", token)
		repl := caddy.NewReplacer()
		repl.Set("user", user)
		repl.Set("team", team)
		ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)
		r = r.WithContext(context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{}))
		Name(r, by, alone)
		tenant := s.Of(r)
		return who{tenant, users.OfTenant(r, s, tenant, "")}
	}
	anna := of("anna", "red", "Bearer 1", true, "{user}", "{team}")
	if again := of("anna", "red", "Bearer 2", true, "{user}", "{team}"); !reflect.DeepEqual(again, anna) {
		t.Error("a renewed token makes another tenant or person")
	}
	seen := map[sessioncache.Tenant]int{}
	for i, w := range []who{
		anna,
		of("ben", "red", "Bearer 1", true, "{user}", "{team}"),
		of("anna", "blue", "Bearer 1", true, "{user}", "{team}"),
		of("anna", "red", "Bearer 1", true, "{team}", "{user}"),
		of("anna", "red", "Bearer 1", true, "{user}"),
		of("anna", "anna", "Bearer 1", true, "{team}"),
		of("anna", "red", "Bearer 1", false, "{user}", "{team}"),
		of("anna", "red", "Bearer 2", false, "{user}", "{team}"),
		of("anna", "red", "", false, "{user}", "{team}"),
		of("anna", "", "Bearer 1", true, "{user}", "{team}"),
		of("anna", "", "Bearer 2", true, "{user}", "{team}"),
		of("", "", "Bearer 1", true, "{user}", "{team}"),
		of("", "", "Bearer 2", true, "{user}", "{team}"),
		of("", "", "tenant alone\x00{user}\x00{team}\x00anna\x00red", true, "{user}", "{team}"),
	} {
		if j, ok := seen[w.tenant]; ok {
			t.Errorf("cases %d and %d are one tenant", i, j)
		}
		seen[w.tenant] = i
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		by        []string
		alone, ok bool
	}{
		{nil, false, true},
		{[]string{"{user}"}, false, true},
		{[]string{"everybody"}, false, false},
		{[]string{"{user}@{host}"}, false, true},
		{nil, true, false},
		{[]string{"{user}", "{host}"}, true, true},
		{[]string{"{user}@{host}"}, true, false},
		{[]string{"{user} "}, true, false},
		{[]string{"{user}", "{env.TEAM}"}, true, false},
	} {
		if err := Validate(c.by, c.alone); (err == nil) != c.ok {
			t.Errorf("%q, alone %t: %v", c.by, c.alone, err)
		}
	}
}

func TestCredentialKind(t *testing.T) {
	for _, c := range []struct{ target, header, value, want string }{
		{"/", "Authorization", "Bearer sk-ant-oat01-abc", "plan token"},
		{"/", "X-Api-Key", "sk-ant-oat01-abc", "plan token"},
		{"/", "X-Api-Key", "sk-ant-api03-abc", "API key"},
		{"/", "Authorization", "Bearer sk-proj-abc", "API key"},
		{"/", "Authorization", "Bearer eyJh.eyJz.c2ln", "account token"},
		{"/", "Authorization", "Bearer ya29.abc", "account token"},
		{"/", "X-Goog-Api-Key", "AIza", "API key"},
		{"/?key=AIza", "Accept", "*/*", "API key"},
		{"/", "Authorization", "", "no credential"},
		{"/", "Accept", "*/*", "no credential"},
	} {
		r := httptest.NewRequest(http.MethodPost, c.target, nil)
		r.Header.Set(c.header, c.value)
		if got := CredentialKind(r); got != c.want {
			t.Errorf("%s %s: %s: got %q, want %q", c.target, c.header, c.value, got, c.want)
		}
	}
}

// Headers that distinguish tenants are secret, whichever name they have.
func TestIsSecret(t *testing.T) {
	for by, want := range map[string]bool{
		"{http.request.header.X-Team-Key}": true, "{header.x-team-key}": true, "team {http.request.header.X-Team-Key}": true,
		"{http.request.header.X-Team}": false, "{http.request.host}": false,
	} {
		repl := caddy.NewReplacer()
		for _, p := range []string{
			"http.request.header.X-Team-Key", "header.x-team-key", "http.request.header.X-Team",
			"http.request.host",
		} {
			repl.Set(p, "secret")
		}
		ctx := context.WithValue(t.Context(), caddyhttp.VarsCtxKey, map[string]any{})
		r := httptest.NewRequestWithContext(context.WithValue(ctx, caddy.ReplacerCtxKey, repl), http.MethodPost, "/", nil)
		Name(r, []string{by}, false)
		if got := IsSecret(r, "X-Team-Key"); got != want {
			t.Errorf("tenant %s: X-Team-Key is a secret: %t, want %t", by, got, want)
		}
		for _, name := range []string{
			"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie",
			"Proxy-Authorization",
		} {
			if !IsSecret(r, name) {
				t.Errorf("%s is no secret", name)
			}
		}
	}
}
