// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// codex is Codex CLI with its default model, which writes programs that call tools.
type codex struct {
	url string
	// compact is the prompt length at which it compacts, in tokens.
	compact int
	// socket selects its own provider over a WebSocket.
	socket bool
	// login has a ChatGPT login instead of a key.
	login bool
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
	if c.login {
		// Requests about the account come here, too: without a network, those to ChatGPT would hang for minutes.
		return map[string]string{
			".codex/auth.json": chatGPTLogin(time.Now()),
			".codex/config.toml": `model_provider = "llm_cache"
chatgpt_base_url = "` + c.url + `/backend-api/"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.llm_cache]
name = "llm_cache"
base_url = "` + c.url + `/backend-api/codex"
wire_api = "responses"
requires_openai_auth = true
`,
		}
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

// chatGPTLogin returns the auth.json of a made-up account with the plan Plus. Codex reads the claims of
// its tokens and leaves their signature to the server.
func chatGPTLogin(now time.Time) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // strings and numbers
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	token := part(map[string]any{"alg": "none", "typ": "JWT"}) + "." + part(map[string]any{
		"email": "anna@example.com", "exp": now.Add(240 * time.Hour).Unix(),
		"https://api.openai.com/auth": map[string]string{
			"chatgpt_account_id": "account-anna", "chatgpt_plan_type": "plus", "chatgpt_user_id": "user-anna",
		},
	}) + "." + base64.RawURLEncoding.EncodeToString([]byte("none"))
	return fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"last_refresh":%q,"tokens":{"id_token":%q,"access_token":%q,`+
		`"refresh_token":"none","account_id":"account-anna"}}`, now.UTC().Format(time.RFC3339), token, token)
}

func (c codex) command(home, prompt string, further bool) (args, env []string) {
	args = []string{"exec"}
	if further {
		args = append(args, "resume", "--last")
	}
	args = append(args, "--json", "--dangerously-bypass-approvals-and-sandbox", prompt)
	if c.login {
		return args, []string{"CODEX_HOME=" + home + "/.codex"}
	}
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
