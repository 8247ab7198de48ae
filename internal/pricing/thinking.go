// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func validateThinking(v *wire.View, r Rules) *APIError {
	manual := manualThinking(v)
	switch choice := member(v, v.Reply.ToolChoice, "type"); {
	case choice != "tool" && choice != "any":
	case r.RefusesForcedTools:
		return invalid(`tool_choice: type "tool" and "any" are not supported for this model.`)
	// Adaptive thinking may be combined with a forced tool.
	case manual:
		return invalid("Thinking may not be enabled when tool_choice forces tool use.")
	}
	last := -1
	for m := range v.Messages {
		msg := &v.Messages[m]
		if msg.Role != wire.RoleAssistant || msg.First == msg.End {
			continue
		}
		last = m
		// The answers of one turn may come in several messages.
		if m+1 < len(v.Messages) && v.Messages[m+1].Role == wire.RoleAssistant {
			continue
		}
		if v.Blocks[msg.End-1].IsThinking() {
			return invalidf("messages.%d: The final block in an assistant message cannot be `thinking`.", m)
		}
	}
	if !manual || last < 0 || !inToolLoop(v) {
		return nil
	}
	return manualOrder(v, last)
}

// manualOrder checks the answers of an open tool loop under a fixed thinking budget.
func manualOrder(v *wire.View, last int) *APIError {
	// The loop's first answer begins with thinking.
	for m := lastPrompt(v) + 1; m <= last; m++ {
		msg := &v.Messages[m]
		if msg.Role != wire.RoleAssistant || msg.First == msg.End {
			continue
		}
		if b := &v.Blocks[msg.First]; !b.IsThinking() {
			//nolint:misspell // the API's own spelling
			return invalidf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When "+
				"`thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost "+
				"set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To "+
				"avoid this requirement, disable `thinking`. Please consult our documentation at "+
				"https://docs.claude.com/en/docs/build-with-claude/extended-thinking", m, b.Kind)
		}
		break
	}
	// The latest one needs none, but if it has any it begins with it.
	msg := &v.Messages[last]
	first := &v.Blocks[msg.First]
	for i := msg.First + 1; i < msg.End && !first.IsThinking(); i++ {
		if v.Blocks[i].IsThinking() {
			return invalidf("messages.%d.content.0: If an assistant message contains any thinking blocks, the first block "+
				"must be `thinking` or `redacted_thinking`. Found `%s`.", last, first.Kind)
		}
	}
	return nil
}

func manualThinking(v *wire.View) bool { return member(v, v.Reply.Thinking, "type") == "enabled" }

// inToolLoop reports whether the request continues a turn.
func inToolLoop(v *wire.View) bool {
	for m, msg := range slices.Backward(v.Messages) {
		// System messages may follow the tool result.
		if msg.Role != wire.RoleSystem {
			return answersTool(v, m)
		}
	}
	return false
}

func lastAnswer(v *wire.View) int {
	for m, msg := range slices.Backward(v.Messages) {
		if msg.Role == wire.RoleAssistant {
			return m
		}
	}
	return -1
}
