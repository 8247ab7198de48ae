// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// Applied returns next behind a layer that reports in responses which parts of the prompt this
// module cleared on the client's order, if the upstream does not know of the order. cleared returns
// the parts once there is a response, nil for none.
func (p *Profile) Applied(next caddyhttp.Handler, client wire.Format, cleared func() *wire.Cleared) caddyhttp.Handler {
	codec, ok := client.Codec().(wire.Manager)
	if !ok {
		return next
	}
	tell := func(object []byte) (annotated []byte) {
		annotated = object
		httpx.Guard(p.Log, "telling what was cleared", func() {
			if c := cleared(); c != nil {
				annotated = codec.Applied(object, *c)
			}
		})
		return annotated
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return httpx.NewEditor(w, func(out []byte, e framing.Event) []byte {
			if !bytes.Contains(e.Data, []byte(`"message_delta"`)) {
				return append(out, e.Raw...)
			}
			return httpx.EditObject(out, e.Raw, func(out, object []byte) []byte { return append(out, tell(object)...) })
		}, tell).Serve(next, r)
	})
}
