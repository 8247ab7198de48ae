// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

// Package process controls the programs that tests start. Here it has no groups, users and pauses, and
// the tests that need them only compile.
package process

import (
	"errors"
	"os"
	"os/exec"
)

// Group does nothing.
func Group(*exec.Cmd) {}

// As does nothing.
func As(*exec.Cmd, uint32, uint32) {}

// Terminate ends a process.
func Terminate(p *os.Process) error { return p.Kill() }

// Kill ends a process.
func Kill(p *os.Process) error { return p.Kill() }

// Pause fails.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume fails.
func Resume(*os.Process) error { return errors.ErrUnsupported }
