// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"net"
	"testing"
)

func TestAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		addr := FreeAddress(t)
		if seen[addr] {
			t.Fatalf("%s twice", addr)
		}
		seen[addr] = true
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
	}
	var freed string
	t.Run("", func(t *testing.T) { freed = FreeAddress(t) })
	if reserved, err := net.ListenPacket("udp", freed); err != nil {
		t.Errorf("%s is not given back: %v", freed, err)
	} else {
		_ = reserved.Close()
	}
}
