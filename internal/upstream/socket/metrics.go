// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"

var (
	connections = metric.Gauge("hold_connections", "WebSockets to upstreams that are open.")
	dialed      = metric.Counter("hold_connections_total", "WebSockets to upstreams that have been opened.")
	fellBack    = metric.CounterOf("hold_posts_total", "Requests that were to go over a WebSocket and went as POST, by cause.", "cause", full, unreached, cut)
)

// Why a request goes as POST.
const (
	full      = "full"      // there are as many connections as there may be, all of them busy
	unreached = "unreached" // there was no answer to one
	cut       = "cut"       // the connection broke off before there was an answer
)
