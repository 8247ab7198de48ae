// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
)

// keyed is a client with a key of its user's own.
type keyed struct {
	client
	key string
}

// testKey is the key of clients without one of their own.
const testKey = "sk-test"

func (k keyed) files() map[string]string {
	files := k.client.files()
	for name, text := range files {
		files[name] = strings.ReplaceAll(text, testKey, k.key)
	}
	return files
}

func (k keyed) command(home, prompt string, further bool) (args, env []string) {
	args, env = k.client.command(home, prompt, further)
	for i := range env {
		env[i] = strings.ReplaceAll(env[i], testKey, k.key)
	}
	return args, env
}

// teamFile returns the Caddyfile of docs/guides/people.md, with addresses and files of a test.
func teamFile(t *testing.T, admin, site, model, dir string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/people.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(page), "```caddyfile\n")
	config, _, _ = strings.Cut(config, "```")
	if n := strings.Count(config, "\n"); n == 0 || n > 40 || strings.Count(config, "\t\tuser ") != 11 {
		t.Fatalf("got a Caddyfile of %d lines, want ten users and `user *` in at most 40:\n%s", n, config)
	}
	for from, to := range map[string]string{
		"{\n\tllm_cache {\n\t\taudit sqlite ": "{\n\tadmin " + admin + "\n\tpersist_config off\n\tauto_https off\n" +
			"\tllm_cache {\n\t\taudit sqlite " + filepath.Join(dir, "audit.db") + " ",
		"llm.example.com {":         "http://" + site + " {\n\tbind 127.0.0.1",
		"https://api.anthropic.com": model,
	} {
		if !strings.Contains(config, from) {
			t.Fatalf("the Caddyfile lacks %q:\n%s", from, config)
		}
		config = strings.Replace(config, from, to, 1)
	}
	return config
}

// TestUsersOfTheGuide: with the Caddyfile of the guide, clients of four kinds work with keys of four of its
// ten users, and each user is counted by name. The model gets the provider's key alone. Strangers are
// refused, and so are models that a group may not use.
func TestUsersOfTheGuide(t *testing.T) {
	t.Parallel()
	needCaddy(t)
	env := []string{"ANTHROPIC_API_KEY=sk-ant-provider"}
	for _, name := range []string{"ANNA", "BEN", "CEM", "DORA", "EMIL", "FAY", "GINA", "HUGO", "IDA"} {
		env = append(env, "KEY_"+name+"=llmc-"+strings.ToLower(name))
	}
	addrs, err := caddy.FreeAddrs(4)
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{url: "http://" + addrs[1], modelAddr: addrs[3], dir: t.TempDir()}
	var keys sync.Map // credentials at the model
	model := behave(t, addrs[3], func(_ *httputil.ReverseProxy, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keys.Store(r.Header.Get("X-Api-Key")+r.Header.Get("Authorization")+r.Header.Get("X-Goog-Api-Key"), true)
			next.ServeHTTP(w, r)
		})
	})
	if err := os.WriteFile(filepath.Join(s.dir, "script.json"), []byte(`[{"text":"All is well."}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start(t, "model", addrs[2], site(addrs[2], addrs[3], "model", "llm_cache_simulator ../script.json"))
	s.Process = s.start(t, "front", addrs[0], teamFile(t, addrs[0], addrs[1], model, s.dir), env...)

	clients := map[string]client{
		"anna": claudeCode{url: s.url}, "ben": codex{url: s.url},
		"cem": opencode{url: s.url, provider: "box", model: "qwen3-coder"}, "dora": geminiCLI{url: s.url},
	}
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			needClient(t, c)
			u := newUser(t, keyed{c, "llmc-" + name}, newRepository(t, c).dir)
			u.ask(t, "Is all well?", []step{{Text: "All is well."}})
			if !s.counts(t, name) {
				t.Errorf("got no turn of %s in the metrics", name)
			}
		})
	}
	for key := range keys.Range {
		if key != "sk-ant-provider" {
			t.Errorf("the model got the credentials %q, want the provider's key alone", key)
		}
	}

	for _, c := range []struct {
		what, path, header, key, model string
		want                           int
		says                           string
	}{
		{"a stranger", "/v1/messages", "X-Api-Key", "llmc-mallory", "claude-opus-5-5", 401, "authentication_error"},
		{"a stranger", "/v1/chat/completions", "Authorization", "Bearer llmc-mallory", "gpt-6", 401, "invalid_api_key"},
		{"a model of others", "/v1/messages", "X-Api-Key", "test", "claude-opus-5-5", 403, "permission_error"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+c.path,
			strings.NewReader(`{"model":"`+c.model+`","max_tokens":9,"messages":[{"role":"user","content":"Hello."}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(c.header, c.key)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.want || !strings.Contains(string(body), c.says) {
			t.Errorf("%s at %s: got %d, %s, %v; want %d, %s", c.what, c.path, res.StatusCode, body, err, c.want, c.says)
		}
	}
}

// counts reports whether a user has a turn in the metrics. Turns are counted behind their answers.
func (s *stack) counts(t *testing.T, user string) bool {
	t.Helper()
	for range 100 {
		res, err := http.Get("http://" + s.Admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "caddy_llm_cache_person_turns_total{") && strings.Contains(line, `person="`+user+`"`) {
				return true
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}
