// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of this process, 0 if it is unknown.
func ProcessorTime() time.Duration {
	process, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(process, &created, &exited, &kernel, &user); err != nil {
		return 0
	}
	spent := func(f syscall.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100 // units of 100 ns
	}
	return spent(kernel) + spent(user)
}
