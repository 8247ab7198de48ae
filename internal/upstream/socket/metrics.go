// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"

var (
	connections = metric.Gauge("retain_connections", "WebSockets to upstreams that are open.")
	dialed      = metric.Counter("retain_connections_total", "WebSockets to upstreams that have been opened.")
	fellBack    = metric.CounterOf("retain_posts_total",
		"Requests that were to go over a WebSocket and went as POST, by cause.", "cause", full, unreached, cut)
)

// Reasons for sending a request as POST.
const (
	full      = "full"      // all connections are busy and the pool is full
	unreached = "unreached" // the handshake got no answer
	cut       = "cut"       // the connection broke off before an answer
)
