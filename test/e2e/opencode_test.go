// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// opencode is opencode with one of its providers: anthropic (Messages), openai (Responses), or the
// user's own server (chat completions).
type opencode struct {
	url, provider, model string
	// window is the length of the model's context, in tokens. Default: opencode's own value, or
	// 200000.
	window int
}

func (c opencode) executable() (name, variable string) { return "opencode", "LLM_CACHE_OPENCODE" }

func (c opencode) resumes() bool { return true }

func (c opencode) files() map[string]string {
	provider := map[string]any{"options": map[string]any{"baseURL": c.url + "/v1", "apiKey": "sk-test"}}
	model := map[string]any{"name": c.model, "tool_call": true}
	if c.provider == "box" {
		provider["npm"], provider["name"] = "@ai-sdk/openai-compatible", "box"
		model["reasoning"] = true
	}
	if c.provider == "box" || c.window > 0 {
		model["limit"] = map[string]any{"context": cmp.Or(c.window, 200000), "output": 4096}
		provider["models"] = map[string]any{c.model: model}
	}
	config, err := json.Marshal(map[string]any{
		"autoupdate": false, "share": "disabled", "snapshot": false, "lsp": false, "formatter": false, "model": c.name(),
		"provider":   map[string]any{c.provider: provider},
		"permission": map[string]any{"edit": "allow", "bash": "allow", "webfetch": "deny"},
	})
	if err != nil {
		panic(err) // all values are literals
	}
	return map[string]string{".config/opencode/opencode.json": string(config)}
}

func (c opencode) name() string { return c.provider + "/" + c.model }

func (c opencode) command(_, prompt string, further bool) (args, env []string) {
	args = []string{"run", "--model", c.name(), "--format", "json"}
	if further {
		args = append(args, "--continue")
	}
	return append(args, prompt), []string{
		"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
	}
}

func (c opencode) last(stdout []byte) (text string, err error) {
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type string `json:"type"`
			Part struct {
				Text string `json:"text"`
			} `json:"part"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		switch l.Type {
		case "error":
			return fmt.Errorf("it failed: %s", line)
		case "text":
			text = strings.TrimSpace(l.Part.Text)
		}
		return nil
	})
	return text, err
}

func (c opencode) bash(command string) toolCall {
	return toolCall{"bash", map[string]any{"command": command, "description": "Run a command"}}
}

func (c opencode) read(path string) toolCall {
	return toolCall{"read", map[string]any{"filePath": path}}
}

// With OpenAI's models opencode has one tool for edit and write.
func (c opencode) edit(path, from, to string) toolCall {
	if c.provider == "openai" {
		return patch("*** Update File: " + path + "\n@@\n-" + from + "\n+" + to + "\n")
	}
	return toolCall{"edit", map[string]any{"filePath": path, "oldString": from, "newString": to}}
}

func (c opencode) write(path, text string) toolCall {
	if c.provider == "openai" {
		return patch("*** Add File: " + path + "\n+" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n+") + "\n")
	}
	return toolCall{"write", map[string]any{"filePath": path, "content": text}}
}

func patch(text string) toolCall {
	return toolCall{"apply_patch", map[string]any{"patchText": "*** Begin Patch\n" + text + "*** End Patch"}}
}
