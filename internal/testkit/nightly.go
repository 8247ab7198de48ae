// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"testing"
)

// Every returns a step through the cases of a test that takes long: each case in the
// nightly run, where LLM_CACHE_NIGHTLY is set, every usual'th otherwise, and four times
// fewer with -short.
func Every(usual int) int {
	switch {
	case os.Getenv("LLM_CACHE_NIGHTLY") != "":
		return 1
	case testing.Short():
		return 4 * usual
	}
	return usual
}
