// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
)

// pi is the coding agent pi with one of its APIs.
type pi struct{ url, api string }

func (c pi) executable() (name, variable string) { return "pi", "LLM_CACHE_PI" }

func (c pi) resumes() bool { return true }

func (c pi) model() string {
	return map[string]string{
		"anthropic-messages": "claude-sonnet-4-5", "openai-completions": "qwen3-coder", "openai-responses": "gpt-5",
		"google-generative-ai": "gemini-3.1-pro-preview",
	}[c.api]
}

func (c pi) files() map[string]string {
	url := c.url + map[string]string{
		"openai-completions": "/v1", "openai-responses": "/v1",
		"google-generative-ai": "/v1beta",
	}[c.api]
	return map[string]string{".pi/agent/models.json": settings(map[string]any{"providers": map[string]any{"box": map[string]any{
		"baseUrl": url, "apiKey": "sk-test", "api": c.api,
		"models": []any{map[string]any{
			"id": c.model(), "name": c.model(), "reasoning": true, "input": []string{"text"}, "contextWindow": 200000,
			"maxTokens": 16000,
			"cost":      map[string]any{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
		}},
	}}})}
}

func (c pi) command(_, prompt string, further bool) (args, env []string) {
	args = []string{"--provider", "box", "--model", c.model(), "--mode", "json", "-p"}
	if further {
		args = append(args, "--continue")
	}
	return append(args, prompt), []string{"PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1"}
}

func (c pi) last(stdout []byte) (text string, err error) {
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type    string `json:"type"`
			Message struct {
				Role    string          `json:"role"`
				Stop    string          `json:"stopReason"`
				Content json.RawMessage `json:"content"`
			} `json:"message"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		if l.Type != "message_end" || l.Message.Role != "assistant" {
			return nil
		}
		if l.Message.Stop == "error" || l.Message.Stop == "aborted" {
			return fmt.Errorf("it failed: %s", line)
		}
		var blocks []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(l.Message.Content, &blocks); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		var b strings.Builder
		for _, block := range blocks {
			if block.Type == "text" {
				b.WriteString(block.Text)
			}
		}
		text = b.String()
		return nil
	})
	return text, err
}

func (c pi) bash(command string) toolCall {
	return toolCall{"bash", map[string]any{"command": command}}
}

func (c pi) read(path string) toolCall { return toolCall{"read", map[string]any{"path": path}} }

func (c pi) edit(path, from, to string) toolCall {
	return toolCall{"edit", map[string]any{"path": path, "edits": []any{map[string]any{"oldText": from, "newText": to}}}}
}

func (c pi) write(path, text string) toolCall {
	return toolCall{"write", map[string]any{"path": path, "content": text}}
}
