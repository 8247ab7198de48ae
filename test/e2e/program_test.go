// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// program is a program of the folder sdks: it uses an SDK for JavaScript, and runs the tools that
// it offers.
type program struct {
	url, file string
	env       []string
}

func (p program) bash(command string) toolCall {
	return toolCall{"bash", map[string]any{"command": command}}
}

func (p program) read(path string) toolCall { return toolCall{"read", map[string]any{"path": path}} }

func (p program) edit(path, from, to string) toolCall {
	return toolCall{"edit", map[string]any{"path": path, "from": from, "to": to}}
}

func (p program) write(path, text string) toolCall {
	return toolCall{"write", map[string]any{"path": path, "text": text}}
}

// needSDKs skips the test without the SDKs, and returns the folder with their node_modules.
func needSDKs(t *testing.T) string {
	t.Helper()
	needCaddy(t)
	packages := os.Getenv("LLM_CACHE_SDKS")
	if packages == "" {
		lacking(t, "the SDKs: set LLM_CACHE_SDKS to a folder that has them in node_modules; .ci/run tells which")
	}
	if !isolated {
		lacking(t, "a network namespace: SDKs are only run where they can reach nothing but this machine")
	}
	return packages
}

// converse runs the program in a folder with one prompt after another, and checks its last text
// each time.
func (p program) converse(t *testing.T, dir string, tasks map[string][]step, prompts ...string) {
	t.Helper()
	home := t.TempDir()
	// Node.js searches packages from the program's folder.
	if err := os.CopyFS(home, os.DirFS("sdks")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(needSDKs(t), "node_modules"), filepath.Join(home, "node_modules")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	node := "node"
	if path := os.Getenv("LLM_CACHE_NODE"); path != "" {
		node = path
	}
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(home, p.file)}, prompts...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "BASE_URL=" + p.url, "ANTHROPIC_BASE_URL=" +
		p.url}, p.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", p.file, err, tail(stdout.Bytes()), tail(stderr.Bytes()))
	}
	n := 0
	err := eachLine(stdout.Bytes(), func(line []byte) error {
		var l struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		if n == len(prompts) {
			return errors.New("it says more than it was asked")
		}
		steps := tasks[prompts[n]]
		if want := steps[len(steps)-1].Text; l.Text != want {
			t.Errorf("it ended with %q, want %q", l.Text, want)
		}
		n++
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", p.file, err)
	}
	if n != len(prompts) {
		t.Errorf("%d answers to %d prompts", n, len(prompts))
	}
	if text := stderr.String(); text != "" {
		t.Logf("it warned: %.2000s", text)
	}
}
