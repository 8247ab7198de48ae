// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"net/http"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/pricing"
)

// TestStayPays: a conversation returns where the price difference of its further turns exceeds the cost of a
// cold prefix at the first upstream.
func TestStayPays(t *testing.T) {
	cheap := pricing.Rules{Input: 1, Output: 5, Write: 1.25, Read: 0.1}
	dear := pricing.Rules{Input: 5, Output: 25, Write: 1.25, Read: 0.1}
	free := pricing.Rules{Write: 1}
	for _, c := range []struct {
		name            string
		first, fallback pricing.Rules
		further         float64
		want            bool
	}{
		{"the same prices", cheap, cheap, 100, false},
		{"a dearer fallback and many turns", cheap, dear, 40, true},
		{"a dearer fallback and few turns", cheap, dear, 1, false},
		{"a cheaper fallback", dear, cheap, 1000, false},
		{"a free fallback", cheap, free, 1000, false},
		{"a free first upstream", free, cheap, 2, true},
	} {
		s := stay{turn: fallenTurn{rules: &c.fallback, prompt: 100_000, output: 500}, grown: 2000}
		if got := s.pays(c.first, c.further); got != c.want {
			t.Errorf("%s, %v turns: got %t, want %t", c.name, c.further, got, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"3": 3 * time.Second, "0.5": time.Second / 2, "": -1, "-1": -1, "1e300": -1, "NaN": -1, "Sat, 28 Nov 2026 12:00:00 GMT": -1,
	} {
		got, ok := retryAfter(http.Header{"Retry-After": {value}})
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %s, %t, want %s", value, got, ok, want)
		}
	}
}
