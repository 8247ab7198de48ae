// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package threads

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// history returns the hashes of the messages: roles and content. With echoed, the hash of an answer ignores its
// form.
func history(v *wire.View, echoed bool) []wire.Hash {
	out := make([]wire.Hash, len(v.Messages))
	var said []byte
	for i := range v.Messages {
		m := &v.Messages[i]
		said = append(said[:0], byte(m.Role))
		for j := m.First; j < m.End; j++ {
			b := &v.Blocks[j]
			if !echoed || m.Role != wire.RoleAssistant {
				said = append(said, b.Hash[:]...)
				continue
			}
			// Clients that send whole conversations rewrite answers: in another order, with other escapes, without
			// parts that the model does not see.
			said = append(said, meaning(v.Bytes(b.Span), b)...)
		}
		sum := sha256.Sum256(said)
		copy(out[i][:], sum[:])
	}
	return out
}

// counts lists the members of an answer's blocks and items that the model sees. For other kinds,
// all members except the marker count.
var counts = map[string][]string{
	"text": {"text", "citations"}, "thinking": {"thinking", "signature"}, "redacted_thinking": {"data"},
	"tool_use": {"id", "name", "input"},
	"message":  {"role", "phase", "content"}, "output_text": {"text"}, "refusal": {"refusal"},
	"reasoning":        {"encrypted_content"},
	"function_call":    {"call_id", "namespace", "name", "arguments"},
	"custom_tool_call": {"call_id", "namespace", "name", "input"},
}

func meaning(raw []byte, b *wire.Block) []byte {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return b.Hash[:]
	}
	if text, ok := value.(string); ok { // a content of one text
		value = map[string]any{"type": "text", "text": text}
	}
	block, ok := value.(map[string]any)
	if !ok {
		return b.Hash[:]
	}
	block = few(block)
	if text, _ := block["text"].(string); block["type"] == "text" && strings.TrimSpace(text) == "" {
		return nil
	}
	delete(block, "cache_control")
	out, err := json.Marshal(block)
	if err != nil {
		return b.Hash[:]
	}
	return append(out, 0)
}

func few(block map[string]any) map[string]any {
	kind, _ := block["type"].(string)
	if kind == "" && block["role"] != nil {
		kind = "message"
	}
	names := counts[kind]
	if names == nil || kind == "reasoning" && block["encrypted_content"] == nil {
		return block
	}
	out := map[string]any{"type": kind}
	for _, name := range names {
		if v := block[name]; v != nil {
			out[name] = v
		}
	}
	switch content := out["content"].(type) {
	case string:
		out["content"] = []any{map[string]any{"type": "output_text", "text": content}}
	case []any:
		for i := range content {
			if part, ok := content[i].(map[string]any); ok {
				content[i] = few(part)
			}
		}
	}
	if text, _ := out["arguments"].(string); text != "" { // clients that parse arguments rewrite them
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var value any
		if d.Decode(&value) == nil && !d.More() {
			out["arguments"] = value
		}
	}
	return out
}
