// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
)

// cline is Cline's command line with one of its providers: anthropic or openai-compatible (chat
// completions).
type cline struct{ url, provider string }

func (c cline) executable() (name, variable string) { return "cline", "LLM_CACHE_CLINE" }

// resumes returns false: only Cline's own list has the ids of conversations.
func (c cline) resumes() bool { return false }

func (c cline) model() string {
	return map[string]string{"anthropic": "claude-sonnet-4-5", "openai-compatible": "qwen3-coder"}[c.provider]
}

func (c cline) files() map[string]string {
	return map[string]string{".cline/data/settings/providers.json": settings(map[string]any{
		"version": 1, "lastUsedProvider": c.provider, "modes": map[string]any{},
		"providers": map[string]any{c.provider: map[string]any{
			"settings": map[string]any{
				"provider": c.provider, "apiKey": "sk-test", "model": c.model(),
				"baseUrl": c.url + "/v1",
			},
			"updatedAt": "2026-11-01T00:00:00.000Z", "tokenSource": "manual",
		}},
	})}
}

func (c cline) command(_, prompt string, _ bool) (args, env []string) {
	thinking := "low"
	if c.provider == "anthropic" {
		thinking = "none" // it does not send thinking back, so the API would refuse the request
	}
	return []string{"--json", "-P", c.provider, "-m", c.model(), "-k", "sk-test", "--thinking", thinking, prompt},
		[]string{"CLINE_TELEMETRY_DISABLED=1"}
}

func (c cline) last(stdout []byte) (text string, err error) {
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type         string `json:"type"`
			Text         string `json:"text"`
			FinishReason string `json:"finishReason"`
		}
		if line[0] != '{' {
			return nil
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		if l.Type == "run_result" {
			if text = strings.TrimSpace(l.Text); l.FinishReason != "completed" {
				return fmt.Errorf("it failed: %s", line)
			}
		}
		return nil
	})
	return text, err
}

func (c cline) bash(command string) toolCall {
	return toolCall{"run_commands", map[string]any{"commands": []string{command}}}
}

func (c cline) read(path string) toolCall {
	return toolCall{"read_files", map[string]any{"files": []any{map[string]any{"path": path}}}}
}

func (c cline) edit(path, from, to string) toolCall {
	return toolCall{"editor", map[string]any{"path": path, "old_text": from, "new_text": to}}
}

func (c cline) write(path, text string) toolCall {
	return toolCall{"editor", map[string]any{"path": path, "new_text": text}}
}
