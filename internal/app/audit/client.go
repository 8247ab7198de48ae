// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/hex"
	"strings"
)

// clients are what the User-Agents of known programs begin with. SDKs stand
// behind the programs that use them.
var clients = []struct{ prefix, name string }{
	{"claude-cli/", "claude-code"},
	{"claude-code/", "claude-code"},
	{"codex", "codex"},
	{"opencode/", "opencode"},
	{"geminicli", "gemini-cli"},
	{"gemini-cli", "gemini-cli"},
	{"anthropic/", "anthropic-sdk"},
	{"asyncanthropic/", "anthropic-sdk"},
	{"openai/", "openai-sdk"},
	{"asyncopenai/", "openai-sdk"},
	{"google-genai-sdk", "google-sdk"},
	{"ai-sdk/", "ai-sdk"},
	{"ai/", "ai-sdk"},
}

// longestClient bounds the names of programs that are not known.
const longestClient = 32

// ClientName names the program that asks by its User-Agent.
func ClientName(agent string) string {
	if agent == "" {
		return "unknown"
	}
	head := agent
	if len(head) > 24 {
		head = head[:24]
	}
	head = strings.ToLower(head)
	for _, c := range clients {
		if strings.HasPrefix(head, c.prefix) {
			return c.name
		}
	}
	if i := strings.IndexAny(agent, "/ ("); i > 0 {
		agent = agent[:i]
	}
	return strings.ToLower(strings.Clone(agent[:min(len(agent), longestClient)])) // a header may be of a megabyte
}

// TenantKey is the beginning of the key of a tenant by its name on record.
func TenantKey(s string) (t [16]byte) {
	if b, err := hex.DecodeString(s); err == nil {
		copy(t[:], b)
	}
	return t
}
