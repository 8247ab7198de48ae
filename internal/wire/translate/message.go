// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

// Role is the author of a message.
type Role uint8

// The roles. Tool results are parts of user messages.
const (
	User Role = iota
	Assistant
	System
)

// Message is one message of the conversation.
type Message struct {
	// Role is the author.
	Role Role
	// Parts are the parts of the message.
	Parts []Part

	origin origin
}

// origin is the entry of the client's list of messages that opened a message, zero for messages that
// this package adds.
type origin struct {
	at      int32 // index in the body
	element int32 // index in the list
	entries int32 // entries read before it, see [wire.MaxElements]
}

// PartKind is the type of a part.
type PartKind uint8

// The kinds of parts.
const (
	// TextPart is text.
	TextPart PartKind = iota
	// ThinkingPart is reasoning, with text, a signature or both.
	ThinkingPart
	// CallPart is a tool call.
	CallPart
	// ResultPart is the result of a call.
	ResultPart
	// MediaPart is an image, a document or a sound.
	MediaPart
)

// Part is one piece of a message. Rarely used data is behind pointers, because a request may have
// tens of thousands of parts.
type Part struct {
	// Kind is the type of the part.
	Kind PartKind
	// Failed reports that the tool failed (ResultPart).
	Failed bool
	// Text is the text of a TextPart or ThinkingPart.
	Text rawjson.Text
	// Sealed is the provider's signature of a ThinkingPart, nil for none.
	Sealed *seal.Sealed
	// Signature is Gemini's signature of a call or text.
	Signature string
	// ID is the id of a call, or of a result's call.
	ID string
	// Tool is the tool of a call or result.
	Tool ToolName
	// Input is the input of a call as a JSON value. It is nil for a custom tool, with the input in
	// Text.
	Input rawjson.Value
	// Content is the content of a result: texts and media.
	Content []Part
	// Media is the content of a MediaPart.
	Media *Media
	// Cache is the part's cache_control.
	Cache rawjson.Value
}

// Proof returns the part's signature, empty for none.
func (p *Part) Proof() seal.Sealed {
	if p.Sealed == nil {
		return seal.Sealed{}
	}
	return *p.Sealed
}
