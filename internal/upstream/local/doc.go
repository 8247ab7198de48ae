// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package local is what a local server that a team shares needs: a queue before its slots,
// prompts that begin as they did, signs of life while it reads them, requests that
// outlive their client, and a choice among several boxes. Its libraries stand in folders
// of their own.
package local
