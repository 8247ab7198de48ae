// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
)

// TestParts: the frames of the profile's parts are functions of the Caddy in LLM_CACHE_CADDY.
func TestParts(t *testing.T) {
	binary := os.Getenv("LLM_CACHE_CADDY")
	if binary == "" {
		t.Skip("no LLM_CACHE_CADDY: the names of functions are not checked")
	}
	if err := checkParts(t.Context(), binary); err != nil {
		t.Error(err)
	}
}
