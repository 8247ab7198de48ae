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

package loopback

import (
	"net"
	"testing"
)

func TestAddress(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		addr := Address(t)
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
	t.Run("", func(t *testing.T) { freed = Address(t) })
	if hold, err := net.ListenPacket("udp", freed); err != nil {
		t.Errorf("%s is not given back: %v", freed, err)
	} else {
		_ = hold.Close()
	}
}
