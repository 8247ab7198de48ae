// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenant identifies the tenants and users of requests, by keyed hashes of their
// credentials.
package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// credentials are the headers that distinguish tenants.
var credentials = [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// parameters distinguish tenants in the query of the Gemini API.
var parameters = [...]string{"key", "access_token"}

// IsCredential reports whether a header, in canonical form, distinguishes tenants.
func IsCredential(header string) bool { return slices.Contains(credentials[:], header) }

// Key hashes credentials.
type Key struct {
	// Secret is the key. It must not change after its first use.
	Secret [32]byte

	macs   sync.Pool                        // of *mac: setting one up costs more than using it
	people [256]atomic.Pointer[knownPerson] // recent users, by a byte of their tenant
}

// mac is a reusable keyed hash.
type mac struct {
	hash.Hash
	fields []byte
	sum    [sha256.Size]byte
}

// longestFields bounds the buffers that are reused, in bytes.
const longestFields = 4 << 10

// hash returns the keyed hash of the bytes that fields appends for a request.
func (k *Key) hash(r *http.Request, fields func([]byte, *http.Request) []byte) [sha256.Size]byte {
	m, ok := k.macs.Get().(*mac)
	if !ok {
		m = &mac{Hash: hmac.New(sha256.New, k.Secret[:])}
	}
	m.Reset()
	m.fields = fields(m.fields[:0], r)
	_, _ = m.Write(m.fields)
	sum := [sha256.Size]byte(m.Sum(m.sum[:0]))
	// Credentials must not stay in memory.
	clear(m.fields)
	// A huge credential must not keep its memory.
	if cap(m.fields) <= longestFields {
		k.macs.Put(m)
	}
	return sum
}

// Of returns the tenant of a request.
func (k *Key) Of(r *http.Request) (t sessioncache.Tenant) {
	sum := k.hash(r, appendCredentials)
	copy(t[:], sum[:])
	return t
}

// Salt returns a secret for a name, 43 characters of base64, from which neither the name nor the
// key can be told.
func (k *Key) Salt(name string) string {
	mac := hmac.New(sha256.New, k.Secret[:])
	_, _ = mac.Write(AppendField([]byte("cache salt\x00"), name))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// appendCredentials appends all values that distinguish tenants.
func appendCredentials(b []byte, r *http.Request) []byte {
	if whose(r).alone {
		return appendNamed(b, r)
	}
	for _, name := range credentials {
		for _, v := range r.Header[name] {
			b = AppendField(b, lasting(v))
		}
		b = AppendField(b, "")
	}
	b = appendQuery(b, r.URL.RawQuery)
	return appendNamed(b, r)
}

// lasting returns the constant part of a credential. An AWS signature has a constant scheme and key
// id before the date.
func lasting(v string) string {
	if strings.HasPrefix(v, "AWS4-") {
		v, _, _ = strings.Cut(v, "/")
	}
	return v
}

// appendQuery appends the credentials in a query, where the Gemini API accepts them, too. A
// malformed query counts as a credential as a whole.
func appendQuery(b []byte, raw string) []byte {
	if raw == "" {
		return b
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return AppendField(b, raw)
	}
	for _, name := range parameters {
		for _, v := range query[name] {
			// The value is escaped, since it may contain a NUL.
			b = AppendField(b, name+"="+url.QueryEscape(v))
		}
	}
	return b
}

// AppendField appends a value and a NUL, so that different lists of values never read alike. Header
// values cannot contain NUL.
func AppendField(b []byte, v string) []byte { return append(append(b, v...), 0) }
