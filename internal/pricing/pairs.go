// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

type toolCall struct {
	turn int // index of the last message of the assistant's turn
	done bool
}

// validatePairs checks the pairs of tool calls and results of the Messages format.
func validatePairs(v *wire.View, _ Rules) *APIError {
	calls := make(map[string]toolCall)
	var open []string // the calls of the turn just before
	turn := -1        // that turn, -1 if it was not the assistant's
	for m := 0; m < len(v.Messages); {
		role, end := v.Messages[m].Role, m+1
		// The API merges messages of one role in a row.
		for end < len(v.Messages) && v.Messages[end].Role == role {
			end++
		}
		if err := answers(v, m, end, calls, turn); err != nil {
			return err
		}
		// Only the next user message may answer a call.
		if err := unanswered(turn, open, calls); err != nil {
			return err
		}
		open, turn = open[:0], -1
		if role == wire.RoleAssistant {
			turn = end - 1
			for i := v.Messages[m].First; i < v.Messages[end-1].End; i++ {
				b := &v.Blocks[i]
				if b.Kind != wire.KindToolUse {
					continue
				}
				id := v.Text(b.ID)
				if _, ok := calls[id]; ok {
					return invalid("messages: `tool_use` ids must be unique")
				}
				calls[id] = toolCall{turn: turn}
				open = append(open, id)
			}
		}
		m = end
	}
	return unanswered(turn, open, calls)
}

// answers marks the calls that a run of messages of one role answers.
func answers(v *wire.View, m, end int, calls map[string]toolCall, turn int) *APIError {
	first := true
	for i := v.Messages[m].First; i < v.Messages[end-1].End; i++ {
		b := &v.Blocks[i]
		if b.Kind != wire.KindToolResult {
			first = false
			continue
		}
		id := v.Text(b.ID)
		call, known := calls[id]
		if !known || call.turn != turn {
			return invalidf("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must "+
				"have a corresponding `tool_use` block in the previous message.", path(v, int(i)), id)
		}
		if call.done {
			return invalidf("%s: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s",
				path(v, int(i)), id)
		}
		// A result after other content does not count as an answer.
		call.done = first
		calls[id] = call
	}
	return nil
}

func unanswered(turn int, open []string, calls map[string]toolCall) *APIError {
	var missing []string
	for _, id := range open {
		if !calls[id].done {
			missing = append(missing, id)
		}
	}
	if missing == nil {
		return nil
	}
	return invalidf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each "+
		"`tool_use` block must have a corresponding `tool_result` block in the next message.", turn,
		strings.Join(missing, ", "))
}

// validateChat checks that tool messages answer each tool call of the chat format at once, and nothing else.
func validateChat(v *wire.View) *APIError {
	if len(v.Messages) == 0 {
		return invalid("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array " +
			"instead.")
	}
	open := make(map[string]bool) // calls of the last assistant message, and whether they are answered
	var order []string
	for m := range v.Messages {
		msg := &v.Messages[m]
		if msg.Role == wire.RoleTool {
			id := toolCallID(v, msg)
			if len(order) == 0 {
				//nolint:misspell // the API's own spelling
				return invalid("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with " +
					"'tool_calls'.")
			}
			if _, ok := open[id]; !ok {
				return invalidf("Invalid parameter: 'tool_call_id' of '%s' not found in 'tool_calls' of previous message.", id)
			}
			open[id] = true
			continue
		}
		if err := chatUnanswered(order, open); err != nil {
			return err
		}
		order = order[:0]
		// A later tool message may answer the latest assistant message only.
		clear(open)
		for i := msg.First; i < msg.End; i++ {
			if b := &v.Blocks[i]; b.Kind == wire.KindToolUse {
				id := v.Text(b.ID)
				open[id] = false
				order = append(order, id)
			}
		}
	}
	return chatUnanswered(order, open)
}

func toolCallID(v *wire.View, msg *wire.Message) string {
	for i := msg.First; i < msg.End; i++ {
		if v.Blocks[i].Kind == wire.KindToolResult {
			return v.Text(v.Blocks[i].ID)
		}
	}
	// A message without content has no block.
	return gjson.GetBytes(msg.Span.Of(v.Raw), "tool_call_id").Str
}

func chatUnanswered(order []string, open map[string]bool) *APIError {
	var missing []string
	for _, id := range order {
		if !open[id] {
			missing = append(missing, id)
		}
	}
	if missing == nil {
		return nil
	}
	return invalidf("An assistant message with 'tool_calls' must be followed by tool messages responding to each "+
		"'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(missing, ", "))
}
