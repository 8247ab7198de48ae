// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

// Reading of collectors in tests.

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricValue returns the value of a counter.
func MetricValue(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	all, err := reg.Gather()
	if err != nil || len(all) != 1 || len(all[0].GetMetric()) != 1 {
		t.Fatalf("gathered %v, %v", all, err)
	}
	return all[0].GetMetric()[0].GetCounter().GetValue()
}
