// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"

// Codec is a [wire.Codec] of a format that supports intercepted calls: calls that are answered on the
// way, without the client.
type Codec interface {
	// Intercepts reports whether the answer to a request can have intercepted calls. It cannot if the next
	// request may only refer to this one.
	Intercepts(v *wire.View) bool
	// DeclareTool returns an entry of tools: a function with a name, a description, and a JSON
	// schema of its arguments.
	DeclareTool(name, description, schema string) []byte
	// Intercept begins a message for the client.
	Intercept(r *Message) Interception
	// Continuation returns an answer and the results of its intercepted calls as comma-separated
	// messages. Appended to a request's messages, they make the upstream continue.
	Continuation(it *Iteration) []byte
	// Reinsert returns the edits that restore the intercepted calls and results in an assistant message
	// of the client. It returns false if the message differs from the one sent to the client.
	Reinsert(v *wire.View, message int, its []Iteration) ([]wire.Edit, bool)
}

func codec(f wire.Format) Codec {
	i, _ := f.Codec().(Codec)
	return i
}

// Possible reports whether the answer to a request can have intercepted calls, see [Codec.Intercepts].
func Possible(v *wire.View) bool {
	i := codec(v.Format)
	return i != nil && v.Conversation.Thread.Empty() && i.Intercepts(v)
}

// DeclareTool calls [Codec.DeclareTool]. It returns nil for a format without a [Codec].
func DeclareTool(f wire.Format, name, description, schema string) []byte {
	if i := codec(f); i != nil {
		return i.DeclareTool(name, description, schema)
	}
	return nil
}

// Continuation calls [Codec.Continuation] of a format with a [Codec].
func Continuation(f wire.Format, it *Iteration) []byte { return codec(f).Continuation(it) }

// Reinsert calls [Codec.Reinsert]. It returns false for a format without a [Codec] or a message of
// another role.
func Reinsert(v *wire.View, message int, its []Iteration) ([]wire.Edit, bool) {
	i := codec(v.Format)
	if i == nil || message < 0 || message >= len(v.Messages) || v.Messages[message].Role != wire.RoleAssistant {
		return nil, false
	}
	return i.Reinsert(v, message, its)
}
