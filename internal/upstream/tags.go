// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// tagsBeta is the value of Anthropic-Beta for tags.
const tagsBeta = "request-tags-2026-08-21"

// Untagged returns next behind a layer that removes tags, and their beta value, from requests to Bedrock
// and Vertex AI, which reject both. Tags label usage and change nothing in the response. view is the
// parsed client's request, nil if unparsed.
func (p *Profile) Untagged(next caddyhttp.Handler, client wire.Format, view *wire.View) caddyhttp.Handler {
	// Translations to other formats know no tags.
	if !client.Traits().Markers || p.Target(client) != client || view != nil && view.Tags.Empty() {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if !p.rejectsTags(client, r.URL.Path) {
			return next.ServeHTTP(w, r)
		}
		body, err := httpx.Outgoing(r, p.MaxBody)
		if err != nil {
			return next.ServeHTTP(w, r) //nolint:nilerr // a body that is not understood passes untouched
		}
		out := body
		httpx.Guard(p.Log, "removing tags", func() { out = withoutTags(body) })
		if httpx.Same(out, body) && !hasBeta(r.Header) {
			return next.ServeHTTP(w, r)
		}
		defer httpx.SwapBody(r, body, out)()
		withoutBeta(r.Header, tagsBeta)
		return next.ServeHTTP(w, r)
	})
}

// rejectsTags reports whether requests on a path go to an API that rejects tags.
func (p *Profile) rejectsTags(client wire.Format, path string) bool {
	switch p.provider() {
	case "bedrock", "vertex":
		return true
	case "": // no request has told the host yet; this is the path of the Messages API at Bedrock
		return client.Traits().Variant || strings.HasPrefix(path, "/anthropic/")
	}
	return client.Traits().Variant
}

func hasBeta(h http.Header) bool {
	for _, line := range h["Anthropic-Beta"] {
		if strings.Contains(line, tagsBeta) {
			return true
		}
	}
	return false
}

// withoutTags returns a body without tags, or the body itself if it has none.
func withoutTags(body []byte) []byte {
	var members []wire.Member
	if bytes.Contains(body, []byte(`"tags"`)) {
		members = append(members, wire.Member{Name: "tags"})
	}
	// Bedrock has the beta values in the body.
	if bytes.Contains(body, []byte(tagsBeta)) {
		const name = "anthropic_beta"
		var kept []byte
		gjson.GetBytes(body, name).ForEach(func(_, value gjson.Result) bool {
			if value.Str != tagsBeta {
				kept = append(append(kept, ','), value.Raw...)
			}
			return true
		})
		m := wire.Member{Name: name} // an empty list may be refused
		if len(kept) > 0 {
			kept[0] = '['
			m.Value = append(kept, ']')
		}
		members = append(members, m)
	}
	if members == nil {
		return body
	}
	out, err := wire.Patch(body, members...)
	if err != nil {
		return body
	}
	return out
}
