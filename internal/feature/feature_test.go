// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package feature

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestLoadUnknown: of several unknown features the error names the first, each time.
func TestLoadUnknown(t *testing.T) {
	for range 20 {
		_, err := Load(caddy.Context{}, caddy.ModuleMap{"c": nil, "a": nil, "b": nil})
		if err == nil || !strings.Contains(err.Error(), `features: "a" is not one of`) {
			t.Fatalf("got error %v, want one about a", err)
		}
	}
}
