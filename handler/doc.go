// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package handler is the HTTP side of llm_cache: the Caddy handler that reads a request, lets the
// pipeline edit it, hands it on and watches the answer.
//
// The life of a request is in serve.go. The layers that it passes between the handler and the upstream
// are a list in chain.go, and the values in headers, logs and spans are a table in outcome.go.
package handler
