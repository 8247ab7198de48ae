// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

var (
	errNoKey   = errors.New("upstream: key: the placeholder is empty")
	errTwoKeys = errors.New("key: requests that a signer signs have no key")
)

// Keyed returns next behind the handler that puts the key of the configuration in place of the client's
// credentials, or next itself without a key. It belongs right before the upstream: what comes earlier
// tells tenants and users apart by the client's credentials.
func (p *Profile) Keyed(next caddyhttp.Handler) caddyhttp.Handler {
	if !p.HasKey() {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		key, err := p.key(r)
		if err != nil {
			// The client's credentials are for us: the upstream must not get them.
			return caddyhttp.Error(http.StatusBadGateway, err)
		}
		names := p.keyHeaders(r)
		// A copy, since the access log and requests of ours repeat the client's headers.
		r = tenant.WithoutCredentials(r)
		for _, name := range names {
			value := key
			if name == "Authorization" {
				value = "Bearer " + key
			}
			r.Header.Set(name, value)
		}
		return next.ServeHTTP(w, r)
	})
}

// HasKey reports whether the configuration has a key for the upstream.
func (p *Profile) HasKey() bool { return p.Upstream != nil && p.Key != "" }

func (p *Profile) key(r *http.Request) (string, error) {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		repl = caddy.NewReplacer()
	}
	// An error of the replacer would tell a part of the key.
	if key := repl.ReplaceAll(p.Key, ""); key != "" {
		return key, nil
	}
	return "", errNoKey
}

// keyHeaders returns the headers in which the upstream expects its key, for a request in its format.
func (p *Profile) keyHeaders(r *http.Request) []string {
	f, ok := wire.Detect(r.Method, r.URL.Path)
	if !ok {
		f, ok = wire.DetectCount(r.Method, r.URL.Path)
	}
	if !ok && len(p.Formats) > 0 {
		f = p.Formats[0]
	}
	const bearer = "Authorization"
	if f == "" { // any API: the client uses the header that this one reads
		for _, name := range [...]string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
			if len(r.Header[name]) > 0 {
				return []string{name}
			}
		}
		return []string{bearer}
	}
	switch own := f.Traits().KeyHeader; {
	case own == "":
		return []string{bearer}
	case p.Name() == "" || p.Official():
		return []string{own}
	default:
		// Others with an Anthropic-compatible API read either, such as DeepSeek X-Api-Key and
		// OpenRouter a bearer token.
		return []string{own, bearer}
	}
}
