// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// ToolChanges returns next behind a layer that replaces blocks which add or remove tools in
// messages by texts. Local servers with the Messages API refuse a whole request for such a block
// (omlx issue 3754). Translated requests contain no such blocks at this point.
func (p *Profile) ToolChanges(next caddyhttp.Handler, client wire.Format) caddyhttp.Handler {
	codec, ok := client.Codec().(wire.ToolChanger)
	if !ok || !p.Local() || p.Stateful() {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpx.Outgoing(r, p.MaxBody)
		if err != nil {
			return next.ServeHTTP(w, r) //nolint:nilerr // a body that is not understood passes untouched
		}
		out := body
		httpx.Guard(p.Log, "telling of tools that come and go", func() { out = codec.ToolChangesAsText(body) })
		if httpx.Same(out, body) {
			return next.ServeHTTP(w, r)
		}
		defer httpx.SwapBody(r, body, out)()
		return next.ServeHTTP(w, r)
	})
}
