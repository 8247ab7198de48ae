// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is the client's working folder.
type repository struct {
	tools
	dir   string
	files map[string]string
}

// tools makes calls in the form of a client's model: the names and arguments of tools differ.
type tools interface {
	bash(command string) toolCall
	read(path string) toolCall
	edit(path, from, to string) toolCall
	write(path, text string) toolCall
}

func newRepository(t *testing.T, with tools) *repository {
	t.Helper()
	r := &repository{tools: with, dir: filepath.Join(t.TempDir(), "repository"), files: map[string]string{}}
	for name, n := range map[string]int{"a": 80, "b": 120, "c": 60} {
		var b strings.Builder
		b.WriteString("package main\n\n// TODO: first\n\n// TODO: second\n")
		for i := range n {
			fmt.Fprintf(&b, "\nfunc %s%d(v int) int {\n\treturn v*%d + 1 // later\n}\n", strings.ToUpper(name), i, i)
		}
		r.files["src/"+name+".go"] = b.String()
	}
	r.files["notes.go"] = "package main\n\n// TODO: first\n\n// TODO: second\n"
	var log, readme strings.Builder
	for i := range 400 {
		fmt.Fprintf(&log, "[%02d:%02d] compiling package p%d ... ok (%d ms)\n", i/60, i%60, i, i*31%97)
	}
	readme.WriteString("# Fixture\n\nA small program for tests.\n\n")
	for i := range 60 {
		fmt.Fprintf(&readme, "- item %d: a line about part %d of the program\n", i, i)
	}
	r.files["src/build.log"], r.files["README.md"] = log.String(), readme.String()
	for _, name := range []string{"CLAUDE.md", "AGENTS.md", "GEMINI.md"} {
		r.files[name] = "# Notes\n\nKeep changes small.\n"
	}
	if err := os.MkdirAll(r.path("src"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range r.files {
		if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "-A"},
		{"-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "-m", "first"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = r.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, b)
		}
	}
	return r
}

func (r *repository) path(name string) string { return filepath.Join(r.dir, name) }

func (r *repository) read(name string) toolCall { return r.tools.read(r.path(name)) }

func (r *repository) edit(name, from, to string) toolCall {
	r.files[name] = strings.Replace(r.files[name], from, to, 1)
	return r.tools.edit(r.path(name), from, to)
}

func (r *repository) write(name, text string) toolCall {
	r.files[name] = text
	return r.tools.write(r.path(name), text)
}

// first returns the steps of the first prompt. It records their changes in files, so the steps must
// be used.
func (r *repository) first() []step {
	return []step{
		calls(r.bash("ls -la")).think(),
		calls(r.read("README.md")),
		calls(r.bash("grep -rn TODO src")).think(),
		calls(r.read("src/build.log")),
		calls(r.read("src/a.go"), r.read("src/b.go"), r.bash("wc -l src/*")).think(),
		calls(r.bash("cat src/missing.txt")),
		calls(r.bash("tail -300 src/build.log")).think(),
		calls(r.edit("src/a.go", "// TODO: first", "// done: first \"quoted\" → ü")),
		calls(r.read("README.md")),
		calls(r.bash("head -40 src/b.go")).think(),
		calls(r.write("NOTES.md", "# Notes\n\n\ttabs, \"quotes\", \\backslashes\\ and ünïcödé\n")),
		{Text: "I looked at everything; src/a.go is changed."},
	}
}

// second returns the steps of the second prompt, after those of the first.
func (r *repository) second() []step {
	return []step{
		calls(r.bash("git diff --stat")).think(),
		calls(r.read("src/c.go")),
		calls(r.bash("sed -n 1,80p src/b.go")).think(),
		calls(r.read("src/a.go")),
		calls(r.edit("src/a.go", "// TODO: second", "// done: second")),
		calls(r.bash("git status --short")).think(),
		{Text: "Both are done now."},
	}
}

// brief returns the steps of two prompts that read little: for engines, which read slowly.
func (r *repository) brief() (first, second []step) {
	first = []step{
		calls(r.bash("ls src")).think(),
		calls(r.read("CLAUDE.md"), r.bash("wc -l src/*")),
		calls(r.bash("grep -rn TODO src")).think(),
		calls(r.bash("head -5 src/c.go")),
		calls(r.read("notes.go")),
		calls(r.edit("notes.go", "// TODO: first", "// done: first \"quoted\" → ü")),
		{Text: "The first one is done."},
	}
	second = []step{
		calls(r.bash("git status --short")).think(),
		calls(r.edit("notes.go", "// TODO: second", "// done: second")),
		calls(r.bash("git diff --stat")),
		{Text: "Both are done now."},
	}
	return first, second
}

// check compares the files with the script's results.
func (r *repository) check(t *testing.T) {
	t.Helper()
	for name, want := range r.files {
		b, err := os.ReadFile(r.path(name))
		if err != nil {
			t.Error(err)
			continue
		}
		if string(b) != want {
			t.Errorf("%s is not what the script makes of it:\n%.300s", name, b)
		}
	}
}
