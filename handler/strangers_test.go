// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// Clients choose their names, so the remembered names are bounded.
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
