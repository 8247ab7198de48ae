// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync/atomic"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

func countersOf(i *shared.Instance) *audit.Counters {
	return shared.Part(i, func() *audit.Counters { return new(audit.Counters) })
}

var auditErrors = metric.CounterOf("audit_errors_total",
	"Attempts to open an audit store or to write to it that failed, by reason.", "reason", audit.Reasons...)

func auditGauge(name, help string, value func(audit.Stats) float64) {
	metric.GaugeFunc(name, help, func(i *shared.Instance) (largest float64) {
		for _, s := range sinksOf(i).All() {
			largest = max(largest, value(s.queue.Stats()))
		}
		return largest
	})
}

func init() {
	count := func(name, help string, value func(*audit.Counters) *atomic.Int64) {
		metric.CounterFunc(name, help, func(i *shared.Instance) float64 { return float64(value(countersOf(i)).Load()) })
	}
	count("audit_records_total", "Turns that an audit store has acknowledged.",
		func(c *audit.Counters) *atomic.Int64 { return &c.Written })
	count("audit_coalesced_total",
		"Turns that lost their details for want of room, because the audit store was down or slow; they are counted.",
		func(c *audit.Counters) *atomic.Int64 { return &c.Coalesced })
	count("audit_stripped_total", "Turns that lost their content for want of room.",
		func(c *audit.Counters) *atomic.Int64 { return &c.Stripped })
	count("audit_dropped_total", "Turns that no audit store had taken at its end.",
		func(c *audit.Counters) *atomic.Int64 { return &c.Dropped })
	count("audit_write_errors_total", "Batches that an audit store did not take, retries included.",
		func(c *audit.Counters) *atomic.Int64 { return &c.WriteErrors })
	auditGauge("audit_queue_records", "Records that wait for the audit store.",
		func(s audit.Stats) float64 { return float64(s.Waiting) })
	metric.GaugeFunc("audit_failing", "1 while an audit store cannot be opened or written: records wait in memory.",
		func(i *shared.Instance) float64 {
			for _, s := range sinksOf(i).All() {
				if s.store.trouble() != "" {
					return 1
				}
			}
			return 0
		})
	auditGauge("audit_lag_seconds", "Age of the oldest record that waits for the audit store.",
		func(s audit.Stats) float64 { return s.Lag.Seconds() })
}
