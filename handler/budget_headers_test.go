// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/allowance"
)

// TestCapHeaders: the threshold counts as passed once it is reached, and no share is rounded up to it.
func TestCapHeaders(t *testing.T) {
	ends := time.Unix(1786147200, 0)
	for share, want := range map[float64][3]string{ // utilization, threshold, status
		0: {"0.00", "", "allowed"}, 0.7499: {"0.74", "", "allowed"}, 0.75: {"0.75", "0.75", "allowed_warning"},
		0.9499: {"0.94", "0.75", "allowed_warning"}, 0.95: {"0.95", "0.95", "allowed_warning"},
		0.999: {"0.99", "0.95", "allowed_warning"}, 1.3: {"0.99", "0.95", "allowed_warning"},
	} {
		h := http.Header{"Anthropic-Ratelimit-Unified-5h-Status": {"allowed"}, "Request-Id": {"req_1"}}
		stampCap(h, &allowance.Verdict{Budget: &allowance.Budget{Dollars: 1}, Share: share, Ends: ends})
		all := map[string]string{
			"Status": want[2], "Overage-Status": want[2], "Overage-Utilization": want[0], "Representative-Claim": "overage",
			"Reset": "1786147200", "Overage-Reset": "1786147200",
		}
		if want[1] != "" {
			all["Overage-Surpassed-Threshold"] = want[1]
		}
		got := map[string]string{}
		for name := range h {
			if rest, is := strings.CutPrefix(name, prefixCap); is {
				got[rest] = h.Get(name)
			}
		}
		if !maps.Equal(got, all) || h.Get("Request-Id") != "req_1" {
			t.Errorf("%g: got %v, want %v", share, h, all)
		}
	}
}
