// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package process controls the programs that tests start, with the programs that those start.
package process

import (
	"os"
	"os/exec"
	"syscall"
)

// Group gives a command a process group of its own. The command's cancellation kills the group.
func Group(cmd *exec.Cmd) {
	attributes(cmd).Setpgid = true
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return Kill(cmd.Process) }
	}
}

// As runs a command as another user.
func As(cmd *exec.Cmd, uid, gid uint32) {
	attributes(cmd).Credential = &syscall.Credential{Uid: uid, Gid: gid}
}

func attributes(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	return cmd.SysProcAttr
}

// Terminate asks a group to end, by its first process.
func Terminate(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGTERM) }

// Kill ends a group, by its first process.
func Kill(p *os.Process) error { return syscall.Kill(-p.Pid, syscall.SIGKILL) }

// Pause stops a process with all its connections open, until [Resume].
func Pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume ends a pause.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
