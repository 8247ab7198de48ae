// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// sessionPlaceholder stands for the public ID of the request's session.
const sessionPlaceholder = "http.llm_cache.session"

// Address returns next behind a layer that sends requests of a client's format to the path of the
// provider's API, and names the conversation in the provider's header. It returns next itself if
// neither applies.
func (p *Profile) Address(next caddyhttp.Handler, client wire.Format) caddyhttp.Handler {
	base, header := p.base(client), p.preset().sessionHeader
	if base == "" && header == "" {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		// The client's own header wins.
		if header != "" && r.Header.Get(header) == "" {
			if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
				if id, _ := repl.GetString(sessionPlaceholder); id != "" {
					r.Header.Set(header, id)
				}
			}
		}
		path, found := strings.CutPrefix(r.URL.Path, "/v1/")
		if base == "" || !found { // the client knows the path of the API
			return next.ServeHTTP(w, r)
		}
		// The access log and error routes see the client's path again.
		address, uri := r.URL, r.RequestURI
		defer func() { r.URL, r.RequestURI = address, uri }()
		u := *address
		u.Path, u.RawPath = base+"/"+path, ""
		r.URL, r.RequestURI = &u, u.RequestURI()
		return next.ServeHTTP(w, r)
	})
}

// base returns the API's path in place of /v1, "" for none.
func (p *Profile) base(client wire.Format) string {
	bases := p.preset().bases
	switch {
	case len(bases) == 0:
		return ""
	case client == "": // a list of models and the like
		return bases[p.Formats[0]]
	}
	return bases[p.Target(client)]
}
