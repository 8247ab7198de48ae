// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
)

func TestWrkRate(t *testing.T) {
	const printed = `Running 1s test @ http://127.0.0.1:4000/v1/messages
  1 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.52ms    0.91ms  12.03ms   78.12%
    Req/Sec     5.43k   312.50     6.01k    70.00%
  5436 requests in 1.01s, 9.01MB read
Requests/sec:   5383.10
Transfer/sec:      8.92MB
`
	for _, c := range []struct {
		name, out string
		rate      float64
		err       error
	}{
		{"well", printed, 5383.10, nil},
		{
			"refused", strings.Replace(printed, "Requests/sec", "  Non-2xx or 3xx responses: 12\nRequests/sec", 1), 0,
			errWrkLoad,
		},
		{"cut", strings.Replace(printed, "Requests/sec",
			"  Socket errors: connect 0, read 3, write 0, timeout 0\nRequests/sec", 1), 0, errWrkLoad},
		{"something else", "usage: wrk <options> <url>", 0, errWrkPrint},
		{"nothing", "", 0, errWrkPrint},
	} {
		if rate, err := wrkRate(c.out); rate != c.rate || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.name, rate, err)
		}
	}
}
