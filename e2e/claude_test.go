// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Claude Code works through a script of tool calls in a repository, ends, goes
// on with the conversation in a second process, and must neither fail nor work
// on anything but what the script says.
func TestClaudeCode(t *testing.T) {
	for _, c := range []struct{ name, options, model string }{
		{"cost_aware", "policy cost_aware", ""},
		{"eager", "policy eager", ""},
		// A model without a check on what stood before its thinking.
		{"eager, older model", "policy eager", "claude-sonnet-4-5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			needCaddy(t)
			cli := os.Getenv("LLM_CACHE_CLAUDE")
			if cli == "" {
				lacking(t, "Claude Code: set LLM_CACHE_CLAUDE to the path of its executable, from npm install @anthropic-ai/claude-code")
			}
			if !isolated {
				lacking(t, "a network namespace: Claude Code is only run where it can reach nothing but this machine")
			}
			r := newRepository(t)
			first, second := r.script()
			s := startStack(t, setup{cache: c.options, script: append(first, second...)})
			claude := &claudeCode{path: cli, url: s.url, dir: r.dir, home: t.TempDir(), model: c.model}

			said := claude.run(t, "Look through this repository, find the TODOs and fix the first one in src/a.go.")
			said.ended(t, first)
			more := claude.run(t, "Now check the diff and fix the second one.", "--continue")
			more.ended(t, second)
			r.check(t)

			sessions, front := s.settle(t, 1)
			s.clean(t)
			for i, u := range append(said.usages, more.usages...)[1:] {
				if u.Read == 0 {
					t.Errorf("answer %d read nothing from the cache: %+v", i+1, u)
				}
			}
			edited := 0
			for i := range front {
				if front[i].Answer.Get("X-Llm-Cache-Session") != sessions[0].ID {
					t.Errorf("request %d is of session %q, not %q", i, front[i].Answer.Get("X-Llm-Cache-Session"), sessions[0].ID)
				}
				if front[i].number(t, "X-Llm-Cache-Saved-Tokens") > 0 {
					edited++
				}
			}
			if strings.HasPrefix(c.options, "policy eager") && edited == 0 {
				t.Error("eager never made a request smaller")
			}
			t.Logf("%d requests, %d of them made smaller; last usage %+v", len(front), edited, more.usages[len(more.usages)-1])
		})
	}
}

// claudeCode is the command line client with a home of its own.
type claudeCode struct{ path, url, dir, home, model string }

// run gives it a prompt and waits for its end.
func (c *claudeCode) run(t *testing.T, prompt string, args ...string) *transcript {
	t.Helper()
	args = append([]string{
		"-p", prompt, "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits",
		"--allowedTools", "Bash,Read,Grep,Glob,Edit,Write",
	}, args...)
	if c.model != "" {
		args = append(args, "--model", c.model)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.home, "TMPDIR=" + c.home, "LANG=C.UTF-8",
		"ANTHROPIC_BASE_URL=" + c.url, "ANTHROPIC_API_KEY=sk-test",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
		"DISABLE_AUTOUPDATER=1", "DO_NOT_TRACK=1",
	}
	// What it starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("claude: %v\n%s\n%s", err, stderr.Bytes(), tail(stdout.Bytes()))
	}
	said, err := readTranscript(stdout.Bytes())
	if err != nil {
		t.Fatalf("claude: %v\n%s", err, tail(stdout.Bytes()))
	}
	return said
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// transcript is what the client printed as stream-json.
type transcript struct {
	usages []usage // one an answer of the model
	failed []string
	result string
	isErr  bool
}

type usage struct {
	Input  int64 `json:"input_tokens"`
	Write  int64 `json:"cache_creation_input_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
	Output int64 `json:"output_tokens"`
}

func readTranscript(b []byte) (*transcript, error) {
	said, ended, last := &transcript{}, false, ""
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var l struct {
			Type    string `json:"type"`
			Result  string `json:"result"`
			IsError bool   `json:"is_error"`
			Message struct {
				ID      string `json:"id"`
				Usage   usage  `json:"usage"`
				Content json.RawMessage
			} `json:"message"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%w in %s", err, lines.Bytes())
		}
		switch l.Type {
		case "assistant": // one line a block
			if l.Message.ID != last {
				last = l.Message.ID
				said.usages = append(said.usages, l.Message.Usage)
			}
		case "user":
			var blocks []struct {
				IsError bool            `json:"is_error"`
				Content json.RawMessage `json:"content"`
			}
			if json.Unmarshal(l.Message.Content, &blocks) != nil {
				continue // a string: not a tool result
			}
			for _, r := range blocks {
				if r.IsError {
					said.failed = append(said.failed, string(r.Content))
				}
			}
		case "result":
			said.result, said.isErr, ended = l.Result, l.IsError, true
		}
	}
	if !ended {
		return nil, errors.New("it printed no result")
	}
	return said, lines.Err()
}

// ended checks that all steps were taken and the last one's text was printed.
func (s *transcript) ended(t *testing.T, steps []step) {
	t.Helper()
	if want := steps[len(steps)-1].Text; s.isErr || s.result != want {
		t.Errorf("it ended with %q (error %t), want %q", s.result, s.isErr, want)
	}
	if len(s.usages) != len(steps) {
		t.Errorf("%d answers of the model, %d steps", len(s.usages), len(steps))
	}
	for _, f := range s.failed {
		if !strings.Contains(f, "missing.txt") {
			t.Errorf("a tool call failed: %s", f)
		}
	}
}

// repository is what the client works on.
type repository struct {
	dir   string
	files map[string]string
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{dir: filepath.Join(t.TempDir(), "repository"), files: map[string]string{}}
	for name, n := range map[string]int{"a": 80, "b": 120, "c": 60} {
		var b strings.Builder
		b.WriteString("package main\n\n// TODO: first\n\n// TODO: second\n")
		for i := range n {
			fmt.Fprintf(&b, "\nfunc %s%d(v int) int {\n\treturn v*%d + 1 // later\n}\n", strings.ToUpper(name), i, i)
		}
		r.files["src/"+name+".go"] = b.String()
	}
	var log, readme strings.Builder
	for i := range 400 {
		fmt.Fprintf(&log, "[%02d:%02d] compiling package p%d ... ok (%d ms)\n", i/60, i%60, i, i*31%97)
	}
	readme.WriteString("# Fixture\n\nA small program for tests.\n\n")
	for i := range 60 {
		fmt.Fprintf(&readme, "- item %d: a line about part %d of the program\n", i, i)
	}
	r.files["src/build.log"], r.files["README.md"] = log.String(), readme.String()
	r.files["CLAUDE.md"] = "# Notes\n\nKeep changes small.\n"
	if err := os.MkdirAll(r.path("src"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range r.files {
		if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = r.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir}
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, b)
		}
	}
	return r
}

func (r *repository) path(name string) string { return filepath.Join(r.dir, name) }

func (r *repository) read(name string) toolCall {
	return toolCall{"Read", map[string]any{"file_path": r.path(name)}}
}

func (r *repository) edit(name, from, to string) toolCall {
	r.files[name] = strings.Replace(r.files[name], from, to, 1)
	return toolCall{"Edit", map[string]any{"file_path": r.path(name), "old_string": from, "new_string": to}}
}

func (r *repository) write(name, text string) toolCall {
	r.files[name] = text
	return toolCall{"Write", map[string]any{"file_path": r.path(name), "content": text}}
}

func bash(command string) toolCall {
	return toolCall{"Bash", map[string]any{"command": command, "description": "Run a command"}}
}

// script returns the steps of two prompts. What they change is noted in files.
func (r *repository) script() (first, second []step) {
	first = []step{
		calls(bash("ls -la")).think(),
		calls(r.read("README.md")),
		calls(bash("grep -rn TODO src")).think(),
		calls(r.read("src/build.log")),
		calls(r.read("src/a.go"), r.read("src/b.go"), bash("wc -l src/*")).think(),
		calls(bash("cat src/missing.txt")),
		calls(bash("tail -300 src/build.log")).think(),
		calls(r.edit("src/a.go", "// TODO: first", "// done: first \"quoted\" → ü")),
		calls(r.read("README.md")),
		calls(bash("head -40 src/b.go")).think(),
		calls(r.write("NOTES.md", "# Notes\n\n\ttabs, \"quotes\", \\backslashes\\ and ünïcödé\n")),
		{Text: "I looked at everything; src/a.go is changed."},
	}
	second = []step{
		calls(bash("git diff --stat")).think(),
		calls(r.read("src/c.go")),
		calls(bash("sed -n 1,80p src/b.go")).think(),
		calls(r.read("src/a.go")),
		calls(r.edit("src/a.go", "// TODO: second", "// done: second")),
		calls(bash("git status --short")).think(),
		{Text: "Both are done now."},
	}
	return first, second
}

// check compares the files with what the script makes of them.
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
