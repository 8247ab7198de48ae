// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Each client is a program that prints its arguments and environment.
func TestWrap(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a script stands in for the clients")
	}
	dir := t.TempDir()
	for _, c := range clients {
		script := "#!/bin/sh\necho \"$ANTHROPIC_BASE_URL|$OPENCODE_CONFIG_CONTENT|$GOOGLE_GEMINI_BASE_URL\"\nfor a in " +
			"\"$@\"; do echo \"arg $a\"; done\n[ \"$1\" != fail ] || exit 7\n[ \"$1\" != die ] || kill -TERM $$\n"
		if err := os.WriteFile(filepath.Join(dir, c.name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("HOME", dir)
	t.Setenv("ANTHROPIC_BASE_URL", "")
	site := httptest.NewServer(http.NotFoundHandler())
	defer site.Close()
	start := func(args ...string) (string, error) {
		cmd := WrapCommand()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	for name, want := range map[string]string{
		"claude":   site.URL + "||\narg -p\narg --url\narg --help\n",
		"codex":    "arg model_providers.llm_cache.base_url=\"" + site.URL + "/v1\"\n",
		"opencode": `"google":{"options":{"baseURL":"` + site.URL + `/v1beta"}}`,
		"gemini":   "||" + site.URL + "\narg -p\narg --url\narg --help\n",
	} {
		// The client's own flags may have the names of wrap's.
		for _, args := range [][]string{
			{name, "-p", "--url", "--help"},
			{name, "--", "-p", "--url", "--help"},
			{"--", name, "-p", "--url", "--help"},
		} {
			said, err := start(append([]string{"--url", site.URL + "/"}, args...)...)
			if err != nil || !strings.Contains(said, want) || !strings.HasSuffix(said, "arg -p\narg --url\narg --help\n") {
				t.Errorf("%q: %v, got\n%swant %q", args, err, said, want)
			}
		}
	}
	// Caddy's main function turns this error into the exit status.
	if _, err := start("--url", site.URL, "claude", "fail"); err == nil || !strings.Contains(err.Error(), "status 7") {
		t.Errorf("a client that failed: got %v, want its status 7", err)
	}
	if _, err := start("--url", site.URL, "claude", "die"); err == nil || !strings.Contains(err.Error(), "status 143") {
		t.Errorf("a client that ended by SIGTERM: got %v, want the status 143", err)
	}
	if said, err := start("--url", site.URL+"/v1", filepath.Join(dir, "claude"), "-p"); err != nil ||
		said != site.URL+"||\narg -p\n" {
		t.Errorf("a path and an address with /v1: %v, got %q", err, said)
	}
	site.Close()
	if _, err := start("--url", site.URL, "claude"); err == nil || !strings.Contains(err.Error(), "nothing answers at "+site.URL) {
		t.Errorf("a site that is down: got %v, want an error that names it", err)
	}
	if _, err := start("emacs"); err == nil || !strings.Contains(err.Error(), "must be one of claude") {
		t.Errorf("a client that is none: %v", err)
	}
	for _, bad := range []string{"box:8080", "ftp://box", "http://"} {
		if _, err := start("--url", bad, "claude"); err == nil || !strings.Contains(err.Error(), "is no URL") {
			t.Errorf("--url %s: got %v, want an error", bad, err)
		}
	}
}

// A client must not go on without the instance that it was told to use.
func TestWrapSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals")
	}
	started := filepath.Join(t.TempDir(), "started")
	child := exec.Command("/bin/sh", "-c", "trap 'exit 9' TERM; touch "+started+"; while :; do sleep 0.01; done")
	ended := make(chan error, 1)
	go func() { ended <- runChild(child) }()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](<-ended); !ok || exit.ExitCode() != 9 {
		t.Errorf("got %v, want the status 9 of the client's own handler", exit)
	}
}

func TestBypassProxy(t *testing.T) {
	for name, c := range map[string]struct {
		base string
		env  []string
		want string
	}{
		"proxy":              {"http://127.0.0.1:1/v1", []string{"HTTP_PROXY=http://p"}, "127.0.0.1"},
		"with exceptions":    {"http://localhost:1", []string{"http_proxy=http://p", "NO_PROXY=a,b"}, "a,b,localhost"},
		"lower case":         {"http://localhost:1", []string{"all_proxy=http://p", "no_proxy=c", "NO_PROXY=a"}, "c,localhost"},
		"no proxy":           {"http://127.0.0.1:1", []string{"NO_PROXY=a"}, "a"},
		"a site of the team": {"https://llm.example.com", []string{"HTTP_PROXY=http://p", "NO_PROXY=a"}, "a"},
	} {
		l := &launch{env: c.env}
		l.bypassProxy(c.base)
		if got := l.getenv("NO_PROXY"); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The table lists the places for a client's base URL, the one that wrap finds, and the client's
// configuration for http://to instead.
func TestBaseURL(t *testing.T) {
	const custom = "model_provider = \"gw\"\nopenai_base_url = \"http://no/v1\"\n[model_providers.gw]\nbase_url = " +
		"\"http://gw/v1\"\nenv_key = \"GW\"\n[profiles.x]\nmodel_provider = \"other\"\n"
	added := []string{
		"-c", `model_provider="llm_cache"`, "-c", `model_providers.llm_cache.name="llm_cache"`, "-c",
		`model_providers.llm_cache.base_url="http://to"`,
		"-c", `model_providers.llm_cache.wire_api="responses"`, "-c", `model_providers.llm_cache.env_key="OPENAI_API_KEY"`,
	}
	moved := []string{"-c", `model_providers.gw.base_url="http://to"`}
	for name, c := range map[string]struct {
		client    string
		env       []string
		files     map[string]string
		args      []string
		base      string
		wantArgs  []string
		wantEnv   map[string]string
		elsewhere string
	}{
		"claude, none": {client: "claude", wantEnv: map[string]string{anthropicBase: "http://to"}},
		"claude, environment": {
			client: "claude", env: []string{anthropicBase + "=http://gw"}, base: "http://gw",
			wantEnv: map[string]string{anthropicBase: "http://to"},
		},
		"claude, settings": {
			client: "claude", env: []string{anthropicBase + "=http://no"}, args: []string{"-p", "hi"},
			files:    map[string]string{".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"http://gw/x"}}`},
			base:     "http://gw/x",
			wantArgs: []string{"--settings", `{"env":{"ANTHROPIC_BASE_URL":"http://to"}}`, "-p", "hi"},
		},
		"claude, settings elsewhere": {
			client: "claude", env: []string{"CLAUDE_CONFIG_DIR=HOME/c"},
			files: map[string]string{"c/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"http://gw"}}`}, base: "http://gw",
			wantArgs: []string{"--settings", `{"env":{"ANTHROPIC_BASE_URL":"http://to"}}`},
		},
		"claude, settings of the project": {
			client: "claude", base: "http://gw", files: map[string]string{
				".claude/settings.json":            `{"env":{"ANTHROPIC_BASE_URL":"http://no"}}`,
				"work/.claude/settings.local.json": `{"env":{"ANTHROPIC_BASE_URL":"http://gw"}}`,
			},
			wantArgs: []string{"--settings", `{"env":{"ANTHROPIC_BASE_URL":"http://to"}}`},
		},
		"claude, settings on the command line": {
			client: "claude", args: []string{
				"--settings", `{"env":{"A":"b","ANTHROPIC_BASE_URL":"http://gw"},"model":"m"}`,
				"x",
			}, base: "http://gw",
			wantArgs: []string{"--settings", `{"env":{"A":"b","ANTHROPIC_BASE_URL":"http://to"},"model":"m"}`, "x"},
		},
		"claude, settings in a file of the command line": {
			client: "claude", args: []string{"--settings=HOME/s.json"},
			files: map[string]string{"s.json": `{"env":{"ANTHROPIC_BASE_URL":"http://gw"}}`}, base: "http://gw",
			wantArgs: []string{`--settings={"env":{"ANTHROPIC_BASE_URL":"http://to"}}`},
		},
		"claude, damaged settings": {
			client: "claude", files: map[string]string{".claude/settings.json": `{`},
			wantEnv: map[string]string{anthropicBase: "http://to"},
		},
		"claude on Bedrock": {
			client: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=1"},
			elsewhere: "CLAUDE_CODE_USE_BEDROCK",
		},
		"claude not on Vertex": {
			client: "claude", env: []string{"CLAUDE_CODE_USE_VERTEX=0"},
			wantEnv: map[string]string{anthropicBase: "http://to"},
		},
		"claude on AWS by managed settings": {
			client: "claude", files: map[string]string{"managed.json": `{"env":{"CLAUDE_CODE_USE_ANTHROPIC_AWS":"true"}}`},
			elsewhere: "CLAUDE_CODE_USE_ANTHROPIC_AWS",
		},
		"claude not on Bedrock": {
			client: "claude", env: []string{"CLAUDE_CODE_USE_BEDROCK=False"},
			wantEnv: map[string]string{anthropicBase: "http://to"},
		},
		"claude, settings twice on the command line": {
			client: "claude", args: []string{"--settings", `{"env":{"ANTHROPIC_BASE_URL":"http://no"}}`, `--settings={"env":{"ANTHROPIC_BASE_URL":"http://gw"}}`},
			base: "http://gw",
			wantArgs: []string{
				"--settings", `{"env":{"ANTHROPIC_BASE_URL":"http://no"}}`,
				`--settings={"env":{"ANTHROPIC_BASE_URL":"http://to"}}`,
			},
		},
		"codex, none": {
			client: "codex", args: []string{"exec", "x"},
			wantArgs: append(slices.Clone(added), "exec", "x"),
		},
		"codex, environment": {
			client: "codex", env: []string{"OPENAI_BASE_URL=http://gw/v1"}, base: "http://gw/v1",
			wantArgs: added,
		},
		"codex, settings": {
			client: "codex",
			files:  map[string]string{".codex/config.toml": "openai_base_url = 'http://gw/v1'\n"}, base: "http://gw/v1",
			wantArgs: added,
		},
		"codex, a provider of its own": {
			client: "codex", files: map[string]string{".codex/config.toml": custom}, base: "http://gw/v1", wantArgs: moved,
		},
		"codex, a provider on the command line": {
			client: "codex", args: []string{
				"-c", "model_provider=gw", "--config", `model_providers.gw.base_url="http://gw/2"`,
				"exec",
			}, base: "http://gw/2",
			wantArgs: append(slices.Clone(moved), "-c", "model_provider=gw", "exec"),
		},
		"codex, an address on the command line": {
			client: "codex", args: []string{"-c", `openai_base_url="http://gw/v1"`, "-m", "x"}, base: "http://gw/v1",
			wantArgs: append(slices.Clone(added), "-m", "x"),
		},
		"codex, joined options": {
			client: "codex", args: []string{"--config=model_provider = gw", `-cmodel_providers.gw.base_url="http://gw/2"`, "exec"},
			base: "http://gw/2", wantArgs: append(slices.Clone(moved), "--config=model_provider = gw", "exec"),
		},
		"codex, a joined address": {
			client: "codex", args: []string{`--config=openai_base_url="http://gw/v1"`, "exec", "--", "-c", "openai_base_url=x"},
			base: "http://gw/v1", wantArgs: append(slices.Clone(added), "exec", "--", "-c", "openai_base_url=x"),
		},
		"codex, a table on the command line": {
			client: "codex", args: []string{
				"-c", "model_provider=gw", "-c", `model_providers.gw={name="g",base_url="http://gw/2"}`, "exec",
			},
			base: "http://gw/2",
			wantArgs: append(append(slices.Clone(moved), "-c", "model_provider=gw", "-c",
				`model_providers.gw={name="g",base_url="http://gw/2"}`), append(slices.Clone(moved), "exec")...),
		},
		"codex, dotted names": {
			client: "codex", base: "http://gw/v1", wantArgs: moved,
			files: map[string]string{".codex/config.toml": "model_provider = 'gw' # ours\nmodel_providers.gw.base_url = 'http://gw/v1'\n"},
		},
		"codex, a table in a line": {
			client: "codex", base: "http://gw/v1", wantArgs: moved,
			files: map[string]string{".codex/config.toml": "model_provider = \"gw\"\ninstructions = \"\"\"\nmodel_provider = " +
				"\"no\"\n\"\"\"\nmodel_providers = { gw = { base_url = \"http://gw/v1\" } }\n"},
		},
		"codex, a provider without an address": {
			client: "codex", wantArgs: moved,
			files: map[string]string{".codex/config.toml": "model_provider = \"gw\"\n[model_providers.gw]\nenv_key = \"GW\"\n"},
		},
		"codex, a profile": {
			client: "codex", args: []string{"-pwork", "exec"}, base: "http://gw/p", files: map[string]string{
				".codex/config.toml": "model_provider = \"a\"\n[model_providers.a]\nbase_url = \"http://no\"\n" +
					"[model_providers.gw]\nbase_url = \"http://gw/p\"\n",
				".codex/work.config.toml": "model_provider = \"gw\"\n",
			},
			wantArgs: append(slices.Clone(moved), "-pwork", "exec"),
		},
		"codex, a prompt like an option": {
			client: "codex", args: []string{"exec", "--", "-p", "x"}, files: map[string]string{".codex/config.toml": custom},
			base: "http://gw/v1", wantArgs: append(slices.Clone(moved), "exec", "--", "-p", "x"),
		},
		"codex with a model of this machine": {client: "codex", args: []string{"--oss"}, elsewhere: "--oss"},
		"codex with a provider of Codex": {
			client: "codex", files: map[string]string{".codex/config.toml": "model_provider = \"lmstudio\"\n"},
			elsewhere: "its model_provider is lmstudio",
		},
		"opencode, none": {
			client:  "opencode",
			wantEnv: map[string]string{opencodeContent: `{"provider":{"anthropic":{"options":{"baseURL":"http://to"}}}}`},
		},
		"opencode, settings": {
			client: "opencode",
			files:  map[string]string{".config/opencode/opencode.json": `{"provider":{"anthropic":{"options":{"baseURL":"http://gw/v1"}}}}`}, base: "http://gw/v1",
			wantEnv: map[string]string{opencodeContent: `{"provider":{"anthropic":{"options":{"baseURL":"http://to"}}}}`},
		},
		"opencode, environment": {
			client: "opencode", env: []string{opencodeContent +
				`={"model":"m","provider":{"anthropic":{"options":{"apiKey":"k","baseURL":"http://gw"}}}}`}, base: "http://gw",
			wantEnv: map[string]string{opencodeContent: `{"model":"m","provider":{"anthropic":{"options":{"apiKey":"k",` +
				`"baseURL":"http://to"}}}}`},
		},
		"opencode, comments and variables": {
			client: "opencode", env: []string{"GW=http://gw/v1"}, files: map[string]string{
				"work/opencode.jsonc": "{ // \"ours\"\n\"provider\": {\"anthropic\": {\"options\": {\"baseURL\": \"{env:GW}\",},},},\n/* end */}",
			},
			base:    "http://gw/v1",
			wantEnv: map[string]string{opencodeContent: `{"provider":{"anthropic":{"options":{"baseURL":"http://to"}}}}`},
		},
		"opencode, settings above the working folder": {
			client: "opencode", env: []string{"XDG_CONFIG_HOME=HOME/x"}, files: map[string]string{
				"opencode.json":            `{"provider":{"anthropic":{"options":{"baseURL":"http://gw/v1"}}}}`,
				"x/opencode/opencode.json": `{"provider":{"anthropic":{"options":{"baseURL":"http://no/v1"}}}}`,
			},
			base:    "http://gw/v1",
			wantEnv: map[string]string{opencodeContent: `{"provider":{"anthropic":{"options":{"baseURL":"http://to"}}}}`},
		},
		"gemini, none": {client: "gemini", wantEnv: map[string]string{geminiVariable: "http://to"}},
		"gemini, environment": {
			client: "gemini", env: []string{geminiVariable + "=http://gw"}, base: "http://gw",
			wantEnv: map[string]string{geminiVariable: "http://to"},
		},
		"gemini, .env": {
			client: "gemini", files: map[string]string{".gemini/.env": "A=b\nexport GOOGLE_GEMINI_BASE_URL=\"http://gw\"\n"},
			base:    "http://gw",
			wantEnv: map[string]string{geminiVariable: "http://to"},
		},
		"gemini, .env of the project": {
			client: "gemini", files: map[string]string{".env": "GOOGLE_GEMINI_BASE_URL=http://gw", "work/.env": "A=b"},
			wantEnv: map[string]string{geminiVariable: "http://to"},
		},
		"gemini, .env with comments": {
			client: "gemini", files: map[string]string{".env": "# A=b\nGOOGLE_GEMINI_BASE_URL = \"http://gw\" # ours\nB='#'\n"},
			base:    "http://gw",
			wantEnv: map[string]string{geminiVariable: "http://to"},
		},
		"gemini with a login by the environment": {
			client: "gemini", env: []string{"GOOGLE_GENAI_USE_GCA=true"}, elsewhere: "GOOGLE_GENAI_USE_GCA",
		},
		"gemini with a login in settings with comments": {
			client: "gemini", files: map[string]string{".gemini/settings.json": "{\n// \"key\"\n\"security\":{\"auth\":{\"selectedType\":\"oauth-personal\",}}}"},
			elsewhere: "oauth-personal",
		},
		"opencode, a joined model": {client: "opencode", args: []string{"--model=ollama/x"}, elsewhere: "its model is ollama/x"},
		"gemini on Vertex": {
			client: "gemini", env: []string{"GOOGLE_GENAI_USE_VERTEXAI=true"},
			elsewhere: "GOOGLE_GENAI_USE_VERTEXAI",
		},
		"gemini with a login": {
			client: "gemini", files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"oauth-personal"}}}`},
			elsewhere: `settings.json is "oauth-personal": write "gemini-api-key"`,
		},
		"gemini with a key": {
			client:  "gemini",
			files:   map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`},
			wantEnv: map[string]string{geminiVariable: "http://to"},
		},
		"claude, managed settings": {
			client: "claude", files: map[string]string{"managed.json": `{"env":{"ANTHROPIC_BASE_URL":"http://gw"}}`},
			elsewhere: "managed.json sets ANTHROPIC_BASE_URL to http://gw",
		},
		"codex, a profile with a provider": {
			client: "codex", args: []string{"--profile", "x", "exec"}, files: map[string]string{".codex/config.toml": custom},
			elsewhere: `the profile x has model_provider = "other"`,
		},
		"opencode, another provider": {
			client: "opencode", args: []string{"run", "-m", "openrouter/qwen"},
			elsewhere: "its model is openrouter/qwen",
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			fill := func(list []string) []string {
				out := make([]string, 0, len(list))
				for _, s := range list {
					out = append(out, strings.ReplaceAll(s, "HOME", home))
				}
				return out
			}
			for file, text := range c.files {
				path := filepath.Join(home, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l := &launch{
				args: fill(c.args), env: fill(c.env), home: home, dir: filepath.Join(home, "work"),
				managed: filepath.Join(home, "managed.json"),
			}
			of := clients[slices.IndexFunc(clients, func(of client) bool { return of.name == c.client })]
			if got := of.elsewhere(l, false); (got != "") != (c.elsewhere != "") || !strings.Contains(got, c.elsewhere) {
				t.Errorf("elsewhere: got %q, want %q", got, c.elsewhere)
			}
			if c.elsewhere != "" {
				if _, err := aim(t.Context(), of, l, ""); err == nil || !strings.Contains(err.Error(), c.elsewhere) {
					t.Errorf("got %v, want an error that names %s", err, c.elsewhere)
				}
				return
			}
			if got := of.base(l); got != c.base {
				t.Errorf("base URL: got %q, want %q", got, c.base)
			}
			of.set(l, target{base: "http://to"})
			if !slices.Equal(l.args, c.wantArgs) {
				t.Errorf("arguments: got %q, want %q", l.args, c.wantArgs)
			}
			for name, want := range c.wantEnv {
				if got := l.getenv(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
		})
	}
}

// Claude Code is configured for Anthropic's own API only if it is the upstream, and never against
// existing settings.
func TestFirstParty(t *testing.T) {
	const assume, search = "_CLAUDE_CODE_ASSUME_FIRST_PARTY_BASE_URL", "ENABLE_TOOL_SEARCH"
	for name, c := range map[string]struct {
		env      []string
		official bool
		want     map[string]string
	}{
		"official": {official: true, want: map[string]string{assume: "1", search: "true"}},
		"gateway":  {want: map[string]string{assume: "", search: ""}},
		"set": {
			env: []string{assume + "=0", search + "=auto"}, official: true,
			want: map[string]string{assume: "0", search: "auto"},
		},
		"one set": {env: []string{search + "=false"}, official: true, want: map[string]string{assume: "1", search: "false"}},
	} {
		l := &launch{env: c.env, home: t.TempDir(), dir: t.TempDir()}
		setClaude(l, target{base: "http://to", official: c.official})
		got := map[string]string{assume: l.getenv(assume), search: l.getenv(search)}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestSaved(t *testing.T) {
	for want, c := range map[string]struct {
		requests, failed int
		cost             sessioncache.CostSummary
	}{
		"llm_cache: no request of the client came through. caddy llm-cache doctor looks for the reason.": {},
		"llm_cache: the only request that came through has failed":                                       {failed: 1},
		"llm_cache: all 3 requests that came through have failed":                                        {failed: 3},
		"llm_cache: saved $0.31 (25.0 %) in 41 requests":                                                 {41, 2, sessioncache.CostSummary{Units: 3, ClientUnits: 4, USD: 0.93, ClientUSD: 1.24}},
		"llm_cache: saved 25.0 % in 1 request":                                                           {1, 0, sessioncache.CostSummary{Units: 3, ClientUnits: 4}},
		"llm_cache: cost more: $0.10 (10.0 %) in 2 requests": {
			2, 0, sessioncache.CostSummary{Units: 11, ClientUnits: 10, USD: 1.1, ClientUSD: 1},
		},
		"llm_cache: in 1 request nothing was billed": {requests: 1},
	} {
		if got := saved(c.requests, c.failed, c.cost); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Caddy accepts a private instance's configuration, which leads to the address.
func TestPrivate(t *testing.T) {
	for base, wants := range map[string][]string{
		"https://api.anthropic.com":                 {`"preset":"anthropic"`, `"dial":"api.anthropic.com:443"`, `"tls":{}`},
		"https://api.openai.com/v1":                 {`"preset":"openai"`, `"Host":["api.openai.com"]`},
		"https://generativelanguage.googleapis.com": {`"preset":"gemini"`},
		"http://127.0.0.1:8080/x": {
			`{"handler":"llm_cache"}`, `"dial":"127.0.0.1:8080"`,
			`"transport":{"protocol":"http"}`,
		},
		"http://[::1]/v1": {`"dial":"[::1]:80"`, `"Host":["[::1]"]`},
		"https://u:p@gateway.example.com:8443": {
			`"dial":"gateway.example.com:8443"`,
			`"Host":["gateway.example.com:8443"]`, `"tls":{}`,
		},
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		raw := config(u, "127.0.0.1:1")
		for _, want := range wants {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s: got %s, want %s in it", base, raw, want)
			}
		}
		var parsed caddy.Config
		if err := caddy.StrictUnmarshalJSON(raw, &parsed); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}
