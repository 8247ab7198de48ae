// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/url"
	"slices"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Headers converts a client's headers, in canonical form, for an upstream of another format, in
// place. The credential moves to the upstream format's header (x-api-key, Authorization: Bearer or
// x-goog-api-key). Gemini clients may send it as key in the raw query. Headers specific to the
// client's format are removed. Headers returns the removed names that affect the upstream's
// behavior, in lower case, sorted.
func Headers(from, to wire.Format, h map[string][]string, query string) (dropped []string) {
	if from == to {
		return nil
	}
	token, oauth := credential(from, h, query)
	for name := range h {
		lower := strings.ToLower(name)
		switch {
		case lower == "anthropic-version", lower == "x-api-key", lower == "x-goog-api-key":
			delete(h, name)
		case lower == "chatgpt-account-id", foreign(lower, to):
			delete(h, name)
			dropped = append(dropped, lower)
		}
	}
	h["Content-Type"] = []string{"application/json"}
	if token != "" {
		delete(h, "Authorization")
		// Account tokens are bearer tokens at APIs that support both.
		if key := to.Traits().KeyHeader; key != "" && !(oauth && dialectOf(to).rules.Bearer) {
			h[key] = []string{token}
		} else {
			h["Authorization"] = []string{"Bearer " + token}
		}
	}
	if version := dialectOf(to).rules.Version; version[0] != "" {
		h[version[0]] = []string{version[1]}
	}
	slices.Sort(dropped)
	return dropped
}

// credential returns the client's key.
func credential(from wire.Format, h map[string][]string, query string) (token string, oauth bool) {
	native := from.Traits().KeyHeader
	// The client's own format takes precedence.
	for _, name := range []string{native, "Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		v := h[name]
		switch {
		case len(v) == 0:
		case name != "Authorization":
			token = v[0]
		default:
			if scheme, t, _ := strings.Cut(v[0], " "); strings.EqualFold(scheme, "bearer") {
				token = strings.TrimSpace(t)
				// OAuth tokens of Claude accounts are bearer tokens in every format.
				oauth = strings.HasPrefix(token, "sk-ant-oat")
			}
		}
		if token != "" {
			return token, oauth
		}
		if name == native && native == wire.Gemini.Traits().KeyHeader { // the Gemini API also accepts the key in the query
			if values, _ := url.ParseQuery(query); values.Get("key") != "" {
				return values.Get("key"), false
			}
		}
	}
	values, _ := url.ParseQuery(query) // the error is ignored: well-formed pairs count
	return values.Get("key"), false
}

// foreign reports whether a header belongs to another format.
func foreign(lower string, to wire.Format) bool {
	for _, d := range dialects() {
		for _, prefix := range d.rules.Headers {
			if strings.HasPrefix(lower, prefix) {
				return !slices.Contains(dialectOf(to).rules.Headers, prefix)
			}
		}
	}
	return false
}
