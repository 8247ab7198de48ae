// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package option

import (
	"os"
	"path/filepath"
	"testing"
)

// One file yields all keys, and each purpose has its own.
func TestOneKeyForAll(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	originals, err := Key("", "", "originals")
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := Key("", "", "sessions")
	if err != nil || sessions == originals || sessions == [32]byte{} {
		t.Fatalf("the same for two purposes: %v", err)
	}
	if again, err := Key("", "", "sessions"); err != nil || again != sessions {
		t.Errorf("another key: %v", err)
	}
	files, err := os.ReadDir(DataDir())
	if err != nil || len(files) != 1 || files[0].Name() != KeyName {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// Without a place for a key file the key is random, and the error says so.
func TestKeyWithoutAPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", file)
	key, err := LastingKey("audit")
	if err == nil || key == [32]byte{} {
		t.Errorf("key %v, error %v, want a key and an error", key, err)
	}
}
