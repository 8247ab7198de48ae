// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func adapt(t *testing.T, block string) (string, error) {
	t.Helper()
	input := "http://:4001 {\n" + block + "\n}\n"
	out, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	return string(out), err
}

func TestCaddyfile(t *testing.T) {
	for block, want := range map[string]string{
		"llm_cache_simulator": `"handle":[{"handler":"llm_cache_simulator"}]`,
		"llm_cache_simulator {\nscript /a/b.json\n}": `{"handler":"llm_cache_simulator",` +
			`"script":"/a/b.json"}`,
		"llm_cache_simulator s.json {\nprofile opus-5.5\npace 20ms\n}": `{"handler":"llm_cache_simulator",` +
			`"pace":20000000,"profile":"opus-5.5","script":"s.json"}`,
		"llm_cache_simulator s.json {\nin_order on\n}": `{"handler":"llm_cache_simulator",` +
			`"in_order":true,"script":"s.json"}`,
		"reverse_proxy 127.0.0.1:1\nllm_cache\nllm_cache_simulator": `"handle":[{"handler":"llm_cache"},` +
			`{"handler":"llm_cache_simulator"},{"handler":"reverse_proxy"`,
		"route {\nllm_cache\nllm_cache_simulator {\nprofile kv\n}\n}": `{"handler":"llm_cache_simulator","profile":"kv"}`,
		"handle /v1/* {\nllm_cache_simulator {\nprofile openai\n}\n}": `{"handler":"llm_cache_simulator",` +
			`"profile":"openai"}`,
		"@a path /a\nllm_cache_simulator @a {\n\tprofile fable-5.2\n\t}\n": `{"handler":"llm_cache_simulator",` +
			`"profile":"fable-5.2"}`,
		"llm_cache_simulator {\nsubscription $2.5\n}": `{"handler":"llm_cache_simulator","subscription":2.5}`,
		"llm_cache_simulator /v1/* s.json": `{"handler":"llm_cache_simulator",` +
			`"script":"s.json"}`,
		"llm_cache_simulator /v1/messages": `"match":[{"path":["/v1/messages"]}]`,
		"llm_cache_simulator {$LLM_CACHE_TEST_UNSET:x.json} {\npace 1s\n}": `{"handler":"llm_cache_simulator",` +
			`"pace":1000000000,"script":"x.json"}`,
	} {
		got, err := adapt(t, block)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s\n%v\n%s\nwant\n%s", block, err, got, want)
		}
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for block, want := range map[string]string{
		// The path of a file would be a matcher, which no request meets.
		"llm_cache_simulator /a/script.json":                "would be taken for a path matcher",
		"llm_cache_simulator /a/script.JSON {\npace 1s\n}":  "would be taken for a path matcher",
		"llm_cache_simulator /a/script.json /a/script.json": "would be taken for a path matcher",
		"llm_cache_simulator " + script:                     "script " + script,

		"llm_cache_simulator a b":                          "wrong argument count",
		"llm_cache_simulator {\nprofile\n}":                "wrong argument count",
		"llm_cache_simulator {\nprofile none\n}":           `profile must be one of`,
		"llm_cache_simulator {\nprofile kv\nprofile kv\n}": "profile stands twice",
		"llm_cache_simulator {\npace fast\n}":              `pace: "fast" is no duration`,
		"llm_cache_simulator {\npace 2m\n}":                `pace: "2m" is no duration`,
		"llm_cache_simulator a {\nscript b\n}":             "script stands twice",
		"llm_cache_simulator s.json {\nin_order yes\n}":    `in_order must be on or off, got "yes"`,
		"llm_cache_simulator {\nsubscription 20\n}":        `subscription must be an amount such as $20`,
		"llm_cache_simulator {\nsubscription $0\n}":        `subscription must be an amount such as $20`,
		"llm_cache_simulator {\nspeed 1\n}":                `unknown option "speed"`,
		"llm_cache_simulator {\nprofile kv extra\n}":       "wrong argument count",
	} {
		_, err := adapt(t, block)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Caddyfile:") {
			t.Errorf("%s\n%v\nwant %s", block, err, want)
		}
	}
}

func provision(t *testing.T, s *Simulator) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if err := s.Provision(ctx); err != nil {
		return err
	}
	return s.Validate()
}

func cachedTokens(t *testing.T, s *Simulator) int {
	t.Helper()
	body := `{"model":"claude-opus-5-5","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"` +
		strings.Repeat("many words ", 1000) + `","cache_control":{"type":"ephemeral"}}]}]}`
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(body))
	if err := s.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil)); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Usage struct {
			Read int `json:"cache_read_input_tokens"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	return answer.Usage.Read
}

// The cache of the simulated provider survives a reload, a failed one included, but nothing else.
func TestReload(t *testing.T) {
	first, second, failing := &Simulator{Profile: "opus-5.5"}, &Simulator{Profile: "opus-5.5"},
		&Simulator{Profile: "opus-5.5", Script: "missing"}
	if err := provision(t, first); err != nil {
		t.Fatal(err)
	}
	if n := cachedTokens(t, first); n != 0 {
		t.Errorf("read %d tokens that nobody wrote", n)
	}
	if err := provision(t, failing); err == nil || !strings.Contains(err.Error(), "script") {
		t.Errorf("a missing script: %v", err)
	}
	if err := failing.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if err := provision(t, second); err != nil {
		t.Fatal(err)
	}
	if err := first.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if n := cachedTokens(t, second); n == 0 {
		t.Error("the reload lost the cache")
	}
	if err := second.Cleanup(); err != nil {
		t.Fatal(err)
	}
	third := &Simulator{Profile: "opus-5.5"}
	if err := provision(t, third); err != nil {
		t.Fatal(err)
	}
	defer third.Cleanup()
	if n := cachedTokens(t, third); n != 0 {
		t.Errorf("read %d tokens of a provider that is gone", n)
	}
}

func TestProvision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(path, []byte(`[{"text":"hello"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LLM_CACHE_TEST_SCRIPT", path)
	s := &Simulator{Script: "{env.LLM_CACHE_TEST_SCRIPT}"}
	if err := provision(t, s); err != nil {
		t.Fatal(err)
	}
	defer s.Cleanup()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/messages",
		strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"go"}],"tools":[{"name":"a"}]}`))
	if err := s.ServeHTTP(w, r, caddyhttp.HandlerFunc(nil)); err != nil ||
		!strings.Contains(w.Body.String(), `"text":"hello"`) {
		t.Errorf("%v: %s", err, w.Body)
	}
	for name, bad := range map[string]*Simulator{
		"profile": {Profile: "none"}, "pace": {Pace: -1}, "placeholder": {Script: "{env.LLM_CACHE_TEST_UNSET}"},
	} {
		if err := provision(t, bad); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := bad.Cleanup(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
