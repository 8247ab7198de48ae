// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Folders and files may be symbolic links to settings elsewhere.
func TestLinks(t *testing.T) {
	at, linked := home(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(linked, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{".claude/projects", ".codex"} {
		if err := os.Symlink(filepath.Join(at, folder), filepath.Join(linked, folder)); err != nil {
			t.Skip(err)
		}
	}
	for name, find := range map[string]func() ([]Source, error){
		"the agents' folders": func() ([]Source, error) { return Discover(linked, nil) },
		"a folder": func() ([]Source, error) {
			return Scan(filepath.Join(linked, ".claude/projects"), filepath.Join(linked, ".codex"))
		},
	} {
		sources, err := find()
		if err != nil || len(sources) != 2 {
			t.Errorf("%s: %+v, %v", name, sources, err)
		}
	}
}

// Pipes are skipped: reading one could block for ever.
func TestPipes(t *testing.T) {
	folder := t.TempDir()
	if err := exec.CommandContext(t.Context(), "mkfifo", filepath.Join(folder, "x.jsonl")).Run(); err != nil {
		t.Skip(err)
	}
	done := make(chan []Source)
	go func() {
		sources, _ := Scan(folder)
		done <- sources
	}()
	select {
	case sources := <-done:
		if len(sources) > 0 {
			t.Errorf("%+v", sources)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("waits for somebody to write")
	}
}

// Conversations of opencode are in its database and may be in files of an older version. They count
// once.
func TestOpencodeAfterItsMigration(t *testing.T) {
	both, files := opencodeHome(t, false), opencodeHome(t, true)
	const folder = ".local/share/opencode"
	if err := os.CopyFS(filepath.Join(both, folder), os.DirFS(filepath.Join(files, folder))); err != nil {
		t.Fatal(err)
	}
	sources, err := Discover(both, nil)
	if err != nil || len(sources) != 1 || filepath.Base(sources[0].Path) != "opencode.db" {
		t.Errorf("%+v, %v", sources, err)
	}
}
