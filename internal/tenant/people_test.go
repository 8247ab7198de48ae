// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestPeople: one key is one person in any header, and keys, hashes, placeholders and a file name
// users.
func TestPeople(t *testing.T) {
	key, tenants := &Key{Secret: [32]byte{7}}, &Key{Secret: [32]byte{9}}
	of := func(p *People, user, target string, headers ...string) Person {
		r := httptest.NewRequest(http.MethodPost, target, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		repl := caddy.NewReplacer()
		repl.Map(func(key string) (any, bool) {
			if name, ok := strings.CutPrefix(key, "http.request.header."); ok {
				return r.Header.Get(name), true
			}
			return user, key == "http.auth.user.id" && user != ""
		})
		r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
		who := p.Of(r, key, "")
		for range 2 { // found, and found again
			if got := p.OfTenant(r, key, tenants.Of(r), ""); got != who {
				t.Errorf("%s %v: %+v by the tenant, %+v by the request", target, headers, got, who)
			}
		}
		return who
	}
	for i := range 1000 { // more than are remembered
		of(nil, "", "/", "X-Api-Key", fmt.Sprint("sk-", i))
	}
	anna := of(nil, "", "/", "Authorization", "Bearer sk-anna")
	if anna.Name != anna.Hash || len(anna.Hash) != 16 {
		t.Fatalf("whoever has no name: %+v", anna)
	}
	for _, same := range [][]string{
		{"/", "X-Api-Key", "sk-anna"},
		{"/", "X-Goog-Api-Key", "sk-anna"},
		{"/", "Api-Key", "sk-anna"},
		{"/", "Authorization", "bearer sk-anna", "X-Api-Key", "sk-anna"},
		{"/?key=sk-anna"},
		{"/?alt=sse&access_token=sk-anna"},
	} {
		if got := of(nil, "", same[0], same[1:]...); got != anna {
			t.Errorf("%v is %+v, not %+v", same, got, anna)
		}
	}
	for _, other := range [][]string{{"/"}, {"/", "X-Api-Key", "sk-ben"}, {
		"/", "X-Api-Key", "sk-anna", "Authorization",
		"Bearer sk-ben",
	}, {"/", "Authorization", "Basic sk-anna"}} {
		if got := of(nil, "", other[0], other[1:]...); got.Hash == anna.Hash {
			t.Errorf("%v is anna", other)
		}
	}
	if got := of(nil, "carla", "/", "X-Api-Key", "sk-anna"); got.Name != "carla" || got.Hash == anna.Hash {
		t.Errorf("an authenticated user is %+v", got)
	}

	t.Setenv("BENS_KEY", "sk-ben")
	sum := sha256.Sum256([]byte("sk-new"))
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("# who\n\nsk-dora\tDora Dell \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := NewPeople([]User{
		{anna.Hash, "anna"},
		{"sha256:" + strings.ToUpper(hex.EncodeToString(sum[:])), "anna"},
		{"{env.BENS_KEY}", "ben"},
		{Is: "{http.request.header.X-User}"},
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, user string
		headers    []string
	}{
		{"anna", "", []string{"X-Goog-Api-Key", "sk-anna"}},
		{"anna", "", []string{"Authorization", "Bearer sk-new"}},
		{"ben", "carla", []string{"X-Api-Key", "sk-ben", "X-User", "other"}},
		{"Dora Dell", "", []string{"X-Api-Key", "sk-dora"}},
		{"emil", "carla", []string{"X-User", "em\x1bil\u202e", "X-Api-Key", "shared"}},
		{"carla", "carla", []string{"X-Api-Key", "shared"}},
	} {
		if got := of(p, c.user, "/", c.headers...); got.Name != c.name {
			t.Errorf("%v is %q, not %q", c.headers, got.Name, c.name)
		}
	}
	if got := of(p, "", "/", "X-User", strings.Repeat("ä", 200)).Name; len(got) != longestName {
		t.Errorf("a name of %d bytes", len(got))
	}
}

// TestJunkCredentials: a credential that the API does not read changes neither name nor
// hash, while each of them makes another tenant.
func TestJunkCredentials(t *testing.T) {
	key := &Key{Secret: [32]byte{7}}
	p, err := NewPeople([]User{{"sk-anna", "anna"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	request := func(target string, headers ...string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.URL.RawQuery = strings.TrimPrefix(target, "/?")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		return r
	}
	for _, c := range []struct {
		reads   string
		own     string // the header that the API reads
		target  string
		headers []string
	}{
		{"", "Authorization", "/?key=1", nil},
		{"", "Authorization", "/?key=%zz&a=1;2", nil},
		{"", "Authorization", "/?access_token=1", nil},
		{"", "Authorization", "/?", []string{"Api-Key", "junk", "X-Goog-Api-Key", "junk", "X-Api-Key", "junk"}},
		{"", "Authorization", "/?", []string{"Authorization", "Bearer junk"}},
		{"X-Api-Key", "X-Api-Key", "/?key=1", []string{"Authorization", "Bearer junk", "Api-Key", "junk"}},
		{"X-Api-Key", "X-Api-Key", "/?", []string{"X-Api-Key", "junk"}},
		{"X-Api-Key", "Authorization", "/?key=1", []string{"X-Goog-Api-Key", "junk", "Api-Key", "junk"}},
		{"X-Goog-Api-Key", "X-Goog-Api-Key", "/?key=1", []string{"Authorization", "Bearer junk", "X-Api-Key", "junk"}},
	} {
		for _, own := range []string{"sk-anna", "sk-nobody"} {
			value := own
			if c.own == "Authorization" {
				value = "Bearer " + own
			}
			want := p.Of(request("/?", c.own, value), key, c.reads)
			junk := request(c.target, append([]string{c.own, value}, c.headers...)...)
			got := p.OfTenant(junk, key, key.Of(junk), c.reads)
			if got != want || (got.Name == "anna") != (own == "sk-anna") {
				t.Errorf("%v beside %s %s: got %+v, want %+v", append(c.headers, c.target), c.own, own, got, want)
			}
			if key.Of(junk) == key.Of(request("/?", c.own, value)) {
				t.Errorf("%v beside %s: one tenant", append(c.headers, c.target), c.own)
			}
		}
	}
	for _, headers := range [][]string{ // a configured user is found by a key in any header
		{"Authorization", "Bearer junk", "X-Api-Key", "sk-anna"},
		{"Authorization", "Bearer junk", "Authorization", "Bearer sk-anna"},
		{"X-Api-Key", "junk", "X-Goog-Api-Key", "sk-anna"},
	} {
		if got := p.Of(request("/?", headers...), key, "X-Api-Key"); got.Name != "anna" {
			t.Errorf("%v: got %q, want anna", headers, got.Name)
		}
	}
	if got := p.Of(request("/?a=%zz&key=sk-anna", "Authorization", "Bearer junk"), key,
		"X-Goog-Api-Key"); got.Name != "anna" {
		t.Errorf("a key in a query that cannot be read: got %q, want anna", got.Name)
	}
}

// TestPeopleRefused: invalid entries are rejected, without revealing a key.
func TestPeopleRefused(t *testing.T) {
	for _, users := range [][]User{
		{{"", "anna"}},
		{{"sk-secret", ""}},
		{{"{http.auth.user.id}", "anna"}},
		{{"sk-secret", strings.Repeat("a", 65)}},
		{{"sk-secret", "a\nb"}},
		{{"sha256:sk-secret", "anna"}},
		{{"{env.NOT_SET_ANYWHERE}", "anna"}},
		{{"sk-secret", "anna"}, {"Bearer sk-secret", "ben"}},
	} {
		if _, err := NewPeople(users, ""); err == nil || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("%v: %v", users, err)
		}
	}
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("sk-anna anna\nsk-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewPeople(nil, file); err == nil || !strings.Contains(err.Error(), "users:2:") ||
		strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("a line without a name: %v", err)
	}
	if _, err := NewPeople(nil, file+".none"); err == nil {
		t.Error("a file that is not there")
	}
}
