// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package budget

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"

var waited = metric.CounterOf("bodies_waited_total",
	"Requests that waited for memory, by how they went on: served, unread, refused.", "outcome",
	"served", "unread", "refused")

var gaveWay = metric.Counter("bodies_gave_way_total",
	"Uploads that stalled and were ended, because other requests needed their memory.")

// PassedUnread counts a request that found no room and was forwarded without being read.
func PassedUnread() { waited.WithLabelValues("unread").Inc() }

// Refused counts a request that found no room and got a 503.
func Refused() { waited.WithLabelValues("refused").Inc() }
