// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package e2e

// isolated tells that this process can reach loopback addresses only.
const isolated = false

// inNamespace does nothing where there are no network namespaces.
func inNamespace() (code int, moved bool) { return 0, false }
