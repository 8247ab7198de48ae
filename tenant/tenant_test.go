// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package tenant

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"

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
	for i, raw := range []string{"key=a", "key=b", "access_token=a", "key=a&key=b", "key=a%00key%3Db", "key=a;b", "key=a;c"} {
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
