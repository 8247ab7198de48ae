// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/cli"
)

// mistakes has the findings of each wrong Caddyfile: parts of the error, or one part of each finding.
var mistakes = map[string][]string{
	"wrong_two_words": {"did you mean llm_cache?"},
	"wrong_brace":     {"a } is missing before it"},
	"wrong_preset":    {`got "lama_cpp"; did you mean llama_cpp?`},
	"wrong_values": {
		"did you mean 2GiB?, at ", `"90min" is not a duration above zero, such as 90s, 10m or 3h`,
		`"30" has no unit: write $30, 30 tokens or 30 requests`,
	},
	"wrong_prefix":        {"with the prefix /claude, which it does not know: it answers 404 (reverse_proxy). Write handle_path /claude/*"},
	"wrong_two_providers": {"requests go to anthropic and openai in turn"},
	"wrong_slow_lines": {
		"read_idle_timeout is 3s: a prompt of 1 MB over a slow line is cut off",
		"write_idle_timeout is 20s: with a rate for writes", "read_timeout is 2s: a prompt of 1 MB",
	},
	"wrong_unset": {
		"{$LLM_CACHE_TEST_UNSET} is not set here, and stands for nothing in line 8",
		"key takes its key from LLM_CACHE_TEST_UNSET", "header_up Authorization writes an empty key",
	},
	"wrong_no_upstream": {
		"{$LLM_CACHE_TEST_UNSET} is not set here, and stands for nothing in line 3", "reverse_proxy has no upstream",
	},
	"wrong_nested":     {"llm_cache stands twice in the way of one request"},
	"wrong_open_page":  {"llm_cache_dashboard is open", "served without TLS", "api.openai.com:80 is asked without TLS"},
	"wrong_shared_key": {"all requests are of one tenant"},
}

// Each mistake is named, and right set-ups, those of the documents among them, raise no alarm.
func TestSetups(t *testing.T) {
	files, err := filepath.Glob("testdata/setups/*.caddyfile")
	if err != nil || len(files) < len(mistakes)+8 {
		t.Fatalf("%d set-ups, %v", len(files), err)
	}
	for _, path := range append(files, "../../Caddyfile.example", "../../packaging/Caddyfile") {
		name := strings.TrimSuffix(filepath.Base(path), ".caddyfile")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			setUp(t, text, mistakes[name])
		})
	}
	pages, err := filepath.Glob("../../docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```caddyfile\n(.*?)```")
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllSubmatch(text, -1) {
			t.Run(filepath.Base(page), func(t *testing.T) { setUp(t, m[1], nil) })
		}
	}
}

// setUp examines a Caddyfile, which must have the findings and no others.
func setUp(t *testing.T, text []byte, want []string) {
	t.Helper()
	// The documents' variables stand for keys and addresses.
	for _, m := range regexp.MustCompile(`\{(?:\$|env\.)(\w+)\}`).FindAllSubmatch(text, -1) {
		if name := string(m[1]); os.Getenv(name) == "" && name != "LLM_CACHE_TEST_UNSET" {
			t.Setenv(name, "http://127.0.0.1:1")
		}
	}
	path := filepath.Join(t.TempDir(), "Caddyfile")
	// Only the binary of this repository has a simulator.
	text = bytes.ReplaceAll(text, []byte("llm_cache_simulator"), []byte("respond simulated"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := cli.Patient{Getenv: func(string) string { return "" }, Home: t.TempDir(), Offline: true}
	if err := p.LoadConfig(path); err != nil {
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("got %v, want %q", err, w)
			}
		}
		if len(want) == 0 {
			t.Errorf("got %v, want none", err)
		}
		return
	}
	found := cli.Examine(t.Context(), p).Findings
	if len(found) != len(want) {
		t.Errorf("%d findings, want %d: %+v", len(found), len(want), found)
		return
	}
	for i, w := range want {
		if !strings.Contains(found[i].What, w) {
			t.Errorf("got %q, want %q", found[i].What, w)
		}
	}
}
