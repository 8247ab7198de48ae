// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// Both commands of the documents and every configuration work.
func TestDocuments(t *testing.T) {
	needCaddy(t)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{firstCommand, "go test ./..."} {
		if !bytes.Contains(readme, []byte(command)) {
			t.Errorf("README.md does not mention %q", command)
		}
	}
	block := regexp.MustCompile("(?s)```caddyfile\n(.*?)```")
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatch(text, -1) {
			adapts(t, name, string(m[1]))
		}
	}
}

// Every command of llm_cache in a document exists, with each flag that the document shows.
func TestCommands(t *testing.T) {
	needCaddy(t)
	var documents []string
	for _, pattern := range []string{"../../*.md", "../../docs/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, names...)
	}
	help := map[string]string{} // by command
	flag := regexp.MustCompile(`--([a-z][a-z-]*)`)
	mentioned := regexp.MustCompile("caddy llm-cache ([a-z]+)([^\n`|]*)")
	first := regexp.MustCompile(`^ [a-z]+\b`)
	helpOf := func(command, document string) {
		if _, known := help[command]; known {
			return
		}
		out, err := exec.Command(binary, append(append([]string{"llm-cache"}, strings.Fields(command)...),
			"--help")...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: llm-cache %s: %v", document, command, err)
		}
		// For an unknown command Caddy shows the help of its parent.
		if !strings.Contains(string(out), "llm-cache "+command) {
			t.Errorf("%s mentions llm-cache %s, which there is not", document, command)
		}
		help[command] = string(out)
	}
	checked := 0
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mentioned.FindAllStringSubmatch(string(text), -1) {
			command, shown := m[1], m[2]
			helpOf(command, name)
			// a command below it
			if word := first.FindString(shown); word != "" && strings.Contains(help[command], "\n "+word+" ") {
				command += word
				helpOf(command, name)
			}
			shown, _, _ = strings.Cut(shown, " -- ") // the rest belongs to a client
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

// adapts checks that Caddy accepts a configuration, or a part of a site or of the global options.
func adapts(t *testing.T, document, config string) {
	t.Helper()
	var said []byte
	for _, frame := range [][2]string{{"", ""}, {"localhost {\n", "\n}\n"}, {"{\n", "\n}\n"}} {
		file := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(file, []byte(frame[0]+config+frame[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := exec.Command(binary, "adapt", "--adapter", "caddyfile", "--config", file).CombinedOutput()
		if err == nil {
			return
		}
		said = append(said, b...)
	}
	t.Errorf("%s: Caddy does not understand\n%s\nand says\n%s", document, config, said)
}

// notHere lists the commands of the documents that do not run here, by prefix, with the reason.
var notHere = []struct{ begins, why string }{
	{"go run ./cmd/caddy run", "TestFirstCommand"},
	{"go test", "CI's own steps, and measurements"},
	{"go -C test run ./bench", "measurements"},
	{"go -C test test", "measurements"},
	{"go -C test run ./lab/record", "fetches from public repositories"},
	{"go -C test run ./lab", "measurements"},
	{"go build", "CI's own steps"},
	{"LLM_CACHE_TRACES=", "measurements"},
	{"LLM_CACHE_LINGUA=", "measurements"},
	{"LLM_CACHE_CADDY=", "CI's own steps"},
	{"ANTHROPIC_BASE_URL=", "the tests of clients"},
	{"go -C test run ./lab/record", "fetches from public repositories"},
	{"xcaddy build", "CI's own steps"},
	{"sudo", "changes the machine"},
	{"docker", "needs a registry of images"},
	{"./caddy run", "runs until it is ended; the sandbox does the same"},
	{"caddy llm-cache dashboard", "runs until it is ended; TestPage does the same"},
	{"LLM_CACHE_KEY=… caddy llm-cache smoketest", "needs a model that does what it is told; tested in smoketest"},
	{"caddy llm-cache lingua", "needs a model; tested in lingua and compressor"},
	{`caddy llm-cache replay --options '{"compress"`, "needs a model"},
	{"curl -s https://llm.example.com", "needs a box"},
	{"curl -si http://localhost:4000/v1/messages …", "is shortened"},
}

// Every command of README and docs works: it runs in a folder with a Caddyfile, before a running
// Caddy, with conversations of each agent on disk, and exits with 0. A new command in the documents
// has to run here, or be listed above.
func TestCommandsRun(t *testing.T) {
	needCaddy(t)
	if !isolated {
		lacking(t, "a network namespace: the documents use fixed ports")
	}
	dir := sandbox(t)
	ran := 0
	for _, d := range documents(t) {
		for _, command := range commandsOf(t, d) {
			if why(command) != "" {
				continue
			}
			ran++
			shell(t, dir, filepath.Base(d), command)
		}
	}
	if ran < 20 {
		t.Errorf("only %d commands were found in the documents", ran)
	}
}

func documents(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"../../README.md"}, names...)
}

func why(command string) string {
	for _, e := range notHere {
		if strings.HasPrefix(command, e.begins) {
			return e.why
		}
	}
	return ""
}

var begins = regexp.MustCompile(`^    ((?:[A-Z_]+=\S+ )*(?:\./)?(?:caddy|curl|go|xcaddy|sudo|docker) \S.*)$`)

// commandsOf returns the commands of a document's indented blocks, each on one line.
func commandsOf(t *testing.T, name string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		m := begins.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		command := m[1]
		for strings.HasSuffix(command, "\\") || strings.Count(command, "'")%2 == 1 {
			i++
			command = strings.TrimSuffix(command, "\\") + " " + strings.TrimSpace(lines[i])
		}
		command, _, _ = strings.Cut(command, "   # ")
		commands = append(commands, strings.TrimSpace(command))
	}
	return commands
}

// sandbox returns a folder with all that the documents' commands need.
func sandbox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, client := range []string{"claude", "codex", "gemini"} {
		write("bin/"+client, "#!/bin/sh\nexit 0\n", 0o700)
	}
	write("docs/images/.keep", "", 0o600)
	// Tables of prices, as LiteLLM and models.dev publish them.
	write("model_prices_and_context_window.json",
		`{"gpt-6.9-sol": {"litellm_provider": "openai", "mode": "responses", "input_cost_per_token": 2e-06, `+
			`"output_cost_per_token": 1e-05}}`, 0o600)
	write("api.json", `{"google": {"models": {"gemini-9-neon": {"cost": {"input": 1, "output": 4}}}}}`, 0o600)
	if err := os.Symlink(binary, filepath.Join(dir, "bin/caddy")); err != nil {
		t.Fatal(err)
	}
	// The agents' transcripts, in their folders.
	for from, to := range map[string]string{
		"claude-code": ".claude", "codex": ".codex", "gemini-cli": ".gemini",
		"pi": ".pi/agent",
	} {
		if err := os.CopyFS(filepath.Join(dir, to), os.DirFS("../../internal/cli/transcript/testdata/"+from)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := caddy.Start(ctx, binary, dir, "localhost:2019", `{
	llm_cache {
		audit
	}
}
http://localhost:4000, http://localhost:8080 {
	bind 127.0.0.1
	llm_cache {
		policy observe
	}
	reverse_proxy 127.0.0.1:4001
}
http://:4001 {
	bind 127.0.0.1
	llm_cache_simulator
}
`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	body := `{"model":"claude-sonnet-4-5","max_tokens":64,"messages":[{"role":"user","content":"hello"}]}`
	resp, err := http.Post("http://localhost:4000/v1/messages", "application/json",
		strings.NewReader(body)) //nolint:noctx // as short as it is
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Llm-Cache") == "" ||
		resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("the sandbox answers %s, %v", resp.Status, resp.Header)
	}
	time.Sleep(2 * time.Second) // until the turn is recorded
	shell(t, dir, "sandbox", "caddy llm-cache import --out traces")
	return dir
}

// shell runs a command of a document.
func shell(t *testing.T, dir, document, command string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "traces", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, named := range [][2]string{
		{"<folder of recorded conversations>", "traces"},
		{"<folder>", "traces"},
		{"<traces>", "traces"},
		{"<path>...", "traces"},
		{"<the files of one conversation>", strings.Join(files[:min(len(files), 1)], " ")},
		{"http://127.0.0.1:4000/v1", "http://localhost:4000/v1"},
		{"https://llm.example.com", "http://localhost:4000"},
	} {
		command = strings.ReplaceAll(command, named[0], named[1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	// ./caddy would collide with Caddy's data folder; the sources are elsewhere.
	command = strings.TrimPrefix(strings.TrimPrefix(command, "go run ./cmd/"), "./")
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir,
		"XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "OPENAI_API_KEY=none", "NO_COLOR=1",
	}
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %s: %v\n%s", document, command, err, out)
	}
	t.Logf("%s: %s: %.1f s", document, command, time.Since(start).Seconds())
}
