// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"encoding/base64"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// The simulation of Gemini's implicit caching: every prefix of a request is remembered for five minutes at no price,
// and a later request reads the longest one at the reduced price. The price of reading and the shortest prefix are
// documented; hits are not promised, and the lifetime is not documented [D]. Finding every prefix favours the
// client's own bytes: a miss is billed in full, and every token removed from the prompt would then save ten times as
// much.

// geminiInvalid is the Gemini API's status of an invalid request.
const geminiInvalid = "INVALID_ARGUMENT"

func geminiError(e *APIError) *APIError {
	e.Type = geminiInvalid
	return e
}

// validateGemini checks that each turn's calls are answered in the next turn, and that the current turn's calls are
// signed.
func validateGemini(v *wire.View, r Rules) *APIError {
	if v.Conversation.Partial { // the calls may stand in the part that the provider retains
		return nil
	}
	calls := 0 // of the turn before
	for m := 0; m < len(v.Messages); {
		model := v.Messages[m].Role == wire.RoleAssistant
		n := [wire.Kinds]int{}
		// Contents of one role in a row count as one turn.
		for ; m < len(v.Messages) && (v.Messages[m].Role == wire.RoleAssistant) == model; m++ {
			for i := v.Messages[m].First; i < v.Messages[m].End; i++ {
				n[v.Blocks[i].Kind]++
			}
		}
		switch results := n[wire.KindToolResult]; {
		case model && results > 0, !model && results > 0 && calls == 0:
			return geminiError(invalid("Please ensure that function response turn comes immediately after a function call " +
				"turn."))
		case !model && results != calls:
			return geminiError(invalid("Please ensure that the number of function response parts is equal to the number of " +
				"function call parts of the function call turn."))
		}
		if calls = 0; model {
			calls = n[wire.KindToolUse]
		}
	}
	if r.SignsCalls {
		return unsignedCall(v)
	}
	return nil
}

// unsignedCall checks that each step since the last prompt signs its first call.
func unsignedCall(v *wire.View) *APIError {
	called := false // in this step
	// A step is one content or several on end: the SDK's chats keep every chunk of an answer as one. Parallel calls
	// share the signature of the first.
	for m := lastPrompt(v); m < len(v.Messages); m++ {
		msg := &v.Messages[m]
		called = called && msg.Role == wire.RoleAssistant
		for i := msg.First; i < msg.End && msg.Role == wire.RoleAssistant && !called; i++ {
			b := &v.Blocks[i]
			if b.Kind != wire.KindToolUse {
				continue
			}
			if thoughtSignature(v, b) == "" {
				return geminiError(invalidf("Function call is missing a thought_signature in functionCall parts. This is "+
					"required for tools to work correctly. Additional data, function call `default_api:%s`, position %d.",
					v.Text(b.Name), m+1))
			}
			called = true
		}
	}
	return nil
}

func thoughtSignature(v *wire.View, b *wire.Block) string {
	s := b.Span.Of(v.Raw)
	// Protobuf's JSON accepts both spellings, and the Interactions API has a third.
	for _, name := range [...]string{"thoughtSignature", "thought_signature", "signature"} {
		if value := gjson.GetBytes(s, name); value.Type == gjson.String {
			return value.Str
		}
	}
	return ""
}

func offers(v *wire.View, name string) bool {
	for i := range v.Blocks[:v.Tools] {
		if v.Text(v.Blocks[i].Name) == name {
			return true
		}
	}
	return false
}

// intercepted reports whether a block belongs to a call that the handler answered itself, unseen by the client.
func intercepted(c Call, i int) bool {
	b := &c.View.Blocks[i]
	// Thinking in front of such a call is the handler's, too.
	if (b.IsThinking() || b.Kind == wire.KindReasoning) && i+1 < len(c.View.Blocks) {
		return intercepted(c, i+1)
	}
	name := c.View.Text(b.Name)
	// The client has not offered the tool, but the request does.
	return b.Kind == wire.KindToolUse && offers(c.View, name) && !offers(c.Client, name)
}

// unaltered checks that signed parts come back unchanged.
func unaltered(c Call) *APIError {
	if !c.View.Traits().SignedParts {
		return nil
	}
	var whole map[wire.Hash]int
	if c.Client != nil && c.Client != c.View {
		whole = make(map[wire.Hash]int)
		for i := range c.Client.Blocks {
			if b := &c.Client.Blocks[i]; b.Has(wire.FlagSigned) {
				whole[b.Hash]++
			}
		}
	}
	for i := range c.View.Blocks {
		b := &c.View.Blocks[i]
		if !b.Has(wire.FlagSigned) {
			continue
		}
		if _, err := base64.StdEncoding.DecodeString(thoughtSignature(c.View, b)); err != nil {
			return geminiError(invalid("Corrupted thought signature."))
		}
		// Edits must not copy, alter or invent a signed part: each one in the view is one of the client's.
		if whole != nil && !intercepted(c, i) {
			if whole[b.Hash]--; whole[b.Hash] < 0 {
				return geminiError(invalid("Corrupted thought signature."))
			}
		}
	}
	return nil
}
