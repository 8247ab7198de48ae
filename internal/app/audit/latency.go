// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"math/bits"
	"time"
)

// Latency is a distribution of durations, in milliseconds.
type Latency struct {
	// Name is the duration: first byte, first token, last token, or added time: the time until a
	// request was handed on.
	Name string  `json:"name"`
	P50  float64 `json:"p50_ms"`
	P95  float64 `json:"p95_ms"`
	P99  float64 `json:"p99_ms"`
}

// latencyNames are the names in the order of the collector.
var latencyNames = [...]string{"first byte", "first token", "last token", "added time"}

// histogram counts durations by their magnitude, 16 buckets for each doubling: a quantile is off by
// 3 % at most.
type histogram struct {
	counts   [640]uint32 // by microseconds, up to 2^42
	n        uint64
	min, max time.Duration
}

func (h *histogram) add(d time.Duration) {
	if d <= 0 {
		return
	}
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.n, h.max = h.n+1, max(h.max, d)
	us := uint64(d / time.Microsecond)
	e := max(bits.Len64(us)-5, 0)
	h.counts[min(uint64(e)*16+us>>e, uint64(len(h.counts)-1))]++
}

// at returns a quantile in milliseconds.
func (h *histogram) at(q float64) float64 {
	rank := uint64(q*float64(h.n-min(h.n, 1))+0.5) + 1
	for i, n := range h.counts {
		if uint64(n) < rank {
			rank -= uint64(n)
			continue
		}
		us, width := uint64(i), uint64(1) // the bucket's lower end
		if e := i/16 - 1; e > 0 {
			us, width = uint64(16+i%16)<<e, 1<<e
		}
		d := time.Duration(us)*time.Microsecond + time.Duration(width)*time.Microsecond/2
		return float64(min(max(d, h.min), h.max)) / float64(time.Millisecond)
	}
	return 0
}

func (h *histogram) latency(name string) Latency {
	return Latency{name, h.at(0.5), h.at(0.95), h.at(0.99)}
}
