// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/hex"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Hash identifies a block by its canonical content: without cache markers and white space between
// tokens, and with a string content as one text block. Blocks of the same role and equal hashes
// mean the same to the model. The hash is the first half of a SHA-256: collisions cannot be
// constructed, and every process computes the same value.
type Hash [16]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the hash was never set.
func (h Hash) IsZero() bool { return h == Hash{} }

// Section is the part of the prompt that contains a block. The values follow the order in which
// providers render the sections.
type Section uint8

// The sections.
const (
	SectionTools Section = iota
	SectionSystem
	SectionMessages
)

// Role is the role of the message that contains a block.
type Role uint8

// The roles. RoleTool is a message of role "tool" in OpenAI chat, or a tool output in the Responses
// API; Anthropic tool results are part of RoleUser messages. RoleSystem includes "developer".
const (
	RoleNone Role = iota
	RoleSystem
	RoleUser
	RoleAssistant
	RoleTool
)

// Kind is the type of a block.
type Kind uint8

// The kinds of blocks. KindOther stands for block types that this package does not know; such
// blocks are never edited.
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
	// KindReasoning is a reasoning item of the Responses API, or a thought of the Interactions API.
	// It is opaque and bound to the next item: it is never edited, and nothing is inserted between
	// the two.
	KindReasoning
	// KindProgram is a tool call made by a program of the model, or its result. Code in the
	// provider's sandbox reads the result, the model does not. Such blocks take no prompt tokens
	// and are never edited or referred to.
	KindProgram
)

// IsCall reports whether a block of this kind is a call that needs a result.
func (k Kind) IsCall() bool { return k == KindToolUse || k == KindProgram }

// isPaired reports whether blocks of this kind belong to a call and its result.
func (k Kind) isPaired() bool {
	return k == KindToolUse || k == KindToolResult || k == KindServerTool || k == KindProgram
}

// Collapses reports whether a provider's lookback before a marker counts a run of blocks of this
// kind as one position.
func (k Kind) Collapses() bool { return k == KindToolUse || k == KindToolResult || k == KindProgram }

var kindNames = [...]string{"other", "tool_def", "text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document", "server_tool", "reasoning", "program"}

// String returns the kind's name in reports.
func (k Kind) String() string { return kindNames[k] }

// Kinds is the number of kinds, for arrays indexed by Kind.
const Kinds = len(kindNames)

// Flags are properties of a block.
type Flags uint8

const (
	// FlagError marks a tool result with is_error true.
	FlagError Flags = 1 << iota
	// FlagString marks a block in the form of a plain string, where an array of blocks is allowed
	// too: the whole content of its message, or the whole system prompt.
	FlagString
	// FlagDeferred marks a tool definition with defer_loading true.
	FlagDeferred
	// FlagMedia marks a tool result with non-text parts.
	FlagMedia
	// FlagEmpty marks an empty text or content.
	FlagEmpty
	// FlagMember marks a block that is a member of its message object, not an element of a content
	// array: reasoning_content of OpenAI chat.
	FlagMember
	// FlagSigned marks a part with a thoughtSignature of the model (Gemini), or a signed thought
	// and the call after it (Interactions). Such blocks are neither edited nor removed.
	FlagSigned
	// FlagPart marks one of several parts of an item (Responses API) or a step (Interactions API).
	// It is never removed.
	FlagPart
)

// Block is the unit that a provider hashes: one text, thinking, tool_use, tool_result, image or
// tool definition. Spans point into [View.Raw].
type Block struct {
	// Hash is the canonical hash of the block in its role.
	Hash Hash
	// Span is the whole JSON value: an object, or the string of a FlagString block. A FlagMember
	// block spans its member, key included. In the Responses API an answer's only text spans its
	// whole item.
	Span rawjson.Span
	// Body is the JSON value that a content edit replaces, empty for none: the string of a text or
	// thinking, the content of a tool_result, or the input of a tool_use. A tool_result has a
	// string or an array; in Gemini the string inside the response, or the whole response object.
	// An input is an object; in the OpenAI formats a string with JSON, or with free text for a
	// custom tool.
	Body rawjson.Span
	// ID is the id of a tool_use or the tool_use_id of a tool_result, without quotes. Optional in
	// Gemini.
	ID rawjson.Span
	// Name is the tool's name in a tool_use or tool definition, in Gemini also in a tool_result,
	// without quotes.
	Name rawjson.Span
	// Marker is the JSON value of the block's own cache_control (in the Responses API
	// prompt_cache_breakpoint), empty for none.
	Marker rawjson.Span
	// Message is the index in [View.Messages], -1 for tools and system.
	Message int32
	// Kind is the type of the block.
	Kind Kind
	// Section is the section of the prompt.
	Section Section
	// Role is the role of its message.
	Role Role
	// Flags are further properties of the block.
	Flags Flags
}

// Has reports whether the block has all the flags f.
func (b *Block) Has(f Flags) bool { return b.Flags&f == f }
