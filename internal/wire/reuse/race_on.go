// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package reuse

// overwrites has recycled memory overwritten, so that the race detector reports a later read of it.
const overwrites = true
