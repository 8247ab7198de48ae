// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// namedVar is the request variable with the tenant by placeholders.
const namedVar = "llm_tenant"

// named is the tenant of a request by placeholders, in addition to the credentials or alone.
type named struct {
	fields string
	alone  bool
	by     []string
}

func whose(r *http.Request) named {
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
	for _, t := range whose(r).by {
		for _, p := range placeholders.FindAllString(t, -1) {
			for _, prefix := range [...]string{"{http.request.header.", "{header."} {
				if name, ok := strings.CutPrefix(p, prefix); ok && http.CanonicalHeaderKey(strings.TrimSuffix(name, "}")) == header {
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
		return !slices.ContainsFunc([]string{"{env.", "{file.", "{system."}, func(same string) bool { return strings.HasPrefix(p, same) })
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
	b = append(b, whose(r).fields...)
	if user := authenticated(r); user != "" {
		b = AppendField(b, user)
	}
	return b
}
