// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package tenant identifies the tenants and users of requests, by keyed hashes of their credentials.
package tenant

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// credentials are the headers that distinguish tenants.
var credentials = [...]string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key"}

// parameters distinguish tenants in the query of the Gemini API.
var parameters = [...]string{"key", "access_token"}

// IsCredential reports whether a header, in canonical form, distinguishes tenants.
func IsCredential(header string) bool { return slices.Contains(credentials[:], header) }

// WithoutCredentials returns a copy of a request without the headers and query parameters that distinguish
// tenants.
func WithoutCredentials(r *http.Request) *http.Request {
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	for _, name := range credentials {
		r.Header.Del(name)
	}
	if r.URL.RawQuery == "" {
		return r
	}
	to := *r.URL
	r.URL = &to
	// The other parameters stay as they are, also those that cannot be read.
	parts := strings.Split(to.RawQuery, "&")
	to.RawQuery = strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		return err == nil && slices.Contains(parameters[:], name)
	}), "&")
	return r
}

// Key hashes credentials.
type Key struct {
	// Secret is the key. It must not change after its first use.
	Secret [32]byte

	macs  sync.Pool                      // of *mac: setting one up costs more than using it
	users [256]atomic.Pointer[knownUser] // recent users, by a byte of their tenant
}

// mac is a reusable keyed hash.
type mac struct {
	hash.Hash
	fields []byte
	sum    [sha256.Size]byte
}

// maxFields bounds the buffers that are reused, in bytes.
const maxFields = 4 << 10

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
	if cap(m.fields) <= maxFields {
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
	if namedTenant(r).alone {
		return appendNamed(b, r)
	}
	for _, name := range credentials {
		for _, v := range r.Header[name] {
			b = AppendField(b, lasting(v))
		}
		b = AppendField(b, "")
	}
	// The Gemini API accepts credentials in the query, too. A malformed query counts as a credential as a whole.
	if raw := r.URL.RawQuery; raw != "" {
		query, err := url.ParseQuery(raw)
		if err != nil {
			b, query = AppendField(b, raw), nil
		}
		for _, name := range parameters {
			for _, v := range query[name] {
				// The value is escaped, since it may contain a NUL.
				b = AppendField(b, name+"="+url.QueryEscape(v))
			}
		}
	}
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

// AppendField appends a value and a NUL, so that different lists of values never read alike. Header
// values cannot contain NUL.
func AppendField(b []byte, v string) []byte { return append(append(b, v...), 0) }

// namedVar is the request variable with the tenant by placeholders.
const namedVar = "llm_tenant"

// named is the tenant of a request by placeholders, in addition to the credentials or alone.
type named struct {
	fields string
	alone  bool
	by     []string
}

func namedTenant(r *http.Request) named {
	n, _ := caddyhttp.GetVar(r.Context(), namedVar).(named)
	return n
}

// Name sets the tenant of a request by placeholders, in addition to its credentials. With alone,
// and if no placeholder is empty, the credentials do not count.
func Name(r *http.Request, by []string, alone bool) {
	if len(by) == 0 {
		return
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	values, empty := make([]string, len(by)), 0
	for i, t := range by {
		if values[i] = repl.ReplaceAll(t, ""); values[i] == "" {
			empty++
		}
	}
	if empty == len(by) {
		return
	}
	n := named{alone: alone && empty == 0, by: by}
	fields := AppendField(nil, "tenant")
	if n.alone { // tenants of different placeholders must differ even for equal values
		fields = AppendField(nil, "tenant alone")
		values = slices.Concat(by, values)
	}
	for _, v := range values {
		fields = AppendField(fields, v)
	}
	n.fields = string(fields)
	caddyhttp.SetVar(r.Context(), namedVar, n)
}

// IsSecret reports whether a header of a request, in canonical form, may be secret: a credential, a
// cookie, or the source of a tenant placeholder.
func IsSecret(r *http.Request, header string) bool {
	if IsCredential(header) || header == "Cookie" || header == "Proxy-Authorization" {
		return true
	}
	for _, t := range namedTenant(r).by {
		for _, p := range placeholders.FindAllString(t, -1) {
			for _, prefix := range [...]string{"{http.request.header.", "{header."} {
				if name, ok := strings.CutPrefix(p, prefix); ok &&
					http.CanonicalHeaderKey(strings.TrimSuffix(name, "}")) == header {
					return true
				}
			}
		}
	}
	return false
}

// ErrNobody reports that credentials are ignored although no placeholder replaces them.
var ErrNobody = errors.New("ignore_credentials: no placeholder says whose requests are")

// Validate rejects placeholders that are the same for every request. With alone, each value must be
// a single placeholder.
func Validate(by []string, alone bool) error {
	if alone && len(by) == 0 {
		return ErrNobody
	}
	for _, t := range by {
		switch {
		case !placeholders.MatchString(t):
			return fmt.Errorf("%q is the same for every request: it holds no placeholder", t)
		// Text around a placeholder would make a tenant even where the placeholder is empty.
		case alone && (placeholders.FindString(t) != t || !Differs(t)):
			return fmt.Errorf("ignore_credentials: %q is not one placeholder that differs from request to request", t)
		}
	}
	return nil
}

var placeholders = regexp.MustCompile(`\{[^{}]+\}`)

// Differs reports whether a value with placeholders may differ between requests.
func Differs(value string) bool {
	return slices.ContainsFunc(placeholders.FindAllString(value, -1), func(p string) bool {
		return !slices.ContainsFunc([]string{"{env.", "{file.", "{system."},
			func(same string) bool { return strings.HasPrefix(p, same) })
	})
}

// authenticated returns the user ID that Caddy has authenticated, "" for none.
func authenticated(r *http.Request) string {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	user, _ := repl.GetString("http.auth.user.id")
	return user
}

// appendNamed appends the parts of the tenant other than credentials.
func appendNamed(b []byte, r *http.Request) []byte {
	b = append(b, namedTenant(r).fields...)
	if user := authenticated(r); user != "" {
		b = AppendField(b, user)
	}
	return b
}

// CredentialKind names the kind of a request's credential. Providers allow some requests with a plan's token only,
// and others with a key only. The result reveals nothing of the credential itself.
func CredentialKind(r *http.Request) string {
	for _, name := range credentials {
		for _, v := range r.Header[name] {
			switch key := bare(v); {
			case key == "":
			case strings.HasPrefix(key, "sk-ant-oat"):
				return "plan token"
			// a JWT, as of a ChatGPT account, or Google's token
			case strings.HasPrefix(key, "eyJ") && strings.Count(key, ".") == 2, strings.HasPrefix(key, "ya29."):
				return "account token"
			default:
				return "API key"
			}
		}
	}
	for _, name := range parameters {
		if strings.Contains(r.URL.RawQuery, name+"=") {
			return "API key"
		}
	}
	return "no credential"
}
