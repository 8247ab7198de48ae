// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/caddy"
	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/engine"
)

// The site of docs/start/mlx-box.md, as a new user has it, before a real engine: it accepts
// requests with a key that the page's command has made, in every format, and no others.
func TestBoxOfTheDocs(t *testing.T) {
	needCaddy(t)
	e := startEngine(t, engine.Options{Slots: 2})
	text, err := os.ReadFile("../../docs/start/mlx-box.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindSubmatch(text)
	addrs, err := caddy.FreeAddrs(2)
	if err != nil || blocks == nil {
		t.Fatal(err, "no Caddyfile")
	}
	site := strings.NewReplacer(
		"llm.example.com", "http://"+addrs[0], "127.0.0.1:8080", e.Addr,
		"{\n\t# Records", "{\n\tadmin "+addrs[1]+"\n\tpersist_config off\n\t# Records",
	).Replace(string(blocks[1]))
	dir := t.TempDir()
	users := filepath.Join(dir, "users.caddyfile")
	site = strings.Replace(site, "users_file users.caddyfile", "users_file "+users, 1)
	command := regexp.MustCompile(`(?m)^    \./caddy (llm-cache user add anna --file )users.caddyfile(.*)$`).FindSubmatch(text)
	if command == nil || !strings.Contains(site, users) {
		t.Fatal("the page has no command that makes a key, or no file of users")
	}
	keys := map[string]string{}
	for _, name := range []string{"anna", "ben"} {
		args := strings.Fields(strings.Replace(string(command[1]), "anna", name, 1) + users + string(command[2]))
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		key := regexp.MustCompile(`ANTHROPIC_AUTH_TOKEN=(\S+)`).FindSubmatch(out)
		if err != nil || key == nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		keys[name] = string(key[1])
	}
	p, err := caddy.Start(t.Context(), binary, dir, addrs[1], site, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		log, err := os.ReadFile(p.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if strings.Contains(string(log), key) {
				t.Errorf("the log holds a key:\n%s", log)
			}
		}
	}()
	ask := func(path, header, key, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addrs[0]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(header, key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for _, c := range []struct{ path, header, prefix, body, want string }{
		{
			"/v1/messages", "X-Api-Key", "",
			`{"model":"claude-sonnet-5","max_tokens":9,"messages":[{"role":"user","content":"Hello"}]}`, `"type":"message"`,
		},
		{
			"/v1/messages", "Authorization", "Bearer ",
			`{"model":"claude-sonnet-5","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"Hello"}]}`,
			"event: message_stop",
		},
		{
			"/v1/chat/completions", "Authorization", "Bearer ", `{"model":"x","messages":[{"role":"user","content":"Hello"}]}`,
			`"choices"`,
		},
		{
			"/v1/responses", "Authorization", "Bearer ", `{"model":"x","stream":true,"input":"Hello"}`,
			"event: response.completed",
		},
		{
			"/v1beta/models/gemini-x:generateContent", "X-Goog-Api-Key", "",
			`{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}`, `"candidates"`,
		},
	} {
		for _, who := range []string{"anna", "ben"} {
			if status, body := ask(c.path, c.header, c.prefix+keys[who], c.body); status != http.StatusOK ||
				!strings.Contains(body, c.want) {
				t.Errorf("%s, %s: %d %s", c.path, who, status, body)
			}
		}
		if status, _ := ask(c.path, c.header, c.prefix+"guess", c.body); status != http.StatusUnauthorized {
			t.Errorf("%s: a stranger got %d", c.path, status)
		}
	}
	if stored, err := filepath.Glob(filepath.Join(dir, "caddy", "llm_cache", "*")); err != nil || len(stored) == 0 {
		t.Errorf("no records in %s: %v, %v", dir, stored, err)
	}
	list, err := e.Requests(t.Context())
	if err != nil || len(list) != 10 {
		t.Errorf("the engine got %d requests, want 10; %v", len(list), err)
	}
	for i, r := range list {
		if i > 0 && r.Cached == 0 && r.Slot == list[0].Slot {
			t.Logf("request %d found nothing: %+v", i, r)
		}
	}
}
