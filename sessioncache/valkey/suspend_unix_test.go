// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package valkey

import (
	"os"
	"syscall"
)

// suspend stops a process without ending it, until resume is called.
func suspend(p *os.Process) (resume func()) {
	_ = p.Signal(syscall.SIGSTOP)
	return func() { _ = p.Signal(syscall.SIGCONT) }
}
