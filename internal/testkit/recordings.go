// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

// Recordings finds the recorded conversations that tests use where there are some.

import (
	"os"
	"path/filepath"
	"testing"
)

// RecordingFolder is the folder of recorded conversations: the one that LLM_CACHE_TRACES names, or
// shared/traces beside the module. Without one the test is skipped.
func RecordingFolder(t testing.TB) string {
	t.Helper()
	folder, ok := LookupRecordings(t)
	if !ok {
		t.Skip("no recorded conversations: set LLM_CACHE_TRACES to their folder")
	}
	return folder
}

// LookupRecordings is Folder for tests that do without.
func LookupRecordings(t testing.TB) (folder string, ok bool) {
	t.Helper()
	folder = os.Getenv("LLM_CACHE_TRACES")
	if folder == "" {
		folder = filepath.Join(moduleRoot(t), "..", "shared", "traces")
	}
	_, err := os.Stat(folder) //nolint:gosec // who runs the tests names it
	return folder, err == nil
}

// RecordingFiles are the recordings in the folder, in the order of their names: the parts of a
// conversation in order.
func RecordingFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(RecordingFolder(t), "*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Skip("no recorded conversations: set LLM_CACHE_TRACES to their folder")
	}
	return files
}

// moduleRoot is the folder of the outermost go.mod: tests run in the folder of their package.
func moduleRoot(t testing.TB) (root string) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			root = dir
		}
	}
	return root
}
