// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

// Role is who speaks in a message.
type Role uint8

// The roles. Results of tools stand in messages of the user.
const (
	User Role = iota
	Assistant
	System
)

// Message is one message: what one side said before the other spoke.
type Message struct {
	// Role is who speaks.
	Role Role
	// Parts are what is said.
	Parts []Part
}

// PartKind says what a part is.
type PartKind uint8

// The kinds of parts.
const (
	// TextPart is text.
	TextPart PartKind = iota
	// ThinkingPart is reasoning, with text or something sealed or both.
	ThinkingPart
	// CallPart is a call of a tool.
	CallPart
	// ResultPart is the result of a call.
	ResultPart
	// MediaPart is an image, a document or a sound.
	MediaPart
)

// Part is one piece of a message. A request may have tens of thousands: what few
// parts have stands behind a pointer.
type Part struct {
	// Kind is what the part is.
	Kind PartKind
	// Failed tells that the tool failed, of a result.
	Failed bool
	// Text is the text of a TextPart or ThinkingPart.
	Text rawjson.Text
	// Sealed is what the provider gave out with a ThinkingPart, nil if nothing.
	Sealed *seal.Sealed
	// Signature is what Gemini gave out with a call or a text.
	Signature string
	// ID is the id of a call, or of the call that a result answers.
	ID string
	// Tool is the tool of a call or result.
	Tool ToolName
	// Input is the input of a call: a JSON value, or for a custom tool nil, its
	// input being in Text.
	Input rawjson.Value
	// Content is the content of a result: texts and media.
	Content []Part
	// Media is what a MediaPart holds.
	Media *Media
	// Cache is the part's cache_control.
	Cache rawjson.Value
}

// Proof is what came sealed with a part, empty if nothing did.
func (p *Part) Proof() seal.Sealed {
	if p.Sealed == nil {
		return seal.Sealed{}
	}
	return *p.Sealed
}
