// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit has helpers for tests: addresses, recordings and readers of output.
package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns a free TCP address. No other test gets it until this one has ended, in any
// process.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		// The range is below the ephemeral ports of operating systems.
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)) //nolint:gosec // G404: any free port will do
		// A UDP socket of the same number reserves the port. A closed listener's port could go to
		// any process, and as Caddy's listeners share ports, two processes would get each other's
		// requests.
		reserved, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = reserved.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = reserved.Close() })
		return addr
	}
	t.Fatal("no free port")
	return ""
}
