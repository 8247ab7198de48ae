// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/hex"
	"strings"
)

// clients maps the beginnings of User-Agents to program names. SDKs come last: programs that use an
// SDK have their own entries.
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

// longestClient bounds the names of unknown programs, in bytes.
const longestClient = 32

// ClientName returns the program's name by its User-Agent, "unknown" if the header is missing.
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
	// The clone releases the header, which may be a megabyte.
	return strings.ToLower(strings.Clone(agent[:min(len(agent), longestClient)]))
}

// TenantKey returns the first 16 bytes of a tenant's key, decoded from its hexadecimal name on
// record.
func TenantKey(s string) (t [16]byte) {
	if b, err := hex.DecodeString(s); err == nil {
		copy(t[:], b)
	}
	return t
}
