// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package e2e

// isolated reports that this process can reach loopback addresses only.
const isolated = false

// inNamespace does nothing on systems without network namespaces.
func inNamespace() (code int, moved bool) { return 0, false }
