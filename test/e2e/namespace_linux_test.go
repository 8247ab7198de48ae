// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"
)

// isolated reports that this process can reach loopback addresses only.
var isolated bool

const envNamespace = "LLM_CACHE_E2E_NAMESPACE"

// inNamespace runs the whole test process again in its own network namespace and returns the exit
// code. In that second process, and without namespaces, it returns at once.
func inNamespace() (code int, moved bool) {
	if os.Getenv(envNamespace) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "loopback interface:", err)
			return 1, true
		}
		isolated = true
		return 0, false
	}
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), envNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{capNetAdmin}
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "no network namespace, tests that need one will be skipped:", err)
		return 0, false
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), true
	}
	fmt.Fprintln(os.Stderr, err)
	return 1, true
}

const capNetAdmin = 12 // CAP_NET_ADMIN, for raising an interface

// loopbackUp sets the loopback interface up, like `ip link set lo up`.
func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	// struct ifreq: a name of 16 bytes, then here the flags.
	var req struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], "lo")
	req.flags = syscall.IFF_UP | syscall.IFF_RUNNING
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&req))); errno != 0 {
		return errno
	}
	return nil
}
