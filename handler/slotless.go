// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
)

// slotlessPaths are path suffixes of endpoints without text generation. llama-server, vLLM,
// SGLang, Ollama and LM Studio answer them while all slots are taken.
var slotlessPaths = []string{
	"/tokenize", "/detokenize", "/apply-template", "/embeddings", "/embedding", "/api/embed", "/rerank", "/reranking", "/api/show", "/count_tokens", "/input_tokens",
}

// needsNoSlot reports whether a request to a path takes no slot of a box.
func needsNoSlot(path string) bool {
	for _, end := range slotlessPaths {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// withLength returns next with the bodies of requests read before it, so that they have a
// length: mlx_lm.server and others cannot read bodies that come in chunks.
func (o *site) withLength(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.ContentLength >= 0 {
			return next.ServeHTTP(w, r)
		}
		format := formatAt(r)
		var a arrival
		a.begin(o, r, format)
		defer a.share.Close()
		switch err := a.receive(w, r); {
		case errors.Is(err, httpx.ErrNoRoom):
			return budget.Fail(w, format)
		case errors.Is(err, budget.ErrStalled):
			return budget.FailStalled(w, format)
		case err != nil:
			return failBody(w, r, format, err)
		}
		length, coding := r.ContentLength, r.TransferEncoding
		r.ContentLength, r.TransferEncoding = int64(len(a.Data)), nil
		defer func() { r.ContentLength, r.TransferEncoding = length, coding }() // for the access log
		return passBody(w, r, next, &a.Payload)
	})
}
