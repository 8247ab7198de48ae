// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"encoding/json"
	"regexp"
)

// secret matches keys of known vendors by their prefixes, JSON Web Tokens, and private keys. A
// colour's or a line's escape sequence in JSON may precede a key.
var secret = regexp.MustCompile(`(\\[nrt]|\[[0-9;]*m|\b)(?:sk-[A-Za-z0-9_-]{16,` +
	`}|(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|` +
	`A[KS]IA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,` +
	`}|(?:rk|pk|sk)_(?:live|test)_[A-Za-z0-9]{16,}|` +
	`eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*-----END [A-Z ]*PRIVATE KEY-----`)

// named matches a value after a name such as key, token, secret or password. Its second group is
// the value.
var named = regexp.MustCompile(`(?i)((?:api[_-]?key|access[_-]?key|secret|token|passw(?:or)?d|authorization|bearer)[A-Za-z0-9_]{0,20}(?:\\*["'])?\s{0,2}[:= ]\s{0,2}(?:\\*["'])?(?:(?:bearer|basic) )?)([A-Za-z0-9+/_.~=-]{20,})`)

const redacted = "REDACTED"

// Redact replaces keys and tokens in all texts. Signatures and ids stay, because a conversation
// needs them.
func (p *Part) Redact() {
	for i := range p.Header.System {
		p.Header.System[i] = redactJSON(p.Header.System[i])
	}
	for _, c := range p.Calls {
		for i := range c.Messages {
			for j := range c.Messages[i].Content {
				c.Messages[i].Content[j] = c.Messages[i].Content[j].redact()
			}
		}
	}
}

func (b Block) redact() Block {
	switch b.Type {
	case "text":
		return textBlock(redactText(b.Text))
	case "thinking":
		return thinkingBlock(redactText(b.Thinking), b.Signature)[0]
	case "tool_use":
		return callBlock(b.ID, b.Name, string(redactJSON(b.Input)))
	case "tool_result":
		var flags struct {
			Failed bool `json:"is_error"`
		}
		_ = json.Unmarshal(b.Raw, &flags) // the JSON is our own
		return resultBlock(b.ToolUseID, redactJSON(b.Content), flags.Failed)
	}
	return b
}

func redactText(s string) string {
	return named.ReplaceAllString(secret.ReplaceAllString(s, "${1}"+redacted), "${1}"+redacted)
}

func redactJSON(raw json.RawMessage) json.RawMessage {
	if out := json.RawMessage(redactText(string(raw))); json.Valid(out) {
		return out
	}
	return quoted(redacted)
}
