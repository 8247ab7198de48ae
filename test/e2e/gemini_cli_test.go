// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
)

// geminiCLI is Gemini CLI with a key of the Gemini API. The model is set: to choose one it would
// query a small model first, and retry until it understands the answer.
type geminiCLI struct {
	url string
	// compress is the prompt length at which it compresses, as a share of the context of 1,048,576
	// tokens. Default: a half.
	compress float64
}

func (c geminiCLI) executable() (name, variable string) { return "gemini", "LLM_CACHE_GEMINI" }

// resumes returns false: after a resume it sends every tool result twice, which the API refuses.
func (c geminiCLI) resumes() bool { return false }

func (c geminiCLI) files() map[string]string {
	settings := map[string]any{
		"security":  map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
		"telemetry": map[string]any{"enabled": false},
		"privacy":   map[string]any{"usageStatisticsEnabled": false},
		"general":   map[string]any{"enableAutoUpdate": false},
	}
	if c.compress > 0 {
		settings["model"] = map[string]any{"compressionThreshold": c.compress}
	}
	b, err := json.Marshal(settings)
	if err != nil {
		panic(err) // all values are literals
	}
	return map[string]string{".gemini/settings.json": string(b)}
}

func (c geminiCLI) command(_, prompt string, further bool) (args, env []string) {
	args = []string{"--yolo", "--model", "gemini-3.1-pro-preview", "--output-format", "stream-json", "-p", prompt}
	if further {
		args = append(args, "--resume", "latest")
	}
	return args, []string{
		"GEMINI_API_KEY=sk-test", "GOOGLE_GEMINI_BASE_URL=" + c.url,
		"GEMINI_TELEMETRY_ENABLED=false", "GEMINI_CLI_TRUST_WORKSPACE=true",
	}
}

func (c geminiCLI) last(stdout []byte) (text string, err error) {
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type    string `json:"type"`
			Role    string `json:"role"`
			Content string `json:"content"`
			Delta   bool   `json:"delta"`
			Status  string `json:"status"`
		}
		if line[0] != '{' {
			return nil // a warning
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		switch {
		case l.Type == "message" && l.Role == "assistant":
			text += l.Content
		case l.Type == "tool_use":
			text = ""
		case l.Type == "result" && l.Status != "success":
			return fmt.Errorf("it failed: %s", line)
		}
		return nil
	})
	return text, err
}

func (c geminiCLI) bash(command string) toolCall {
	return toolCall{"run_shell_command", map[string]any{"command": command, "description": "Run a command"}}
}

func (c geminiCLI) read(path string) toolCall {
	return toolCall{"read_file", map[string]any{"file_path": path}}
}

func (c geminiCLI) edit(path, from, to string) toolCall {
	return toolCall{"replace", map[string]any{
		"file_path": path, "old_string": from, "new_string": to,
		"instruction": "Change the comment.",
	}}
}

func (c geminiCLI) write(path, text string) toolCall {
	return toolCall{"write_file", map[string]any{"file_path": path, "content": text}}
}
