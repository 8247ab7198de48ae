// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit finds addresses for servers that tests start.
package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns a TCP address on which nobody listens, and that no other test
// gets until this one has ended, in whatever process. A port that a listener had
// and gave back is anybody's; and as Caddy's listeners share their ports, two
// processes that come to the same would get each other's requests.
//
// The ports are below those that systems give out by themselves. A UDP socket of
// the same number holds one.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)) //nolint:gosec // G404: any free port will do
		hold, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = hold.Close()
			continue
		}
		_ = l.Close()
		t.Cleanup(func() { _ = hold.Close() })
		return addr
	}
	t.Fatal("no free port")
	return ""
}
