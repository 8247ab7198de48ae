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

package app

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// Names of clients are the clients' to choose: no more than so many are remembered.
func TestStrangersAreBounded(t *testing.T) {
	var s Strangers
	if !s.Meet("a", "parse") || s.Meet("a", "parse") || !s.Meet("a", "decode") {
		t.Error("a client is not met once for each reason")
	}
	long := strings.Repeat("x", 1<<20)
	s.Meet(long[:64], "parse")
	for k := range s.met {
		if unsafe.StringData(k[0]) == unsafe.StringData(long) {
			t.Error("all of a header stays in memory")
		}
	}
	for i := range 10 * MostStrangers {
		s.Meet(fmt.Sprint(i), "parse")
	}
	if n := len(s.met); n != MostStrangers {
		t.Errorf("%d clients are remembered", n)
	}
}
