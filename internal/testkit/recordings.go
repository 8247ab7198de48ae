// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package testkit

// Recorded conversations for tests, where available.

import (
	"os"
	"path/filepath"
	"testing"
)

// RecordingFolder returns the folder of recorded conversations: LLM_CACHE_TRACES, or shared/traces
// beside the module. Without a folder it skips the test.
func RecordingFolder(t testing.TB) string {
	t.Helper()
	folder, ok := LookupRecordings(t)
	if !ok {
		t.Skip("no recorded conversations: set LLM_CACHE_TRACES to their folder")
	}
	return folder
}

// LookupRecordings is RecordingFolder for tests that can do without recordings.
func LookupRecordings(t testing.TB) (folder string, ok bool) {
	t.Helper()
	folder = os.Getenv("LLM_CACHE_TRACES")
	if folder == "" {
		folder = filepath.Join(moduleRoot(t), "..", "shared", "traces")
	}
	_, err := os.Stat(folder) //nolint:gosec // who runs the tests names it
	return folder, err == nil
}

// RecordingFiles returns the recordings in the folder, ordered by name, so that the parts of a
// conversation are in order.
func RecordingFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(RecordingFolder(t), "*.jsonl.gz"))
	if err != nil || len(files) == 0 {
		t.Skip("no recorded conversations: set LLM_CACHE_TRACES to their folder")
	}
	return files
}

// moduleRoot returns the folder of the outermost go.mod. Tests run in the folder of their package.
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
