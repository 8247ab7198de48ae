// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit/caddytest"
)

func init() { caddy.RegisterModule(logged{}) }

// logged is a writer of logs into memory.
type logged struct{}

var logBook struct {
	sync.Mutex
	bytes.Buffer
}

func (logged) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.integration_test", New: func() caddy.Module { return new(logged) }}
}
func (logged) String() string                        { return "memory" }
func (logged) WriterKey() string                     { return "memory" }
func (w logged) OpenWriter() (io.WriteCloser, error) { return w, nil }
func (logged) Close() error                          { return nil }
func (logged) Write(b []byte) (int, error) {
	logBook.Lock()
	defer logBook.Unlock()
	return logBook.Write(b)
}

// into has a configuration log into memory.
func (logged) into(cfg []byte) []byte {
	return bytes.Replace(cfg, []byte(`"output":"discard"`), []byte(`"output":"integration_test"`), 1)
}

// warnings are the lines about llm_cache's place that f has logged.
func warnings(f func()) []string {
	logBook.Lock()
	logBook.Reset()
	logBook.Unlock()
	f()
	logBook.Lock()
	defer logBook.Unlock()
	var out []string
	for line := range strings.Lines(logBook.String()) {
		if strings.Contains(line, `"remedy"`) {
			out = append(out, line)
		}
	}
	return out
}

// A Caddyfile in which llm_cache does nothing says so when it is validated, and when it runs.
func TestPlace(t *testing.T) {
	for name, c := range map[string]struct{ site, want string }{
		"sound":              {"llm_cache\nreverse_proxy 127.0.0.1:1", ""},
		"written behind":     {"reverse_proxy 127.0.0.1:1\nllm_cache", ""}, // Caddy sorts directives
		"route, behind":      {"route {\nreverse_proxy 127.0.0.1:1\nllm_cache\n}", "never reached"},
		"route, respond":     {"route {\nrespond hello\nllm_cache\nreverse_proxy 127.0.0.1:1\n}", "never reached"},
		"route, some behind": {"route {\nreverse_proxy /v2/* 127.0.0.1:1\nllm_cache\nreverse_proxy 127.0.0.1:1\n}", ""},
		"handle beside": {
			"handle /v1/* {\nllm_cache\n}\nhandle {\nreverse_proxy 127.0.0.1:1\n}",
			"nothing that answers",
		},
		"handle, then proxy": {"handle /v1/* {\nllm_cache\n}\nreverse_proxy 127.0.0.1:1", ""},
		"handle, both":       {"handle /v1/* {\nllm_cache\nreverse_proxy 127.0.0.1:1\n}\nhandle {\nrespond hello\n}", ""},
		"alone":              {"llm_cache\nheader X-A b", "nothing that answers"},
		"files":              {"llm_cache\nfile_server", "requests reach no model"},
		"proxy in handle":    {"llm_cache\nhandle /v1/* {\nreverse_proxy 127.0.0.1:1\n}", ""},
		"forward_auth": {"forward_auth 127.0.0.1:1 {\nuri /check\ncopy_headers " +
			"Remote-User\n}\nllm_cache\nreverse_proxy 127.0.0.1:1", ""},
		"two of one": {"llm_cache\nllm_cache\nreverse_proxy 127.0.0.1:1", "stands twice in the way"},
		"behind handle": {"route {\nhandle /v1/* {\nreverse_proxy 127.0.0.1:1\n}\nllm_cache\nreverse_proxy " +
			"127.0.0.1:1\n}", "requests pass llm_cache by"},
		"in handle_errors": {"llm_cache\nreverse_proxy 127.0.0.1:1\nhandle_errors {\nllm_cache\nreverse_proxy " +
			"127.0.0.1:1\n}", ""},
		"named route":        {"invoke llm", "a named route holds llm_cache alone"},
		"named route, whole": {"invoke whole", ""},
		"response buffers": {
			"llm_cache\nreverse_proxy 127.0.0.1:1 {\nresponse_buffers 1MB\n}",
			"response_buffers behind llm_cache",
		},
		"mapped status": {
			"llm_cache\nreverse_proxy 127.0.0.1:1 {\n@e status 4xx\nreplace_status @e 500\n}",
			"replace_status behind llm_cache",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &proxy{t: t, caddy: caddytest.New(t)}
			p.move()
			cfg := logged{}.into(p.config(c.site,
				"&(llm) {\nllm_cache\nreverse_proxy 127.0.0.1:1\n}\n&(whole) {\nroute {\nllm_cache\nreverse_proxy 127.0.0.1:1\n}\n}"))
			var parsed caddy.Config
			if err := json.Unmarshal(cfg, &parsed); err != nil {
				t.Fatal(err)
			}
			validated := warnings(func() {
				if err := caddy.Validate(&parsed); err != nil {
					t.Fatal(err)
				}
			})
			ran := warnings(func() {
				p.load(cfg)
				p.caddy.Stop(t)
			})
			for _, got := range [][]string{validated, ran} {
				switch {
				case c.want == "" && len(got) > 0:
					t.Errorf("warned without need: %s", got)
				case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
					t.Errorf("%d warnings, want one that says %q: %s", len(got), c.want, got)
				}
			}
		})
	}
}
