// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// validateResponses checks the pairs of tool calls and outputs of the Responses format, and that an item follows
// each reasoning.
func validateResponses(v *wire.View) *APIError {
	// The front of a conversation that the provider retains is not in the request, so an output without a call is
	// no error.
	partial := v.Conversation.Partial
	calls := make(map[string]bool) // and whether they are answered
	var order []string
	for i := range v.Blocks {
		b := &v.Blocks[i]
		switch id := v.Text(b.ID); b.Kind {
		case wire.KindOther:
			// A reference may name a call.
			partial = partial || gjson.GetBytes(b.Span.Of(v.Raw), "type").Str == "item_reference"
		case wire.KindReasoning:
			if next := i + 1; next == len(v.Blocks) || v.Blocks[next].Message != b.Message {
				return invalidf("Item '%s' of type 'reasoning' was provided without its required following item.",
					gjson.GetBytes(b.Span.Of(v.Raw), "id").Str)
			}
		case wire.KindToolUse:
			if _, twice := calls[id]; !twice {
				order = append(order, id)
			}
			calls[id] = false
		case wire.KindToolResult:
			if _, ok := calls[id]; !ok && !partial && id != "" {
				return invalidf("No tool call found for %s with call_id %s.", outputName(v, b), id)
			}
			calls[id] = true
		}
	}
	for _, id := range order {
		if !calls[id] {
			return invalidf("No tool output found for function call %s.", id)
		}
	}
	return nil
}

func outputName(v *wire.View, b *wire.Block) string {
	if gjson.GetBytes(b.Span.Of(v.Raw), "type").Str == "custom_tool_call_output" {
		return "custom tool call output"
	}
	return "function call output"
}

// validateInteractions checks the pairs of calls and results of the Interactions API.
func validateInteractions(v *wire.View) *APIError {
	// The provider retains the front, which may contain the other half of a pair.
	if v.Conversation.Partial {
		return nil
	}
	refuse := func(e *APIError) *APIError {
		e.Type = "invalid_request"
		return e
	}
	calls := make(map[string]bool) // and whether they are answered
	var order []string
	for i := range v.Blocks {
		switch b, id := &v.Blocks[i], v.Text(v.Blocks[i].ID); b.Kind {
		case wire.KindToolUse:
			if id == "" || b.Name.Empty() {
				return refuse(invalid("Function call steps must have an id and a name."))
			}
			calls[id], order = false, append(order, id)
		case wire.KindToolResult:
			if _, ok := calls[id]; !ok {
				return refuse(invalidf("No function call found for function result with call_id %s.", id))
			}
			calls[id] = true
		}
	}
	for _, id := range order {
		if !calls[id] {
			return refuse(invalidf("No function result found for function call %s.", id))
		}
	}
	return nil
}
