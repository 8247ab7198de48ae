// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// BenchmarkRetainLine sends turns of 1 MB over a line of 10 Mbit/s and 50 ms and reports how
// long they take to reach the model, whole and as what is new.
func BenchmarkRetainLine(b *testing.B) {
	for _, way := range []string{"", "retain origin"} {
		b.Run(map[string]string{"": "whole"}[way]+strings.TrimPrefix(way, "retain "), func(b *testing.B) {
			var arrived time.Time
			s := apart(b, newUpstream(b, func(w http.ResponseWriter, r *http.Request, n int) {
				arrived = time.Now()
				answerMessage(w, r, n)
			}), 10e6/8, 50*time.Millisecond)
			s.client = &http.Client{Transport: &http.Transport{}}
			s.policy = "policy observe\n" + way
			s.load(s.sites("llm_cache_origin"))
			n := 430
			ask := func() time.Duration {
				n++
				began := time.Now()
				if res := s.post("/v1/messages", conversation(n, false), "X-Api-Key", "a"); res.StatusCode != http.StatusOK {
					b.Fatal(read(b, res))
				} else {
					_ = read(b, res)
				}
				return arrived.Sub(began)
			}
			first := ask()
			var rest time.Duration
			for b.Loop() {
				rest += ask()
			}
			b.ReportMetric(float64(first.Milliseconds()), "ms-first")
			b.ReportMetric(float64(rest.Milliseconds())/float64(b.N), "ms-to-model")
			b.Logf("%d bytes", len(conversation(n, false)))
		})
	}
}
