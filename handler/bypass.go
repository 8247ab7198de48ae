// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// headerBypass tells why a request went upstream as it came, without a look at
// the conversation that it belongs to: the reason as in
// caddy_llm_cache_fail_open_total.
const headerBypass = "X-Llm-Cache-Bypass" //nolint:gosec // G101: the name of a header

// bypass is why a request goes upstream as it came, or, with a view, nowhere.
type bypass struct {
	reason string
	err    error      // without content
	view   *wire.View // of a request that is refused
}

// notes says which requests go upstream as they came.
type notes struct {
	log     *zap.Logger
	headers bool // to the client, too
	met     *Strangers
}

// pass counts a request that goes upstream untouched, and tells the reason: the client in a header,
// the operator in the log, once for each kind of client and reason. Otherwise only the bill would
// show that a client has changed.
func (n *notes) pass(w http.ResponseWriter, r *http.Request, format wire.Format, b bypass) {
	httpx.FailOpen(b.reason)
	if n.headers {
		w.Header()[headerBypass] = []string{b.reason}
	}
	n.warn(r, format, b)
}

// warn writes a warning if it is the first of its kind.
func (n *notes) warn(r *http.Request, format wire.Format, b bypass) {
	client := product(r.Header)
	fields := []zap.Field{zap.String("reason", b.reason), zap.String("client", client), zap.String("format", string(format)), zap.Error(b.err)}
	if n.met.Meet(client, b.reason) {
		n.log.Warn("a request goes upstream as it came: it cannot be read, or must not be changed; further ones of this client are logged at debug level", fields...)
		return
	}
	n.log.Debug("a request goes upstream as it came", fields...)
}

// product is the name and the version by which a client calls itself.
func product(h http.Header) string {
	name, _, _ := strings.Cut(first(h, "User-Agent"), " ")
	return strings.ToValidUTF8(name[:min(len(name), 64)], "")
}

// unreadable returns why a request's headers say that its body is none that
// this handler reads, or "".
func unreadable(h http.Header) string {
	switch httpx.Coding(h) {
	case "", "gzip", "zstd":
	default:
		return reasonEncoding
	}
	ct := h.Get("Content-Type")
	if ct != "" && !httpx.IsJSON(httpx.MediaType(ct)) {
		return reasonContentType
	}
	return ""
}
