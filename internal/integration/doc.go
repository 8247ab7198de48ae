// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package integration holds the tests over HTTP: Caddy in the process of the test, with
// whole configurations, in front of upstreams of the test's own.
package integration
