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

package wrap

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// Each client is a program that says what it was given.
func TestWrap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a script stands in for the clients")
	}
	dir := t.TempDir()
	for _, c := range clients {
		script := "#!/bin/sh\necho \"$ANTHROPIC_BASE_URL|$OPENCODE_CONFIG_CONTENT|$GOOGLE_GEMINI_BASE_URL\"\nfor a in \"$@\"; do echo \"arg $a\"; done\n[ \"$1\" != fail ] || exit 7\n"
		if err := os.WriteFile(filepath.Join(dir, c.program), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("ANTHROPIC_BASE_URL", "")
	start := func(args ...string) (string, error) {
		cmd := Command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		cmd.SetArgs(append([]string{"--url", "http://box:8080/"}, args...))
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for name, want := range map[string]string{
		"claude":   "http://box:8080||\narg -p\narg hi\n",
		"codex":    "arg model_providers.llm_cache.base_url=\"http://box:8080/v1\"\n",
		"opencode": `"google":{"options":{"baseURL":"http://box:8080/v1beta"}}`,
		"gemini":   "||http://box:8080\narg -p\narg hi\n",
	} {
		said, err := start(name, "--", "-p", "hi")
		if err != nil || !strings.Contains(said, want) || !strings.HasSuffix(said, "arg -p\narg hi\n") {
			t.Errorf("%s: %v\n%s", name, err, said)
		}
	}
	if _, err := start("claude", "fail"); err == nil || !strings.Contains(err.Error(), "status 7") {
		t.Errorf("a client that failed: %v", err)
	}
	if _, err := start("emacs"); err == nil || !strings.Contains(err.Error(), "is none of claude") {
		t.Errorf("a client that is none: %v", err)
	}
	if _, err := start("claude", "--url", "box:8080"); err == nil {
		t.Error("no URL passed")
	}
}

// A private instance's configuration is one that Caddy takes.
func TestPrivate(t *testing.T) {
	for _, c := range clients {
		var config caddy.Config
		if err := caddy.StrictUnmarshalJSON(site(c, "127.0.0.1:1"), &config); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
