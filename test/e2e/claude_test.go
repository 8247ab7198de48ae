// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// claudeCode is Claude Code in print mode.
type claudeCode struct {
	url, model string
}

func (c claudeCode) executable() (name, variable string) { return "claude", "LLM_CACHE_CLAUDE" }

func (c claudeCode) resumes() bool { return true }

func (c claudeCode) files() map[string]string { return nil }

func (c claudeCode) command(_, prompt string, further bool) (args, env []string) {
	args = []string{
		"-p", prompt, "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits",
		"--allowedTools", "Bash,Read,Grep,Glob,Edit,Write",
	}
	if c.model != "" {
		args = append(args, "--model", c.model)
	}
	if further {
		args = append(args, "--continue")
	}
	return args, []string{
		"ANTHROPIC_BASE_URL=" + c.url, "ANTHROPIC_API_KEY=sk-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "DISABLE_AUTOUPDATER=1",
	}
}

func (c claudeCode) last(stdout []byte) (text string, err error) {
	ended := false
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type    string `json:"type"`
			Result  string `json:"result"`
			IsError bool   `json:"is_error"`
			Message struct {
				Content json.RawMessage
			} `json:"message"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		switch l.Type {
		case "user":
			var blocks []struct {
				IsError bool            `json:"is_error"`
				Content json.RawMessage `json:"content"`
			}
			if json.Unmarshal(l.Message.Content, &blocks) != nil {
				return nil // a string is no tool result
			}
			for _, r := range blocks {
				if r.IsError && !strings.Contains(string(r.Content), "missing.txt") {
					return fmt.Errorf("a tool call failed: %s", r.Content)
				}
			}
		case "result":
			text, ended = l.Result, true
			if l.IsError {
				return fmt.Errorf("it failed: %s", l.Result)
			}
		}
		return nil
	})
	if err == nil && !ended {
		err = errors.New("it printed no result")
	}
	return text, err
}

func (c claudeCode) bash(command string) toolCall {
	return toolCall{"Bash", map[string]any{"command": command, "description": "Run a command"}}
}

func (c claudeCode) read(path string) toolCall {
	return toolCall{"Read", map[string]any{"file_path": path}}
}

func (c claudeCode) edit(path, from, to string) toolCall {
	return toolCall{"Edit", map[string]any{"file_path": path, "old_string": from, "new_string": to}}
}

func (c claudeCode) write(path, text string) toolCall {
	return toolCall{"Write", map[string]any{"file_path": path, "content": text}}
}

// claudeOnVertex is Claude Code with Claude on Vertex AI, without authentication there.
type claudeOnVertex struct{ claudeCode }

func (c claudeOnVertex) command(home, prompt string, further bool) (args, env []string) {
	args, env = c.claudeCode.command(home, prompt, further)
	return args, append(env, "CLAUDE_CODE_USE_VERTEX=1", "CLAUDE_CODE_SKIP_VERTEX_AUTH=1", "ANTHROPIC_VERTEX_BASE_URL="+
		c.url+"/v1",
		"ANTHROPIC_VERTEX_PROJECT_ID=project", "CLOUD_ML_REGION=global")
}

// claudeOnBedrock is Claude Code with Claude on Amazon Bedrock, without signatures.
type claudeOnBedrock struct{ claudeCode }

func (c claudeOnBedrock) command(home, prompt string, further bool) (args, env []string) {
	args, env = c.claudeCode.command(home, prompt, further)
	return args, append(env, "CLAUDE_CODE_USE_BEDROCK=1", "CLAUDE_CODE_SKIP_BEDROCK_AUTH=1", "ANTHROPIC_BEDROCK_BASE_URL="+
		c.url, "AWS_REGION=eu-central-1")
}
