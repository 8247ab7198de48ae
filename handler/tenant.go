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

package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// credentialHeaders are the headers that tell tenants apart.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// credentialParameters do the same in the query of the Gemini API.
var credentialParameters = [...]string{"key", "access_token"}

// tenantKey tells tenants apart by keyed hashes of their credentials.
type tenantKey struct {
	secret [32]byte
	macs   sync.Pool // of *tenantMAC: to set one up costs more than to use it
}

// tenantMAC is a hash in the making.
type tenantMAC struct {
	hash.Hash
	fields []byte
	sum    [sha256.Size]byte
}

// longestFields bounds the room for credentials that is kept.
const longestFields = 4 << 10

// hash hashes what tells tenants apart.
func (k *tenantKey) hash(r *http.Request) [sha256.Size]byte {
	m, ok := k.macs.Get().(*tenantMAC)
	if !ok {
		m = &tenantMAC{Hash: hmac.New(sha256.New, k.secret[:])}
	}
	m.Reset()
	m.fields = appendCredentials(m.fields[:0], r)
	_, _ = m.Write(m.fields)
	sum := [sha256.Size]byte(m.Sum(m.sum[:0]))
	clear(m.fields)
	if cap(m.fields) <= longestFields {
		k.macs.Put(m)
	}
	return sum
}

// tenant returns the keyed hash of a request's credentials. The key never
// leaves the process and lives as long as the sessions do.
func (s *state) tenant(r *http.Request) (t sessioncache.Tenant) {
	sum := s.key.hash(r)
	copy(t[:], sum[:])
	return t
}

// appendCredentials appends what tells tenants apart.
func appendCredentials(b []byte, r *http.Request) []byte {
	for _, name := range credentialHeaders {
		for _, v := range r.Header[name] {
			b = appendField(b, v)
		}
		b = appendField(b, "")
	}
	b = appendQuery(b, r.URL.RawQuery)
	if whose, ok := caddyhttp.GetVar(r.Context(), tenantVar).(string); ok {
		b = append(b, whose...)
	}
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		if user, ok := repl.GetString("http.auth.user.id"); ok {
			b = appendField(b, user)
		}
	}
	return b
}

// tenantVar is where a request says whose it is, besides its credentials.
const tenantVar = "llm_tenant"

// name notes whose a request is, as the option tenant says.
func (h *Handler) name(r *http.Request) {
	if len(h.Tenant) == 0 {
		return
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	fields, empty := []byte("tenant\x00"), true
	for _, t := range h.Tenant {
		v := repl.ReplaceAll(t, "")
		fields, empty = appendField(fields, v), empty && v == ""
	}
	if !empty {
		caddyhttp.SetVar(r.Context(), tenantVar, string(fields))
	}
}

func validateTenant(tenant []string) error {
	for _, t := range tenant {
		if !placeholders.MatchString(t) {
			return fmt.Errorf("%q is the same for every request: it holds no placeholder", t)
		}
	}
	return nil
}

// appendQuery appends the credentials in a query, where Gemini takes them too.
// One that cannot be read is a credential as a whole.
func appendQuery(b []byte, raw string) []byte {
	if raw == "" {
		return b
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return appendField(b, raw)
	}
	for _, name := range credentialParameters {
		for _, v := range query[name] {
			b = appendField(b, name+"="+url.QueryEscape(v))
		}
	}
	return b
}

// appendField appends a value so that no two lists of values read alike: header
// values hold no NUL.
func appendField(b []byte, v string) []byte { return append(append(b, v...), 0) }
