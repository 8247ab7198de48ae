// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/process"
)

// client is a coding agent for the terminal.
type client interface {
	tools
	// executable returns the client's name, and the variable with its path.
	executable() (name, variable string)
	// files returns the settings in its home.
	files() map[string]string
	// resumes reports whether it can resume a conversation in a second process.
	resumes() bool
	// command returns the command for a prompt, the first one or a further one.
	command(home, prompt string, further bool) (args, env []string)
	// last returns the last text in its output.
	last(stdout []byte) (string, error)
}

// Users' clients work through a script of tool calls in a repository, end, and resume the
// conversation in a second process. No step may fail, and nothing outside the script may change.
// All requests are one session, and each response has read from the cache.
func TestClients(t *testing.T) {
	for _, c := range []struct {
		name, cache string
		client      func(url string) client
		id          string // on record
		edited      bool
	}{
		{"Claude Code", "policy cost_aware", func(url string) client { return claudeCode{url: url} }, "claude-code", false},
		{"Claude Code, eager", "policy eager", func(url string) client { return claudeCode{url: url} }, "claude-code", true},
		// A model that does not verify the context of its thinking.
		{
			"Claude Code, eager, older model", "policy eager",
			func(url string) client { return claudeCode{url, "claude-sonnet-4-5"} }, "claude-code", true,
		},
		{
			"Claude Code, Vertex AI", "upstream vertex\npolicy eager",
			func(url string) client { return claudeOnVertex{claudeCode{url: url}} }, "claude-code", true,
		},
		{
			"Claude Code, Bedrock", "upstream bedrock\npolicy eager",
			func(url string) client { return claudeOnBedrock{claudeCode{url: url}} }, "claude-code", true,
		},
		{"Codex", "policy cost_aware", func(url string) client { return codex{url: url} }, "codex", false},
		{
			"Codex, WebSocket", "upstream openai", func(url string) client { return codex{url: url, socket: true} },
			"codex", false,
		},
		{
			"opencode, Messages", "policy cost_aware",
			func(url string) client { return opencode{url: url, provider: "anthropic", model: "claude-sonnet-4-5"} }, "opencode",
			false,
		},
		{
			"opencode, chat completions", "policy cost_aware",
			func(url string) client { return opencode{url: url, provider: "box", model: "qwen3-coder"} }, "opencode", false,
		},
		{
			"opencode, Responses", "policy cost_aware",
			func(url string) client { return opencode{url: url, provider: "openai", model: "gpt-5"} }, "opencode", false,
		},
		{"Gemini CLI", "policy cost_aware", func(url string) client { return geminiCLI{url: url} }, "gemini-cli", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			needClient(t, c.client(""))
			needNightly(t, c.client(""))
			r := newRepository(t, c.client(""))
			first, second := r.first(), r.second()
			script := slices.Concat(first, second)
			if !c.client("").resumes() {
				script = slices.Concat(first[:len(first)-1], second)
			}
			_, socket := c.client("").(codex)
			socket = socket && c.client("").(codex).socket
			s := startStack(t, setup{cache: c.cache, script: script, audit: true, socket: socket})
			u := newUser(t, c.client(s.url), r.dir)
			if u.resumes() {
				u.ask(t, firstPrompt, first)
				u.ask(t, secondPrompt, second)
			} else {
				u.ask(t, firstPrompt, script)
			}
			r.check(t)

			turns := s.turns(t, map[int]int{http.StatusOK: len(script)})
			s.clean(t)
			if n := s.metric(t, "caddy_llm_cache_websocket_requests_total"); socket && n < float64(len(script)) {
				t.Errorf("%v requests came over a WebSocket", n)
			}
			edited := 0
			for i, turn := range turns {
				if turn.Client != c.id || turn.Outcome != "completed" || turn.Session != turns[0].Session {
					t.Errorf("turn %d: %+v", i, turn)
				}
				if i > 0 && turn.Billed.Read == 0 {
					t.Errorf("answer %d read nothing from the cache: %+v", i, turn)
				}
				if turn.SentTokens < turn.OriginalTokens {
					edited++
				}
			}
			if c.edited && edited == 0 {
				t.Error("eager never made a request smaller")
			}
			last := turns[len(turns)-1]
			t.Logf("%d turns, %d of them made smaller; the last one: %+v", len(turns), edited, last)
		})
	}
}

// user works with a client with its own home, in a folder.
type user struct {
	client
	path, home, dir string
	asked           int
	patience        time.Duration // for the answer to one prompt. Default: 5m
}

// needClient skips the test if the client is missing or could reach more than this machine.
func needClient(t *testing.T, c client) string {
	t.Helper()
	needCaddy(t)
	name, variable := c.executable()
	path := os.Getenv(variable)
	if path == "" {
		lacking(t, name+": set "+variable+" to the path of its executable; .ci/run tells the package")
	}
	if !isolated {
		lacking(t, "a network namespace: "+name+" is only run where it can reach nothing but this machine")
	}
	return path
}

// needNightly skips a client's secondary APIs outside of the nightly run: a task of opencode takes
// a minute of processor time in any API.
func needNightly(t *testing.T, c client) {
	t.Helper()
	if o, ok := c.(opencode); ok && o.provider != "box" && os.Getenv("LLM_CACHE_NIGHTLY") == "" {
		t.Skip("only in the nightly run: set LLM_CACHE_NIGHTLY")
	}
}

func newUser(t *testing.T, c client, dir string) *user {
	t.Helper()
	u := &user{client: c, path: needClient(t, c), home: t.TempDir(), dir: dir}
	t.Cleanup(func() { endLeftBehind(t, u.home) })
	for name, text := range c.files() {
		path := filepath.Join(u.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// The prompts for the clients.
const (
	firstPrompt  = "Look through this repository, find the TODOs and fix the first one in src/a.go."
	secondPrompt = "Now check the diff and fix the second one."
)

// ask runs the client with a prompt, and checks that its last text is that of the last step.
func (u *user) ask(t *testing.T, prompt string, steps []step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), max(u.patience, 5*time.Minute))
	defer cancel()
	cmd := u.start(ctx, prompt)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to %q it said\n%s\n%s", prompt, tail(stdout.Bytes()), tail(stderr.Bytes()))
		}
	})
	if err != nil {
		t.Fatalf("%s: %v", u.path, err)
	}
	said, err := u.last(stdout.Bytes())
	if err != nil {
		t.Fatalf("%s: %v", u.path, err)
	}
	if want := steps[len(steps)-1].Text; said != want {
		t.Errorf("it ended with %q, want %q", said, want)
	}
}

// start returns the command for a prompt.
func (u *user) start(ctx context.Context, prompt string) *exec.Cmd {
	args, env := u.command(u.home, prompt, u.asked > 0)
	u.asked++
	cmd := exec.CommandContext(ctx, u.path, args...)
	cmd.Dir = u.dir
	// npm installs the client's Node.js next to it.
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(u.path) + ":" + os.Getenv("PATH"), "HOME=" + u.home, "TMPDIR=" + u.home, "LANG=C.UTF-8",
		"DO_NOT_TRACK=1",
	}, env...)
	// With a process group its children are killed, too.
	process.Group(cmd)
	return cmd
}

// leave runs the client with a prompt and kills it before the answer, when the context ends.
func (u *user) leave(ctx context.Context, prompt string) { _ = u.start(ctx, prompt).Run() }

// endLeftBehind ends processes that a client leaves running, such as Cline's hub. It returns when
// its home, which is removed next, has no more writers.
func endLeftBehind(t *testing.T, home string) {
	t.Helper()
	mark := []byte("\x00HOME=" + home + "\x00")
	for range 500 {
		left := 0
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range environs {
			environ, err := os.ReadFile(path) // empty for an ended process
			if err != nil || !bytes.Contains(slices.Concat([]byte{0}, environ), mark) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
				left++
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("what runs with HOME=%s does not end", home)
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// eachLine calls do for every non-empty line until an error.
func eachLine(b []byte, do func(line []byte) error) error {
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := do(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
