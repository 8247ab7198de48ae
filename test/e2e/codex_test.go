// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// codex is Codex CLI with its default model, which writes programs that call tools.
type codex struct {
	url string
	// compact is the prompt length at which it compacts, in tokens.
	compact int
	// socket selects its own provider over a WebSocket.
	socket bool
}

func (c codex) executable() (name, variable string) { return "codex", "LLM_CACHE_CODEX" }

func (c codex) resumes() bool { return true }

func (c codex) files() map[string]string {
	if c.socket {
		return map[string]string{".codex/config.toml": `openai_base_url = "` + c.url + `/v1"
check_for_update_on_startup = false

[analytics]
enabled = false
`}
	}
	config := `model_provider = "llm_cache"
check_for_update_on_startup = false
`
	if c.compact > 0 {
		config += "model_auto_compact_token_limit = " + strconv.Itoa(c.compact) + "\n"
	}
	return map[string]string{".codex/config.toml": config + `
[analytics]
enabled = false

[model_providers.llm_cache]
name = "llm_cache"
base_url = "` + c.url + `/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
`}
}

func (c codex) command(home, prompt string, further bool) (args, env []string) {
	args = []string{"exec"}
	if further {
		args = append(args, "resume", "--last")
	}
	args = append(args, "--json", "--dangerously-bypass-approvals-and-sandbox", prompt)
	return args, []string{"OPENAI_API_KEY=sk-test", "CODEX_API_KEY=sk-test", "CODEX_HOME=" + home + "/.codex"}
}

func (c codex) last(stdout []byte) (text string, err error) {
	err = eachLine(stdout, func(line []byte) error {
		var l struct {
			Type string `json:"type"`
			Item struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"item"`
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
		switch {
		case l.Type == "turn.failed":
			return fmt.Errorf("it failed: %s", line)
		case l.Type == "item.completed" && l.Item.Type == "agent_message":
			text = l.Item.Text
		}
		return nil
	})
	return text, err
}

func (c codex) bash(command string) toolCall {
	quoted, err := json.Marshal(command)
	if err != nil {
		panic(err) // a string
	}
	return toolCall{"exec", fmt.Sprintf("const r = await tools.exec_command({cmd: %s});\ntext(r);", quoted)}
}

func (c codex) read(path string) toolCall { return c.bash("cat " + path) }

func (c codex) edit(path, from, to string) toolCall {
	return c.bash("sed -i '0,/" + sed(from) + "/s//" + sed(to) + "/' " + path)
}

func (c codex) write(path, text string) toolCall {
	return c.bash("cat > " + path + " <<'END'\n" + text + "END\n")
}

// sed escapes special characters of sed's commands.
func sed(s string) string { return strings.NewReplacer(`/`, `\/`, `.`, `\.`, `&`, `\&`).Replace(s) }
