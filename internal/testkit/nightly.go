// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"testing"
)

// Every returns the step through the cases of a slow test: 1 in the nightly run, with
// LLM_CACHE_NIGHTLY set, usual otherwise, and four times as much with -short.
func Every(usual int) int {
	switch {
	case os.Getenv("LLM_CACHE_NIGHTLY") != "":
		return 1
	case testing.Short():
		return 4 * usual
	}
	return usual
}
