// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package lingua

// runnable are the kernels that this CPU can run.
func runnable() []kernels { return []kernels{portable} }
