// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
)

// qwenCode is Qwen Code with one of its APIs: openai (chat completions), anthropic or gemini.
type qwenCode struct{ url, api string }

func (c qwenCode) executable() (name, variable string) { return "qwen", "LLM_CACHE_QWEN" }

func (c qwenCode) resumes() bool { return true }

func (c qwenCode) model() string {
	return map[string]string{
		"openai": "qwen3-coder-plus", "anthropic": "claude-sonnet-4-5",
		"gemini": "gemini-3.1-pro-preview",
	}[c.api]
}

func (c qwenCode) files() map[string]string {
	return map[string]string{".qwen/settings.json": settings(map[string]any{
		"security":  map[string]any{"auth": map[string]any{"selectedType": c.api}},
		"telemetry": map[string]any{"enabled": false},
		"privacy":   map[string]any{"usageStatisticsEnabled": false},
		"general":   map[string]any{"enableAutoUpdate": false},
		"model":     map[string]any{"name": c.model()},
	})}
}

func (c qwenCode) command(_, prompt string, further bool) (args, env []string) {
	args = []string{"--auth-type", c.api, "--yolo", "--output-format", "stream-json", "-p", prompt}
	if further {
		args = append(args, "--continue")
	}
	return args, []string{
		"OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL=" + c.url + "/v1", "OPENAI_MODEL=" + c.model(),
		"ANTHROPIC_API_KEY=sk-test", "ANTHROPIC_BASE_URL=" + c.url, "ANTHROPIC_MODEL=" + c.model(),
		"GEMINI_API_KEY=sk-test", "GOOGLE_GEMINI_BASE_URL=" + c.url, "GEMINI_BASE_URL=" + c.url, "GEMINI_MODEL=" + c.model(),
	}
}

// last parses the output, which has the form of Claude Code's.
func (c qwenCode) last(stdout []byte) (text string, err error) {
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type    string `json:"type"`
			Result  string `json:"result"`
			IsError bool   `json:"is_error"`
		}
		if line[0] != '{' {
			return nil // a warning
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		if l.Type == "result" {
			text = l.Result
			if l.IsError {
				return fmt.Errorf("it failed: %s", line)
			}
		}
		return nil
	})
	return text, err
}

func (c qwenCode) bash(command string) toolCall {
	return toolCall{"run_shell_command", map[string]any{
		"command": command, "description": "Run a command",
		"is_background": false,
	}}
}

func (c qwenCode) read(path string) toolCall {
	return toolCall{"read_file", map[string]any{"file_path": path}}
}

func (c qwenCode) edit(path, from, to string) toolCall {
	return toolCall{"edit", map[string]any{"file_path": path, "old_string": from, "new_string": to}}
}

func (c qwenCode) write(path, text string) toolCall {
	return toolCall{"write_file", map[string]any{"file_path": path, "content": text}}
}

// settings encodes a client's settings.
func settings(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // all values come from the tests
	}
	return string(b)
}
