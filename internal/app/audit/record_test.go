// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

func TestClientNames(t *testing.T) {
	for agent, want := range map[string]string{
		"claude-cli/2.1.328 (external, cli)":            "claude-code",
		"codex_cli_rs/0.50.0 (Debian 12; x86_64) xterm": "codex",
		"codex_exec/0.50.0":                             "codex",
		"opencode/1.2.3":                                "opencode",
		"GeminiCLI/0.9.0/gemini-4-argon (linux; x64)":   "gemini-cli",
		"Anthropic/Python 0.70.0":                       "anthropic-sdk",
		"OpenAI/JS 5.0.0":                               "openai-sdk",
		"google-genai-sdk/1.30.0 gl-python/3.12":        "google-sdk",
		"curl/8.5.0":                                    "curl",
		"Go-http-client/1.1":                            "go-http-client",
		"":                                              "unknown",
		"averyveryveryveryveryveryveryveryverylongname": "averyveryveryveryveryveryveryver",
	} {
		if got := audit.ClientName(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}

// Long names of clients are cut, and the rest of them is not kept in memory.
func TestNamesAreBounded(t *testing.T) {
	for of, name := range map[string]func(string) string{"client": audit.ClientName, "model": audit.Bounded} {
		for _, sent := range []string{
			strings.Repeat("x", 1<<20), "short/" + strings.Repeat("x", 1<<20),
			"é\xff\x00" + strings.Repeat("é", 1<<20),
		} {
			got := name(sent)
			if len(got) > 256 || of == "model" && (!utf8.ValidString(got) || strings.Contains(got, "\x00")) {
				t.Errorf("%s: %q", of, got)
			}
			if unsafe.StringData(got) == unsafe.StringData(sent) {
				t.Errorf("%s: %.8q… stays in memory", of, sent)
			}
		}
	}
}
