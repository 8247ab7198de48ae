// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// providersFile returns the Caddyfile of docs/guides/providers.md, with addresses of a test. backends has the address for each upstream in it.
func providersFile(t *testing.T, admin, site string, backends map[string]string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(page), "```caddyfile\n")
	config, _, _ = strings.Cut(config, "```")
	replace := func(from, to string) {
		if !strings.Contains(config, from) {
			t.Fatalf("the Caddyfile lacks %q:\n%s", from, config)
		}
		config = strings.Replace(config, from, to, 1)
	}
	replace("llm.example.com {", "{\n\tadmin "+admin+"\n\tpersist_config off\n\tauto_https off\n}\nhttp://"+site+
		" {\n\tbind 127.0.0.1\n\tlog {\n\t\toutput file ../front.log\n\t}")
	for upstream, addr := range backends {
		replace("reverse_proxy "+upstream, "reverse_proxy "+addr)
	}
	return config
}

// TestProvidersOfTheGuide: with the Caddyfile of the guide, one host serves Claude Code, Codex, opencode with a
// model of the box, and Gemini CLI. Each works through its task, and its requests reach its own provider alone.
// A request to the address of Codex with a ChatGPT login reaches ChatGPT.
func TestProvidersOfTheGuide(t *testing.T) {
	t.Parallel()
	needCaddy(t)
	addrs, err := caddy.FreeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{url: "http://" + addrs[1], dir: t.TempDir()}
	users := []struct {
		upstream, door string
		client         client
		path, model    string // of the requests for a model there, model "" for any
	}{
		{"https://api.anthropic.com", "anthropic", claudeCode{url: s.url}, "/v1/messages", ""},
		{"https://api.openai.com", "openai", codex{url: s.url}, "/v1/responses", ""},
		{
			"127.0.0.1:11434", "box",
			opencode{url: s.url, provider: "box", model: "local/qwen3-coder"},
			"/v1/chat/completions", "qwen3-coder",
		},
		{
			"https://generativelanguage.googleapis.com", "gemini",
			geminiCLI{url: s.url},
			"/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent", "",
		},
	}
	sims, err := caddy.FreeAddrs(len(users))
	if err != nil {
		t.Fatal(err)
	}
	chatgpt := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Door", "chatgpt "+r.URL.Path)
		w.WriteHeader(http.StatusUnauthorized) // the login that it asks for cannot be made up
	}))
	defer chatgpt.Close()
	model := "{\n\tadmin " + addrs[2] + "\n\tpersist_config off\n\tauto_https off\n}\n"
	backends := map[string]string{"https://chatgpt.com": chatgpt.Listener.Addr().String()}
	var mu sync.Mutex
	got := map[string][]string{} // by door, the requests
	repos := make([]*repository, len(users))
	steps := make([][]step, len(users))
	for i, u := range users {
		repos[i] = newRepository(t, u.client)
		steps[i] = repos[i].first()
		script, err := json.Marshal(steps[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, u.door+".json"), script, 0o600); err != nil {
			t.Fatal(err)
		}
		model += "http://" + sims[i] + " {\n\tbind 127.0.0.1\n\tllm_cache_simulator ../" + u.door + ".json\n}\n"
		backends[u.upstream] = behave(t, sims[i], func(_ *httputil.ReverseProxy, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				mu.Lock()
				got[u.door] = append(got[u.door], r.Method+" "+r.URL.Path+" "+gjson.GetBytes(body, "model").Str)
				mu.Unlock()
				next.ServeHTTP(w, r)
			})
		})
	}
	s.model = s.start(t, "model", addrs[2], model)
	s.Process = s.start(t, "front", addrs[0], providersFile(t, addrs[0], addrs[1], backends))

	for i, u := range users {
		t.Run(u.door, func(t *testing.T) {
			needClient(t, u.client)
			newUser(t, u.client, repos[i].dir).ask(t, firstPrompt, steps[i])
			mu.Lock()
			defer mu.Unlock()
			asked := 0
			for door, requests := range got {
				for _, r := range requests {
					switch {
					case door == u.door && strings.HasPrefix(r, "POST "+u.path+" "+u.model):
						asked++
					case door == u.door && strings.HasPrefix(r, "POST "):
						t.Errorf("%s got %s, want %s of the model %q alone", door, r, u.path, u.model)
					}
				}
				if door != u.door {
					t.Errorf("%s got requests of another's client: %s", door, requests)
				}
			}
			if asked < len(steps[i]) {
				t.Errorf("%s got %d requests for a model, want %d", u.door, asked, len(steps[i]))
			}
			clear(got)
		})
	}

	res, err := http.Post(s.url+"/backend-api/codex/responses", "application/json", //nolint:noctx // as short as it is
		strings.NewReader(`{"model":"gpt-6","input":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("X-Door"); got != "chatgpt /backend-api/codex/responses" {
		t.Errorf("got %q for a request of a ChatGPT login, want ChatGPT", got)
	}

	sessions, err := s.sessions(t.Context())
	if err != nil || len(sessions) == 0 {
		t.Errorf("got %d sessions, %v; want those of all clients", len(sessions), err)
	}
}
