// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package transcript reads conversations as coding agents leave them on disk, and
// recordings of conversations in a format of its own, to which it brings them.
//
// What it does not know it passes over: an agent writes what it likes, and its
// next version writes something else.
package transcript
