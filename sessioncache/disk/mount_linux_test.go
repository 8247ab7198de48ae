// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A full file system costs no conversation, whether the write-ahead log cannot grow or the file.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("llm_cache", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("there is no file system to fill: mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	runsFull(t, filepath.Join(dir, "sessions.db"), func(*Disk) { fill(t, ballast) }, func(*Disk) {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

// fill makes a file that takes all the room that there is.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{4096, 1} {
		b := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(b)
		}
	}
}
