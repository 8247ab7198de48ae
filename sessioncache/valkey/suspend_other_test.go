// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package valkey

import "os"

// suspend is never reached: redis-server, and with it the cluster of these tests, exists on Unix only.
func suspend(*os.Process) (resume func()) { panic("processes cannot be paused here") }
