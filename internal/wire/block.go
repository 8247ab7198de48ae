// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/hex"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Hash identifies a block by its canonical content: cache markers dropped, a
// string content counted as one text block, white space between tokens
// ignored. Equal hashes mean equal meaning to the model, in the same role.
// It is the first half of a SHA-256, so that no content can be made to collide
// with another, and it is the same in every process.
type Hash [16]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the hash was never set.
func (h Hash) IsZero() bool { return h == Hash{} }

// Section is the part of a prompt that a block stands in, in the order in
// which providers render them.
type Section uint8

// The sections.
const (
	SectionTools Section = iota
	SectionSystem
	SectionMessages
)

// Role is the role of the message that a block stands in.
type Role uint8

// The roles. RoleTool is a message of role "tool" in OpenAI chat, or outputs of
// tools in the Responses API; in Anthropic tool results stand in messages of
// RoleUser. RoleSystem covers "developer".
const (
	RoleNone Role = iota
	RoleSystem
	RoleUser
	RoleAssistant
	RoleTool
)

// Kind is what a block is.
type Kind uint8

// The kinds of blocks. Blocks of a type that this package does not know are
// KindOther and are never edited.
const (
	KindOther Kind = iota
	KindToolDef
	KindText
	KindThinking
	KindRedactedThinking
	KindToolUse
	KindToolResult
	KindImage
	KindDocument
	KindServerTool
	// KindReasoning is a reasoning item of the Responses API, or a thought of the
	// Interactions API. It is opaque and
	// belongs to the item behind it: it is never edited, and nothing comes
	// between the two.
	KindReasoning
	// KindProgram is a call of a client's tool by a program of the model's, or the
	// result of one: code in the provider's sandbox reads the result, the model
	// never does. Neither is edited or pointed to, and neither takes tokens.
	KindProgram
)

// IsCall reports whether a block of an answer of this kind is a call that waits for a
// result.
func (k Kind) IsCall() bool { return k == KindToolUse || k == KindProgram }

// isPaired reports whether a block of this kind is one of a call and its result.
func (k Kind) isPaired() bool {
	return k == KindToolUse || k == KindToolResult || k == KindServerTool || k == KindProgram
}

// Collapses reports whether providers that count positions in front of a marker count
// a run of blocks of this kind as one.
func (k Kind) Collapses() bool { return k == KindToolUse || k == KindToolResult || k == KindProgram }

var kindNames = [...]string{"other", "tool_def", "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "server_tool", "reasoning", "program"}

// String returns the name of the kind as it stands in reports.
func (k Kind) String() string { return kindNames[k] }

// Kinds is the number of kinds, for arrays indexed by Kind.
const Kinds = len(kindNames)

// Flags are properties of a block.
type Flags uint8

const (
	// FlagError marks a tool result with is_error true.
	FlagError Flags = 1 << iota
	// FlagString marks a block that stands as a plain string where an array
	// of blocks would be allowed too: it is the whole content of its message
	// (or the whole system prompt).
	FlagString
	// FlagDeferred marks a tool definition with defer_loading true.
	FlagDeferred
	// FlagMedia marks a tool result whose content holds parts that are not text.
	FlagMedia
	// FlagEmpty marks a text or content of zero characters.
	FlagEmpty
	// FlagMember marks a block that is a member of its message object, not an
	// element of a content array: reasoning_content of OpenAI chat.
	FlagMember
	// FlagSigned marks a part with a thoughtSignature of the model (Gemini), or a
	// thought with a signature and the call behind it (Interactions). It goes back as it came: it is neither edited nor removed.
	FlagSigned
	// FlagPart marks a block that is one of several parts of an item in the
	// Responses API or of a step in the Interactions API. It is never removed.
	FlagPart
)

// Block is the unit that a provider hashes: one text, thinking, tool_use,
// tool_result, image, one tool definition. Spans point into [View.Raw].
type Block struct {
	// Hash is the canonical hash of the block in its role.
	Hash Hash
	// Span is the whole JSON value: an object, or the string of a FlagString
	// block. A FlagMember block spans its member, key included. The text of an
	// answer in the Responses API spans its item, if it is all that is in it.
	Span rawjson.Span
	// Body is the JSON value that an edit of the content may replace: the
	// string of a text or thinking, the content of a tool_result (a string
	// or an array; in Gemini a string in the response, or the whole response,
	// an object), the input of a tool_use: an object, or in the OpenAI formats
	// a string, which holds JSON or, of a custom tool, free text. Empty where
	// there is none.
	Body rawjson.Span
	// ID is the id of a tool_use or the tool_use_id of a tool_result, without
	// quotes. Gemini may leave it out on either side.
	ID rawjson.Span
	// Name is the tool's name in a tool_use or a tool definition, in Gemini also
	// in a tool_result, without quotes.
	Name rawjson.Span
	// Marker is the JSON value of the block's own cache_control (in the
	// Responses API prompt_cache_breakpoint), empty if it has none.
	Marker rawjson.Span
	// Message is the index in [View.Messages], -1 for tools and system.
	Message int32
	// Kind is what the block is.
	Kind Kind
	// Section is where the block stands.
	Section Section
	// Role is the role of its message.
	Role Role
	// Flags are further properties.
	Flags Flags
}

// Has reports whether the block has all the flags f.
func (b *Block) Has(f Flags) bool { return b.Flags&f == f }
