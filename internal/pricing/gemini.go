// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package pricing

import (
	"encoding/base64"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Gemini's implicit caching, as it is simulated: every prefix that a request has
// shown is remembered for a short time at no price, and the longest of them that
// a later request begins with is read at the reduced price. Documented are the
// price of reading and the shortest prefix; that a prefix is found is not
// promised, for how long it is kept is not said [D]; the table has five minutes. The simulator finds every
// prefix for that time. That favours the client's own bytes: what is not found is
// billed in full, and then every token that was taken out of the prompt saves ten
// times as much.

// geminiInvalid is what the Gemini API calls a request that is wrong.
const geminiInvalid = "INVALID_ARGUMENT"

func geminiError(e *APIError) *APIError {
	e.Type = geminiInvalid
	return e
}

// validateGemini checks that the calls of each turn of the model are answered in
// the turn behind it, as many as there are, and that the calls of the current
// turn are signed. Contents of one side in a row count as one turn.
func validateGemini(v *wire.View, r Rules) *APIError {
	if v.Conversation.Partial { // what stands in front is not known
		return nil
	}
	calls := 0 // of the turn before
	for m := 0; m < len(v.Messages); {
		model := v.Messages[m].Role == wire.RoleAssistant
		n := [wire.Kinds]int{}
		for ; m < len(v.Messages) && (v.Messages[m].Role == wire.RoleAssistant) == model; m++ {
			for i := v.Messages[m].First; i < v.Messages[m].End; i++ {
				n[v.Blocks[i].Kind]++
			}
		}
		switch results := n[wire.KindToolResult]; {
		case model && results > 0, !model && results > 0 && calls == 0:
			return geminiError(invalid("Please ensure that function response turn comes immediately after a function call turn."))
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

// unsignedCall checks that in each step of the model since the last prompt the
// first call has a signature, or what may stand for one. A step is one content or
// several on end: the SDK's chats keep every chunk of an answer as one.
func unsignedCall(v *wire.View) *APIError {
	called := false // in this step
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

// thoughtSignature returns the signature of a part or a step, empty if it has none.
func thoughtSignature(v *wire.View, b *wire.Block) string {
	s := b.Span.Of(v.Raw)
	for _, name := range [...]string{"thoughtSignature", "thought_signature", "signature"} {
		if value := gjson.GetBytes(s, name); value.Type == gjson.String {
			return value.Str
		}
	}
	return ""
}

// offers reports whether a request offers a tool.
func offers(v *wire.View, name string) bool {
	for i := range v.Blocks[:v.Tools] {
		if v.Text(v.Blocks[i].Name) == name {
			return true
		}
	}
	return false
}

// intercepted reports whether a block calls a tool that the client has not offered, but
// the request does: a call that the client never saw; or is what was thought in front
// of such a call.
func intercepted(c Call, i int) bool {
	b := &c.View.Blocks[i]
	if (isThinking(b) || b.Kind == wire.KindReasoning) && i+1 < len(c.View.Blocks) {
		return intercepted(c, i+1)
	}
	name := c.View.Text(b.Name)
	return b.Kind == wire.KindToolUse && offers(c.View, name) && !offers(c.Client, name)
}

// unaltered checks that what the provider signed comes back as it was: a part
// with a signature is one that the client holds too, or one that it never saw.
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
		if whole != nil && !intercepted(c, i) {
			if whole[b.Hash]--; whole[b.Hash] < 0 {
				return geminiError(invalid("Corrupted thought signature."))
			}
		}
	}
	return nil
}
