// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package retain

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
)

// The drivers, by their names in metrics.
const (
	Origin      = "origin"
	Threads     = "threads"
	Responses   = "responses"
	WebSocket   = "websocket"
	Letta       = "letta"
	LettaAgents = "letta_agents"
)

var drivers = []string{Origin, Threads, Responses, WebSocket, Letta, LettaAgents}

// Of misses, only causes that do not depend on the upstream's error codes are initialized.
var (
	bytesSent = metric.Known(metric.CounterVec("retain_bytes_total",
		"Bytes of request bodies to upstreams that hold conversations: whole as they were, sent as they went over the wire.",
		"driver", "bytes"),
		drivers, []string{"whole", "sent"})
	decided = metric.Known(metric.CounterVec("retain_requests_total",
		"Requests to upstreams that hold conversations, by what was sent: delta, or the cause why it was the whole.",
		"driver", "sent"),
		drivers, []string{
			"delta", string(Unknown), string(Bound), string(Diverged), string(InFlight), string(Lost),
			string(Larger), string(Refused),
		})
	missed = metric.Known(metric.CounterVec("retain_misses_total", "Deltas that an upstream did not take, by cause.",
		"driver", "cause"),
		drivers, []string{string(Foreign), string(Cut)})
	resent = metric.CounterOf("retain_resends_total", "Wholes sent once more after a delta was not taken.", "driver",
		drivers...)
)

// count counts a request before it is sent.
func (e *Engine) count(t *Turn) {
	sent, what := len(t.Request.Body), string(t.Cause)
	if t.Delta != nil {
		sent, what = len(t.Delta), "delta"
	}
	name := e.driver.Name()
	bytesSent.WithLabelValues(name, "whole").Add(float64(len(t.Request.Body)))
	bytesSent.WithLabelValues(name, "sent").Add(float64(sent))
	decided.WithLabelValues(name, what).Inc()
}
