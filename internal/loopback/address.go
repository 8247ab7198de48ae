// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// Package loopback finds addresses for servers that tests start.
package loopback

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Address returns a TCP address on which nobody listens, and that no other test
// gets until this one has ended, in whatever process. A port that a listener had
// and gave back is anybody's; and as Caddy's listeners share their ports, two
// processes that come to the same would get each other's requests.
//
// The ports are below those that systems give out by themselves. A UDP socket of
// the same number holds one.
func Address(t testing.TB) string {
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
