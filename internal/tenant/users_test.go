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
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestUsers: one key is one user in any header, and keys, hashes, placeholders and a file name
// users.
func TestUsers(t *testing.T) {
	key, tenants := &Key{Secret: [32]byte{7}}, &Key{Secret: [32]byte{9}}
	of := func(p *Users, user, target string, headers ...string) User {
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
			if got := p.OfTenant(r, key, tenants.Of(r), ""); !reflect.DeepEqual(got, who) {
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
		if got := of(nil, "", same[0], same[1:]...); !reflect.DeepEqual(got, anna) {
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
	p, err := NewUsers([]UserEntry{
		{Name: "anna", Keys: []string{anna.Hash}, Groups: []string{"web"}},
		{Name: "anna", Keys: []string{"sha256:" + strings.ToUpper(hex.EncodeToString(sum[:]))}},
		{Name: "ben", Keys: []string{"{env.BENS_KEY}", "sk-ben-2"}, Groups: []string{"web", "night"}},
		{Name: "carla", Groups: []string{"day"}},
		{Name: "Dora Dell", Keys: []string{"sk-dora"}},
		{Name: "{http.request.header.X-User}", Groups: []string{"{http.request.header.X-Groups}"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, user, groups string
		headers            []string
	}{
		{"anna", "", "[web]", []string{"X-Goog-Api-Key", "sk-anna"}},
		{"anna", "", "[web]", []string{"Authorization", "Bearer sk-new"}},
		{"ben", "carla", "[web night]", []string{"X-Api-Key", "sk-ben", "X-User", "other", "X-Groups", "boss"}},
		{"ben", "", "[web night]", []string{"X-Api-Key", "sk-ben-2"}},
		{"Dora Dell", "", "[]", []string{"X-Api-Key", "sk-dora"}},
		{"emil", "carla", "[]", []string{"X-User", "em\x1bil\u202e", "X-Api-Key", "shared"}},
		{"emil", "", "[web day night]", []string{"X-User", "emil", "X-Groups", `["web","day"], night web`}},
		{"carla", "", "[day web]", []string{"X-User", "carla", "X-Groups", "web"}},
		{"carla", "carla", "[day]", []string{"X-Api-Key", "shared", "X-Groups", "boss"}},
	} {
		got := of(p, c.user, "/", c.headers...)
		if got.Name != c.name || fmt.Sprint(got.Groups) != c.groups || !got.Known() {
			t.Errorf("%v is %q of %v, known: %t; want %q of %s", c.headers, got.Name, got.Groups, got.Known(), c.name, c.groups)
		}
	}
	if got := of(p, "", "/", "X-Api-Key", "sk-stranger"); got.Known() || got.Name != got.Hash {
		t.Errorf("a stranger is %+v", got)
	}
	if got := of(p, "", "/", "X-User", "a", "X-Groups", strings.Repeat("ä", 99)+strings.Repeat(" a b", 999)+
		" "+fmt.Sprint(make([]int, 99))); len(got.Groups[0]) != maxName || len(got.Groups) > maxGroups {
		t.Errorf("groups are not bounded: %v", got.Groups)
	}
	if got := of(p, "", "/", "X-User", strings.Repeat("ä", 200)).Name; len(got) != maxName {
		t.Errorf("a name of %d bytes", len(got))
	}
}

// TestJunkCredentials: a credential that the API does not read changes neither name nor
// hash, while each of them makes another tenant.
func TestJunkCredentials(t *testing.T) {
	key := &Key{Secret: [32]byte{7}}
	p, err := NewUsers([]UserEntry{{Name: "anna", Keys: []string{"sk-anna"}}})
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
		header  string // the header that the API reads
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
		for _, credential := range []string{"sk-anna", "sk-nobody"} {
			value := credential
			if c.header == "Authorization" {
				value = "Bearer " + credential
			}
			want := p.Of(request("/?", c.header, value), key, c.reads)
			junk := request(c.target, append([]string{c.header, value}, c.headers...)...)
			got := p.OfTenant(junk, key, key.Of(junk), c.reads)
			if !reflect.DeepEqual(got, want) || (got.Name == "anna") != (credential == "sk-anna") {
				t.Errorf("%v beside %s %s: got %+v, want %+v", append(c.headers, c.target), c.header, credential, got, want)
			}
			if key.Of(junk) == key.Of(request("/?", c.header, value)) {
				t.Errorf("%v beside %s: one tenant", append(c.headers, c.target), c.header)
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

// TestUsersRefused: invalid entries are rejected, without revealing a key.
func TestUsersRefused(t *testing.T) {
	key := func(name string, keys ...string) UserEntry { return UserEntry{Name: name, Keys: keys} }
	for _, users := range [][]UserEntry{
		{key("anna", "")},
		{key("", "sk-secret")},
		{key("{http.auth.user.id}", "sk-secret")},
		{key("anna", "{http.request.header.X-Key}")},
		{key(strings.Repeat("a", 65), "sk-secret")},
		{key("a\nb", "sk-secret")},
		{key("3f9c2d41a0b7e655")},
		{key("sha256:00", "anna")},
		{key("anna", "sha256:sk-secret")},
		{key("anna", "{env.NOT_SET_ANYWHERE}")},
		{key("anna", "sk-secret"), key("ben", "Bearer sk-secret")},
		{{Name: "anna", Groups: []string{""}}},
		{{Name: "anna", Groups: []string{"{http.request.header.X-Group}"}}},
	} {
		if _, err := NewUsers(users); err == nil || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("%v: %v", users, err)
		}
	}
}
