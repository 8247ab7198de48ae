// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
)

// TestVerdicts: the doctor ends with the way of each client's requests.
func TestVerdicts(t *testing.T) {
	answers := transport(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/llm_cache/data":
			_, _ = io.WriteString(w, `{"today":{"dimensions":[{"key":"client","sums":[{"name":"claude-code","turns":38,`+
				`"billed":{"read":96,"uncached":4}},{"name":"codex","turns":1,"billed":{"uncached":9}}]}]}}`)
		case r.URL.Host == "far.example.com" && r.Method == http.MethodPost:
			w.Header().Set("X-Llm-Cache-Bypass", "unreadable")
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Host != "127.0.0.1:9999":
			_, _ = io.WriteString(w, "{}")
		}
	})
	const (
		one  = "llm_cache\nreverse_proxy https://api.anthropic.com"
		two  = "@openai path /v1/responses*\nhandle @openai {\nllm_cache\nreverse_proxy https://api.openai.com\n}\nhandle {\n" + one + "\n}"
		base = "http://localhost:8080"
	)
	codex := func(base string) map[string]string {
		return map[string]string{".codex/config.toml": "openai_base_url = \"" + base + "\"\n"}
	}
	for name, c := range map[string]struct {
		site, caddyfile string // the site's address (:8080) and directives
		env, files      map[string]string
		want, found     string // the beginning of the first verdict, and a part of the findings
	}{
		"through": {
			caddyfile: one, env: map[string]string{"ANTHROPIC_BASE_URL": base},
			want: "Claude Code → http://localhost:8080 → api.anthropic.com: through llm_cache, 38 requests today, 96 % read from cache",
		},
		"no client": {
			caddyfile: one, want: "no client on this machine goes through any site: set ANTHROPIC_BASE_URL to http://localhost:8080, " +
				"or start the client by caddy llm-cache wrap claude",
		},
		"no client of a public site": {
			site: "llm.example.com", caddyfile: one,
			want: "no client on this machine goes through any site: set ANTHROPIC_BASE_URL to https://llm.example.com, or start the " +
				"client by caddy llm-cache wrap claude",
		},
		"by a public name": {
			site: "llm.example.com", caddyfile: one, env: map[string]string{"ANTHROPIC_BASE_URL": "https://llm.example.com"},
			want: "Claude Code → https://llm.example.com → api.anthropic.com: through llm_cache, 38 requests today, 96 % read from cache",
		},
		"Codex to Anthropic": {
			caddyfile: one, files: codex(base + "/v1"),
			want:  "Codex → http://localhost:8080/v1 → api.anthropic.com: through llm_cache, 1 request today, 0 % read from cache",
			found: "its requests go to api.anthropic.com, which does not speak their format, openai_responses",
		},
		"Codex to both": {
			caddyfile: two, files: codex(base + "/v1"),
			want: "Codex → http://localhost:8080/v1 → api.openai.com: through llm_cache, 1 request today, 0 % read from cache",
		},
		"Codex, translated": {
			caddyfile: "llm_cache {\nupstream anthropic {\nmodel gpt-* claude-sonnet-5\n}\n}\nreverse_proxy https://api.anthropic.com",
			files:     codex(base + "/v1"),
			want:      "Codex → http://localhost:8080/v1 → api.anthropic.com: through llm_cache, 1 request today, 0 % read from cache",
		},
		"Gemini CLI, which has not asked": {
			caddyfile: "llm_cache\nreverse_proxy https://generativelanguage.googleapis.com",
			env:       map[string]string{"GOOGLE_GEMINI_BASE_URL": base},
			want:      "Gemini CLI → http://localhost:8080 → generativelanguage.googleapis.com: through llm_cache, no request today",
		},
		"past it": {
			caddyfile: "handle /direct/* {\nreverse_proxy 10.0.0.1:8081\n}\nhandle {\n" + one + "\n}",
			env:       map[string]string{"ANTHROPIC_BASE_URL": base + "/direct"},
			want:      "Claude Code → http://localhost:8080/direct → 10.0.0.1:8081: past llm_cache",
			found:     "its requests pass llm_cache by on the way to 10.0.0.1:8081",
		},
		"at the upstream": {
			caddyfile: "llm_cache\nreverse_proxy 127.0.0.1:8081", env: map[string]string{"ANTHROPIC_BASE_URL": "http://localhost:8081"},
			want:  "no client on this machine goes through any site: set ANTHROPIC_BASE_URL to http://localhost:8080",
			found: "is http://localhost:8081, the upstream itself: requests pass llm_cache by. Write http://localhost:8080.",
		},
		"on another machine": {
			caddyfile: one, env: map[string]string{"ANTHROPIC_BASE_URL": "https://far.example.com"},
			want: "Claude Code → https://far.example.com: through llm_cache",
		},
		"on another machine without it": {
			caddyfile: one, env: map[string]string{"ANTHROPIC_BASE_URL": "https://other.example.com"},
			want: "Claude Code → https://other.example.com: past llm_cache",
		},
		"an upstream that answers nothing": {
			caddyfile: "llm_cache\nreverse_proxy 127.0.0.1:9999", env: map[string]string{"ANTHROPIC_BASE_URL": base},
			want:  "Claude Code → http://localhost:8080 → 127.0.0.1:9999: through llm_cache",
			found: "127.0.0.1:9999 answers 200 with nothing",
		},
		"settings of the project": {
			caddyfile: one, env: map[string]string{"ANTHROPIC_BASE_URL": base},
			files: map[string]string{"project/.claude/settings.local.json": `{"env":{"ANTHROPIC_BASE_URL":"https://api.anthropic.com"}}`},
			want:  "no client on this machine",
			found: "settings.local.json says ANTHROPIC_BASE_URL=https://api.anthropic.com, which goes before http://localhost:8080",
		},
	} {
		t.Run(name, func(t *testing.T) {
			site := c.site
			if site == "" {
				site = ":8080"
			}
			home := t.TempDir()
			p := cli.Patient{
				Getenv: func(name string) string { return c.env[name] }, Home: home, Dir: filepath.Join(home, "project"),
				Transport: answers,
			}
			for name, text := range c.files {
				path := filepath.Join(p.Home, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(p.Home, "Caddyfile")
			if err := os.WriteFile(path, []byte(site+" {\n"+c.caddyfile+"\n}\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.LoadConfig(path); err != nil {
				t.Fatal(err)
			}
			x := cli.Examine(t.Context(), p)
			if !strings.HasPrefix(x.Verdicts[0], c.want) {
				t.Errorf("got %q, want %q", x.Verdicts, c.want)
			}
			var found strings.Builder
			for _, f := range x.Findings {
				found.WriteString(f.What + "\n")
			}
			if c.found == "" && found.Len() > 0 || !strings.Contains(found.String(), c.found) {
				t.Errorf("got %q, want %q", found.String(), c.found)
			}
		})
	}
}

// transport answers requests in place of the network.
type transport http.HandlerFunc

func (h transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}
