// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package transcript reads the conversations that coding agents leave on disk, and recordings of
// conversations in its own format. It converts the former to the latter.
//
// Unknown lines are skipped: agents change their formats between versions.
package transcript
