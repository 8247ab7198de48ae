// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llm-cache/caddy-llm-cache"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
)

// patient is a set-up. The zero value is healthy.
type patient struct {
	caddyfile string // the site's directives. Default: llm_cache and reverse_proxy
	global    string
	json      string
	env       map[string]string
	files     map[string]string // below the home folder
	later     time.Duration     // error of the clock
	answers   http.HandlerFunc  // of the site. Default: an empty list of models
	tls       bool
	down      bool // of the upstream
	offline   bool // for hosts that tests must not contact
	want      string
}

// UP, SITE, HOME, HOST and LISTEN are placeholders for addresses and a folder.
func (c *patient) examine(t *testing.T) (faults, notes []cli.Finding, verdicts []string) {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(up.Close)
	if c.answers == nil {
		c.answers = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[]}`) }
	}
	site := httptest.NewUnstartedServer(c.answers)
	site.Config.ErrorLog = log.New(io.Discard, "", 0)
	if c.tls {
		site.StartTLS()
	} else {
		site.Start()
	}
	t.Cleanup(site.Close)
	upstream := up.Listener.Addr().String()
	if c.down {
		up.Close()
	}
	home := t.TempDir()
	fill := strings.NewReplacer("UP", upstream, "SITE", site.URL, "HOME", home, "HOST",
		site.Listener.Addr().(*net.TCPAddr).IP.String(),
		"LISTEN", ":"+strconv.Itoa(site.Listener.Addr().(*net.TCPAddr).Port))

	p := cli.Patient{Offline: c.offline, Home: home, Getenv: func(name string) string { return fill.Replace(c.env[name]) }}
	p.Now = func() time.Time { return time.Now().Add(c.later) }
	for name, text := range c.files {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	block := c.caddyfile
	if block == "" {
		block = "llm_cache\nreverse_proxy UP"
	}
	name, text := "Caddyfile", "{\n"+c.global+"\n}\nLISTEN {\n"+block+"\n}\n"
	if c.json != "" {
		name, text = "caddy.json", c.json
	}
	path := filepath.Join(home, name)
	if err := os.WriteFile(path, []byte(fill.Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.LoadConfig(path); err != nil {
		t.Fatal(err)
	}
	x := cli.Examine(t.Context(), p)
	for _, f := range x.Findings {
		if f.Note {
			notes = append(notes, f)
		} else {
			faults = append(faults, f)
		}
	}
	return faults, notes, x.Verdicts
}

// routes returns a site in JSON with its handlers in the order given.
func routes(handlers ...string) string {
	return `{"apps":{"http":{"servers":{"s":{"listen":[":8080"],"routes":[{"handle":[` + strings.Join(handlers, ",") +
		`]}]}}}}}`
}

const (
	cacheHandler = `{"handler":"llm_cache"}`
	proxyHandler = `{"handler":"reverse_proxy","upstreams":[{"dial":"UP"}]}`
)

// Each of the faults is found, and no other.
func TestFaults(t *testing.T) {
	for name, c := range map[string]patient{
		"no llm_cache":         {caddyfile: "reverse_proxy UP", want: "no site has llm_cache"},
		"behind reverse_proxy": {json: routes(proxyHandler, cacheHandler), want: "answers every request (reverse_proxy)"},
		"behind what answers": {
			caddyfile: "route {\nrespond hello\nllm_cache\nreverse_proxy UP\n}",
			want:      "answers every request (static_response)",
		},
		"nothing behind": {caddyfile: "llm_cache", want: "nothing that answers stands behind"},
		"twice": {
			json: routes(cacheHandler, cacheHandler, proxyHandler),
			want: "stands twice in the way of one request",
		},
		"files behind": {caddyfile: "llm_cache\nfile_server", want: "requests reach no model (file_server)"},
		"response_buffers": {
			caddyfile: "llm_cache\nreverse_proxy UP {\nresponse_buffers 1MB\n}",
			want:      "nothing streams",
		},
		"named route": {
			json: `{"apps":{"http":{"servers":{"s":{"routes":[{"handle":[{"handler":"invoke",` +
				`"name":"p"}]}],"named_routes":{"p":{"handle":[` + cacheHandler + `]}}}}}}}`,
			want: "a named route holds llm_cache alone",
		},
		"max_body": {
			json: routes(`{"handler":"llm_cache","max_body":32000}`, proxyHandler),
			want: "max_body is 32000",
		},
		"request_body": {
			caddyfile: "request_body {\nmax_size 1MB\n}\nllm_cache\nreverse_proxy UP",
			want:      "request_body max_size",
		},
		"write timeout": {global: "servers {\ntimeouts {\nwrite 30s\n}\n}", want: "write_timeout is 30s"},
		"header timeout": {caddyfile: "llm_cache\nreverse_proxy UP {\ntransport http {\nresponse_header_timeout " +
			"10s\n}\n}", want: "response_header_timeout is 10s"},
		"without TLS": {
			caddyfile: "llm_cache\nreverse_proxy api.anthropic.com:80", offline: true,
			want: "without TLS",
		},
		"another provider": {
			caddyfile: "llm_cache {\nupstream anthropic\n}\nreverse_proxy https://api.openai.com",
			offline:   true, want: "go to api.openai.com",
		},
		"upstream down": {down: true, want: "does not answer"},
		"audit in no folder": {
			global: "llm_cache {\naudit sqlite {\npath HOME/Caddyfile/audit.db\n}\n}",
			want:   "nothing can be recorded",
		},
		"audit in a damaged file": {global: "llm_cache {\naudit sqlite {\npath HOME/Caddyfile\n}\n}", want: "sets it aside"},
		"audit lines in no folder": {
			json: `{"apps":{"llm_cache":{"audit":{"module":"jsonl","writer":{"output":"file",` +
				`"filename":"HOME/caddy.json/audit.jsonl"}}},` + strings.TrimPrefix(routes(cacheHandler, proxyHandler), `{"apps":{`),
			want: "nothing can be recorded",
		},
		"audit is a folder": {global: "llm_cache {\naudit sqlite {\npath HOME\n}\n}", want: "is a folder"},
		"admin off":         {global: "admin off", want: "admin off"},
		"clock":             {later: time.Hour, want: "differs by 1h"},
		"certificate": {
			tls: true, env: map[string]string{"ANTHROPIC_BASE_URL": "SITE"},
			want: "NODE_EXTRA_CA_CERTS",
		},
		"unreachable": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
			want: "cannot be reached",
		},
		"redirects": {answers: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://x/", http.StatusPermanentRedirect)
		}, env: map[string]string{"ANTHROPIC_BASE_URL": "SITE"}, want: "redirects to https://x/"},
		"key refused": {answers: func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusUnauthorized)
		}, env: map[string]string{"ANTHROPIC_BASE_URL": "SITE", "ANTHROPIC_API_KEY": "k"}, want: "refuses the key"},
		"bad gateway": {answers: func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusBadGateway)
		}, env: map[string]string{"ANTHROPIC_BASE_URL": "SITE"}, want: "answers 502"},
		"/v1 twice": {env: map[string]string{"ANTHROPIC_BASE_URL": "SITE/v1"}, want: "adds /v1 itself"},
		"no scheme": {env: map[string]string{"ANTHROPIC_BASE_URL": "localhost:8080"}, want: "is no URL"},
		"passed by": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "https://api.anthropic.com"},
			want: "pass llm_cache by",
		},
		"settings go before": {
			env:   map[string]string{"ANTHROPIC_BASE_URL": "http://other"},
			files: map[string]string{".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"SITE"}}`},
			want:  "goes before http://other",
		},
		"settings elsewhere": {
			env:   map[string]string{"CLAUDE_CONFIG_DIR": "HOME/work"},
			files: map[string]string{".claude/settings.json": `{}`, "work/settings.json": `{"env":`},
			want:  "work/settings.json is no valid JSON",
		},
		"settings broken": {files: map[string]string{".claude/settings.json": `{"env":`}, want: "no valid JSON"},
		"Bedrock": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "SITE", "CLAUDE_CODE_USE_BEDROCK": "1"},
			want: "CLAUDE_CODE_USE_BEDROCK is set",
		},
		"no caching": {
			env:  map[string]string{"DISABLE_PROMPT_CACHING": "1"},
			want: "DISABLE_PROMPT_CACHING",
		},
		"two credentials": {env: map[string]string{
			"ANTHROPIC_BASE_URL": "SITE", "ANTHROPIC_API_KEY": "k",
			"ANTHROPIC_AUTH_TOKEN": "t",
		}, want: "two credentials"},
		"secrets in URLs": {env: map[string]string{
			"ANTHROPIC_BASE_URL": "SITE",
			"HTTP_PROXY":         "http://me:hunter2@proxy:3128",
		}, want: "by way of http://xxxxx@proxy:3128"},
		"secrets without a scheme": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "me:hunter2@host"},
			want: `is "xxxxx@host", which is no URL`,
		},
		"forward proxy": {env: map[string]string{
			"ANTHROPIC_BASE_URL": "SITE",
			"HTTP_PROXY":         "http://proxy:3128", "NO_PROXY": "localhost",
		}, want: "by way of http://proxy:3128"},
		"Codex without /v1": {files: map[string]string{".codex/config.toml": "model_provider = \"box\"\n[model_providers.box]\nbase_url = \"SITE\"\n"}, want: "adds no /v1"},
		"Codex by chat":     {files: map[string]string{".codex/config.toml": "model_provider = \"box\"\n[model_providers.box]\nbase_url = \"SITE/v1\"\nwire_api = \"chat\"\n"}, want: "has given up"},
		"Codex does not choose": {files: map[string]string{".codex/config.toml": "[model_providers.box]\nbase_url = " +
			"\"SITE/v1\"\n"}, want: "does not choose it"},
		"Codex chooses what is not":   {files: map[string]string{".codex/config.toml": "model_provider = \"bx\"\n[model_providers.box]\nbase_url = \"SITE/v1\"\n"}, want: "does not have"},
		"Codex with damaged settings": {files: map[string]string{".codex/config.toml": "model_provider = \"box\n"}, want: "cannot be read"},
		"opencode without /v1":        {files: map[string]string{".config/opencode/opencode.json": `{"provider":{"box":{"options":{"baseURL":"SITE"}}}}`}, want: "adds no /v1"},
		"Gemini CLI, v1beta twice": {
			env:  map[string]string{"GOOGLE_GEMINI_BASE_URL": "SITE/v1beta"},
			want: "adds /v1beta itself",
		},
		"TLS by http": {tls: true, env: map[string]string{"ANTHROPIC_BASE_URL": "http://HOSTLISTEN"}, want: "takes TLS only"},
		"Gemini CLI with a login": {
			env:   map[string]string{"GOOGLE_GEMINI_BASE_URL": "SITE"},
			files: map[string]string{".gemini/settings.json": `{"security":{"auth":{"selectedType":"oauth-personal"}}}`},
			want:  "GOOGLE_GEMINI_BASE_URL is not used, because security.auth.selectedType",
		},
		"Gemini CLI, .env": {
			files: map[string]string{".gemini/.env": "GOOGLE_GEMINI_BASE_URL=SITE/v1beta\n"}, want: "adds /v1beta itself",
		},
		"opencode, damaged": {files: map[string]string{".config/opencode/opencode.json": `{"provider":`}, want: "no valid JSON"},
		"Claude Code on Foundry": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "SITE", "CLAUDE_CODE_USE_FOUNDRY": "yes"},
			want: "CLAUDE_CODE_USE_FOUNDRY is set",
		},
		"Gemini CLI by way of Vertex": {env: map[string]string{
			"GOOGLE_GEMINI_BASE_URL":    "SITE",
			"GOOGLE_GENAI_USE_VERTEXAI": "true",
		}, want: "GOOGLE_GENAI_USE_VERTEXAI"},
	} {
		t.Run(name, func(t *testing.T) {
			found, _, _ := c.examine(t)
			hit := 0
			for _, f := range found {
				if strings.Contains(f.What, c.want) {
					hit++
				} else {
					t.Errorf("found besides: %+v", f)
				}
			}
			if hit != 1 {
				t.Errorf("%q was found %d times: %+v", c.want, hit, found)
			}
		})
	}
}

// A healthy set-up has no findings, however large it is.
func TestSound(t *testing.T) {
	for name, c := range map[string]patient{
		"bare": {},
		"all of it": {
			caddyfile: "request_body {\nmax_size 64MiB\n}\nhandle /health {\nrespond ok\n}\nllm_cache {\nupstream " +
				"mlx_lm\n}\nreverse_proxy UP {\ntransport http {\nresponse_header_timeout 10m\n}\n}",
			global: "llm_cache {\naudit sqlite {\npath HOME/new/audit.db\n}\n}",
			env: map[string]string{
				"ANTHROPIC_BASE_URL": "SITE", "ANTHROPIC_AUTH_TOKEN": "t", "GOOGLE_GEMINI_BASE_URL": "SITE",
				"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "HOST",
				"CLAUDE_CODE_USE_BEDROCK": "0",
			},
			files: map[string]string{
				".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"SITE"}}`,
				".codex/config.toml": "model_provider = \"box\"\n[model_providers.box]\nname = \"box\"\nbase_url = " +
					"\"SITE/v1\"\nwire_api = \"responses\"\n",
				".config/opencode/opencode.json": `{"provider":{"box":{"options":{"baseURL":"SITE/v1"}},` +
					`"google":{"options":{"baseURL":"SITE/v1beta"}}}}`,
			},
		},
		"two providers, of which a request takes one": {caddyfile: "@openai path /v1/responses* " +
			"/v1/chat/completions*\nhandle @openai {\nllm_cache\nreverse_proxy UP\n}\nhandle {\nllm_cache\nreverse_proxy UP\n}"},
		"two prefixes": {caddyfile: "handle_path /anthropic/* {\nllm_cache\nreverse_proxy UP\n}\nhandle_path /openai/* " +
			"{\nllm_cache\nreverse_proxy UP\n}"},
		"forward_auth": {caddyfile: "forward_auth UP {\nuri /x\n}\nllm_cache\nreverse_proxy UP"},
		"two ways":     {caddyfile: "handle /a/* {\nllm_cache\nreverse_proxy UP\n}\nhandle {\nrespond no\n}"},
	} {
		t.Run(name, func(t *testing.T) {
			if found, _, _ := c.examine(t); len(found) > 0 {
				t.Errorf("%+v", found)
			}
		})
	}
}

// Notes report states that may be intended.
func TestNotes(t *testing.T) {
	for name, c := range map[string]patient{
		"no client": {},
		"no base URL in the settings": {files: map[string]string{
			".claude/settings.json": `{"env":{"A":"b"}}`,
			".codex/config.toml":    "model = \"gpt-5.5\"\n", ".config/opencode/opencode.json": `{}`,
		}},
		"Claude Code":                 {env: map[string]string{"ANTHROPIC_BASE_URL": "SITE"}},
		"Claude Code by its settings": {files: map[string]string{".claude/settings.json": `{"env":{"ANTHROPIC_BASE_URL":"SITE"}}`}},
		"Codex":                       {files: map[string]string{".codex/config.toml": "openai_base_url = \"SITE/v1\"\n"}},
		"Codex by dotted names": {files: map[string]string{".codex/config.toml": "model_provider = 'box'\n" +
			"model_providers.box.base_url = 'SITE/v1'\n"}},
		"Codex, with a provider that is not in use": {files: map[string]string{".codex/config.toml": "openai_base_url = " +
			"\"SITE/v1\"\n[model_providers.box]\nbase_url = \"http://localhost:1/v1\"\n"}},
		"Codex with a model of this machine": {files: map[string]string{".codex/config.toml": "model_provider = \"ollama\"\n"}},
		"opencode":                           {files: map[string]string{".config/opencode/opencode.json": `{"provider":{"openai":{"options":{"baseURL":"SITE/v1"}}}}`}},
		"Gemini CLI":                         {env: map[string]string{"GOOGLE_GEMINI_BASE_URL": "SITE"}},
		"an SDK":                             {env: map[string]string{"OPENAI_BASE_URL": "SITE/v1"}},
		"by another name of this machine": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "http://[::1]:1"},
			want: "no site of the configuration listens there", offline: true,
		},
		"another port of this machine": {
			env:  map[string]string{"ANTHROPIC_BASE_URL": "http://localhost:1"},
			want: "no site of the configuration listens there", offline: true,
		},
		"a public name without TLS": {json: `{"apps":{"http":{"servers":{"s":{"listen":[":80"],` +
			`"routes":[{"match":[{"host":["llm.example.com"]}],"handle":[` + cacheHandler + `,` + proxyHandler +
			`],"terminal":true}]}}}}}`, want: "served without TLS"},
		"a private name without TLS": {json: `{"apps":{"http":{"servers":{"s":{"listen":[":80"],` +
			`"routes":[{"match":[{"host":["llm.home.arpa"]}],"handle":[` + cacheHandler + `,` + proxyHandler +
			`],"terminal":true}]}}}}}`},
		"a key that is not set": {caddyfile: "llm_cache\nreverse_proxy UP {\nheader_up Authorization \"Bearer " +
			"{env.TOKEN}\"\n}", want: "takes its key from TOKEN"},
		"a key that is set": {
			caddyfile: "llm_cache\nreverse_proxy UP {\nheader_up X-Api-Key {env.PATH}\n}",
		},
		"compressed answers": {
			caddyfile: "llm_cache\nreverse_proxy UP {\nheader_up Accept-Encoding gzip\n}",
			want:      "asks the upstream for gzip",
		},
		"another machine": {
			env:     map[string]string{"ANTHROPIC_BASE_URL": "https://llm.example.com"},
			offline: true,
		},
		"a status is changed behind": {caddyfile: "llm_cache\nreverse_proxy UP {\n@e status 4xx\nreplace_status @e " +
			"400\n}", env: map[string]string{"ANTHROPIC_BASE_URL": "SITE"}, want: "replace_status behind llm_cache"},
		"a proxy with forward_auth": {
			caddyfile: "forward_auth UP {\nuri /x\n}\nllm_cache\nreverse_proxy UP",
			env:       map[string]string{"ANTHROPIC_BASE_URL": "SITE"},
		},
		"one API of a site goes without it": {
			caddyfile: "handle /v1/responses {\nreverse_proxy UP\n}\nhandle " +
				"{\nllm_cache\nreverse_proxy UP\n}", env: map[string]string{"ANTHROPIC_BASE_URL": "SITE"},
			want: "(reverse_proxy, /v1/responses)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			faults, notes, _ := c.examine(t)
			if len(faults) > 0 {
				t.Errorf("found besides: %+v", faults)
			}
			if c.want == "" && len(notes) > 0 || c.want != "" && (len(notes) != 1 || !strings.Contains(notes[0].What, c.want)) {
				t.Errorf("got %+v, want %q", notes, c.want)
			}
		})
	}
}

// TestRefusedEdits: a running Caddy reports edits that upstreams refused.
func TestRefusedEdits(t *testing.T) {
	for _, c := range []struct {
		name, metrics string
		looked, found bool
	}{
		{
			"refused",
			"caddy_llm_cache_resends_total{outcome=\"accepted\"} 3\ncaddy_llm_cache_resends_total{outcome=\"refused\"} 1\n",
			true, true,
		},
		{
			"the clients' own",
			"caddy_llm_cache_resends_total{outcome=\"accepted\"} 0\ncaddy_llm_cache_resends_total{outcome=\"refused\"} 4\n",
			true, false,
		},
		{"another Caddy", "caddy_http_requests_total 3\n", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_,
					_ = w.Write([]byte(c.metrics))
			}))
			defer admin.Close()
			x := cli.Examine(t.Context(), cli.Patient{
				Config: []byte(`{"admin":{"listen":"` + admin.Listener.Addr().String() + `"}}`),
				Getenv: func(string) string { return "" }, Home: t.TempDir(),
			})
			if got := strings.Contains(strings.Join(x.Looked, "\n"), "what upstreams have refused"); got != c.looked {
				t.Errorf("looked: %t, want %t: %q", got, c.looked, x.Looked)
			}
			found := slices.ContainsFunc(x.Findings, func(f cli.Finding) bool { return f.About == "edits" })
			if found != c.found {
				t.Errorf("found: %t, want %t: %+v", found, c.found, x.Findings)
			}
		})
	}
}
