// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package hidden

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// Codec is a [wire.Codec] of a format in which calls can be kept from the client
// and answered on the way.
type Codec interface {
	// Hides reports whether calls can be hidden in the answer to a request. They
	// cannot where the next request may only refer to this one.
	Hides(v *wire.View) bool
	// DeclareTool returns an entry of tools: a function with a name, a description,
	// and a JSON schema of its arguments.
	DeclareTool(name, description, schema string) []byte
	// Intercept begins a message for the client.
	Intercept(r *Message) Interception
	// Continuation returns an answer and the results of its hidden calls as messages
	// of a request, with commas between: what to put behind the last message to have
	// the upstream go on.
	Continuation(it *Iteration) []byte
	// Reinsert returns the edits that turn a message of the client, which is the
	// model's, back into what the upstream said and was told in its course. It
	// reports false for a message that is not the one that the client was given.
	Reinsert(v *wire.View, message int, its []Iteration) ([]wire.Edit, bool)
}

func codec(f wire.Format) Codec {
	i, _ := f.Codec().(Codec)
	return i
}

// Possible reports whether calls can be hidden in the answer to a request, see
// [Codec.Hides].
func Possible(v *wire.View) bool {
	i := codec(v.Format)
	return i != nil && v.Conversation.Thread.Empty() && i.Hides(v)
}

// DeclareTool is [Codec.DeclareTool] of a format that has it.
func DeclareTool(f wire.Format, name, description, schema string) []byte {
	return codec(f).DeclareTool(name, description, schema)
}

// Continuation is [Codec.Continuation] of a format that has it.
func Continuation(f wire.Format, it *Iteration) []byte { return codec(f).Continuation(it) }

// Reinsert returns the edits that turn a message of the client back into what the
// upstream said and was told in its course. The message must be the one that
// the client was given; if it does not look like it, Reinsert reports false.
func Reinsert(v *wire.View, message int, its []Iteration) ([]wire.Edit, bool) {
	i := codec(v.Format)
	if i == nil || message < 0 || message >= len(v.Messages) || v.Messages[message].Role != wire.RoleAssistant {
		return nil, false
	}
	return i.Reinsert(v, message, its)
}
