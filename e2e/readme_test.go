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
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/e2e/internal/caddy"
)

// firstCommand is what the README tells a newcomer to type.
const firstCommand = "go run ./cmd/caddy run --config Caddyfile.example"

// The first command of the README starts a Caddy that answers both formats
// without a model anywhere, says what it did, and logs no key.
func TestFirstCommand(t *testing.T) {
	needCaddy(t)
	if !isolated {
		lacking(t, "a network namespace: Caddyfile.example uses fixed ports")
	}
	const key = "sk-not-to-be-logged"
	dir, words := t.TempDir(), strings.Fields(firstCommand)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = ".."
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LLM_UPSTREAM=") }),
		"XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, err := caddy.Run(ctx, cmd, "localhost:2019", filepath.Join(dir, "caddy.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		b, err := os.ReadFile(p.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(key)) {
			t.Error("the log holds a key")
		}
	}()

	const (
		messages = `{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"hello"}]`
		chat     = `{"model":"gpt-5.4","messages":[{"role":"user","content":"hello"}]`
	)
	for _, c := range []struct{ path, body, end string }{
		{"/v1/messages", messages + `}`, `"stop_reason":"end_turn"`},
		{"/v1/messages", messages + `,"stream":true}`, `"type":"message_stop"`},
		{"/v1/chat/completions", chat + `}`, `"finish_reason":"stop"`},
		{"/v1/chat/completions", chat + `,"stream":true}`, "[DONE]"},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:4000"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("X-Goog-Api-Key", key)
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(c.end)) {
			t.Errorf("%s %s: %s, %v, %s", c.path, c.body, resp.Status, err, b)
		}
		for _, h := range []string{"Session", "Policy", "Original-Tokens", "Sent-Tokens", "Saved-Tokens", "Reduction-Pct", "Transforms", "Overhead-Us"} {
			if resp.Header.Get("X-Llm-Cache-"+h) == "" {
				t.Errorf("%s: no header X-Llm-Cache-%s in %v", c.path, h, resp.Header)
			}
		}
	}
	for _, port := range []string{"4000", "4001", "4002"} {
		// Another loopback address is as good as another machine.
		if c, err := net.DialTimeout("tcp", "127.0.0.2:"+port, time.Second); err == nil {
			c.Close()
			t.Errorf("port %s listens beyond 127.0.0.1", port)
		}
	}
	s := &stack{Process: p}
	sessions, err := s.sessions(ctx)
	if err != nil || len(sessions) == 0 {
		t.Errorf("%d sessions, %v", len(sessions), err)
	}
}

// What the documents say can be typed and followed: both commands, every
// configuration, every link to a file.
func TestDocuments(t *testing.T) {
	needCaddy(t)
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{firstCommand, "go test ./..."} {
		if !bytes.Contains(readme, []byte(command)) {
			t.Errorf("README.md does not mention %q", command)
		}
	}
	documents, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var (
		block = regexp.MustCompile("(?s)```caddyfile\\n(.*?)```")
		link  = regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
	)
	for _, name := range append(documents, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatch(text, -1) {
			adapts(t, name, string(m[1]))
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), string(m[1]))); err != nil {
				t.Errorf("%s: link: %v", name, err)
			}
		}
	}
}

// Every command of llm_cache that a document mentions is there, with each of the flags
// it is shown with.
func TestCommands(t *testing.T) {
	needCaddy(t)
	var documents []string
	for _, pattern := range []string{"../*.md", "../docs/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, names...)
	}
	help := map[string]string{} // by command
	flag := regexp.MustCompile(`--([a-z][a-z-]*)`)
	mentioned := regexp.MustCompile("caddy llm-cache ([a-z]+)([^\n`|]*)")
	checked := 0
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mentioned.FindAllStringSubmatch(string(text), -1) {
			command, shown := m[1], m[2]
			if _, known := help[command]; !known {
				out, err := exec.Command(binary, "llm-cache", command, "--help").CombinedOutput()
				if err != nil {
					t.Errorf("%s: llm-cache %s: %v", name, command, err)
				}
				// Of an unknown command Caddy shows the help of the one above.
				if !strings.Contains(string(out), "llm-cache "+command) {
					t.Errorf("%s mentions llm-cache %s, which there is not", name, command)
				}
				help[command] = string(out)
			}
			shown, _, _ = strings.Cut(shown, " -- ") // the rest is a client's
			for _, f := range flag.FindAllStringSubmatch(shown, -1) {
				checked++
				if !strings.Contains(help[command], "--"+f[1]) {
					t.Errorf("%s: llm-cache %s has no flag --%s", name, command, f[1])
				}
			}
		}
	}
	if len(help) < 8 || checked < 20 {
		t.Errorf("only %d commands with %d flags were found in the documents", len(help), checked)
	}
}

// The README is read to its end.
func TestReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 150 {
		t.Errorf("README.md has %d lines, 150 are enough", n)
	}
}

// adapts checks that Caddy understands a configuration, or the part of one that
// stands in a site or in the global options.
func adapts(t *testing.T, document, config string) {
	t.Helper()
	var said []byte
	for _, frame := range [][2]string{{"", ""}, {"localhost {\n", "\n}\n"}, {"{\n", "\n}\n"}} {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(file, []byte(frame[0]+config+frame[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, "adapt", "--adapter", "caddyfile", "--config", file)
		cmd.Env = append(os.Environ(), "KEY_ANNA=of-anna", "KEY_BEN=of-ben") // of docs/mlx-box.md
		b, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		said = append(said, b...)
	}
	t.Errorf("%s: Caddy does not understand\n%s\nand says\n%s", document, config, said)
}
