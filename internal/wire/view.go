// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Message is one entry of a request's messages. In the Responses API it is an input item or a run
// of items: the items of one answer, or its tool outputs.
type Message struct {
	// Span is the message object.
	Span rawjson.Span
	// Content is the JSON value of the content, empty if absent. For a run of items it is the run.
	Content rawjson.Span
	// First and End bound its blocks: View.Blocks[First:End].
	First, End int32
	// Role is the message's role.
	Role Role
}

// View is a parsed request: blocks with spans into the client's own bytes. It is read-only and safe
// for concurrent reads.
type View struct {
	// Format is the wire format of the body.
	Format Format
	// Model is the requested model.
	Model string
	// Vertex: the request is for a Google model at Vertex AI.
	Vertex bool
	// Raw is the body, as the client sent it (after content decoding).
	Raw []byte
	// Blocks are all blocks in prompt order: tools, system, messages.
	Blocks []Block
	// Messages are the entries of messages.
	Messages []Message
	// Tools and System are the ends of the first two sections: Blocks[:Tools] are tool definitions,
	// Blocks[Tools:System] the system prompt, Blocks[System:] the messages. The system prompt of
	// OpenAI chat is part of the messages, so System equals Tools there. Some clients of the
	// Responses API have all tools in messages, see [View.OffersTools].
	Tools, System int
	// Session is the conversation id that the body carries, if any: the
	// session_id in metadata.user_id, prompt_cache_key, or conversation.
	Session string
	// Tags is the value of tags (Messages API): labels for usage reports, which change nothing in the
	// response.
	Tags rawjson.Span

	// Reply, Conversation and Caching are the client's options beside the prompt.
	Reply        Reply
	Conversation Conversation
	Caching      Caching

	// Recalled is the number of blocks recognised from a [Known] without scanning.
	Recalled int

	known     *Known
	recalled  *Known    // the conversation's last request, nil if it was not recalled
	shared    int       // leading message blocks of recalled
	summaries []Summary // one for each complete run of messages
	traits    *Traits
}

// Reply is the requested form of the answer.
type Reply struct {
	// Stream requests a streamed answer.
	Stream bool
	// Array requests a stream in the form of one JSON array.
	Array bool
	// StreamOptions is the JSON value of stream_options (OpenAI chat).
	StreamOptions rawjson.Span
	// MaxTokens is the limit on the answer, -1 if absent.
	MaxTokens int
	// ToolChoice, Thinking and OutputConfig are the JSON values of the members
	// of these names (reasoning_effort in place of thinking in OpenAI chat;
	// reasoning and text in place of the last two in the Responses API;
	// toolConfig, thinkingConfig and the response's schema in Gemini).
	ToolChoice, Thinking, OutputConfig rawjson.Span
	// Service is the service level requested by the body and the path.
	Service Service
}

// Conversation is the part of a request about state at the provider.
type Conversation struct {
	// Partial: the body refers to a part of the prompt at the provider (previous_response_id,
	// conversation, cachedContent, a continued thread), so the messages are not the whole prompt.
	Partial bool
	// Unthreaded: the client asked for a thread, and the request handler removed it from Raw.
	Unthreaded bool
	// Stateless: the provider does not store the answer, so no later request can refer to it
	// (Responses and Interactions API, store: false).
	Stateless bool
	// Background: the client will fetch the answer from the provider later.
	Background bool
	// Resource is the member that refers to a resource of the provider's own API.
	Resource ResourceRef
	// Continues is the id of the answer that a Partial body continues, if it names one:
	// previous_response_id, previous_interaction_id, or previous_message_id of a thread.
	Continues string
	// Thread is the value of a top-level thread (Messages API). The provider keeps the conversation
	// or, if Partial, continues a kept one.
	Thread rawjson.Span
	// ContextManagement and Compaction are the values of the members of these names: options for
	// long histories, see [View.Management].
	ContextManagement, Compaction rawjson.Span
}

// Caching is the request's cache options, besides markers on blocks.
type Caching struct {
	// AutoMarker is the value of a top-level cache_control. The provider then marks the last
	// cacheable block itself, using one breakpoint.
	AutoMarker rawjson.Span
	// Retention is the lifetime of the prefix requested from OpenAI: prompt_cache_retention
	// (in_memory, 24h) or the ttl of prompt_cache_options (30m, 12h). Empty leaves it to the
	// provider.
	Retention string
	// Prewarms: the client wants no answer, only a cached prompt: max_tokens of 0 (Messages API),
	// or prewarm in prompt_cache_options.
	Prewarms bool
}

// Traits returns the facts about the view's format. They must not be modified.
func (v *View) Traits() *Traits {
	if v.traits != nil {
		return v.traits
	}
	return v.Format.Traits()
}

// Address sets the fields that a format has in the request path and query: the model, whether the
// answer is streamed, and its form. It changes nothing in other formats. Call it before sharing the
// view.
func (v *View) Address(path, query string) {
	a, ok := v.Format.Codec().(Addresser)
	if !ok {
		return
	}
	if base, model, stream, ok := a.Address(path); ok {
		v.Model, v.Reply.Stream = model, stream
		v.Reply.Array = v.Format.Array(stream, query)
		if p, ok := a.(Placer); ok {
			var level Service
			level, v.Vertex = p.Place(base)
			v.Reply.Service |= level
		}
	}
}

// Array reports whether the response is one JSON array of stream events, by the raw query.
func (f Format) Array(stream bool, query string) bool {
	if !stream || !f.Traits().ArrayStreams {
		return false
	}
	values, _ := url.ParseQuery(query) // the error is ignored: well-formed pairs count
	return values.Get("alt") != "sse"
}

// MessageBlocks returns the blocks of the messages section.
func (v *View) MessageBlocks() []Block { return v.Blocks[v.System:] }

// InheritsTools reports whether the model may have tools that are not in the request: those of a
// continued thread or of cachedContent.
func (v *View) InheritsTools() bool { return v.Conversation.Partial && !v.Traits().KeepsAnswers }

// OffersTools reports whether the request offers the model any tool.
func (v *View) OffersTools() bool {
	if v.Tools > 0 {
		return true
	}
	if !v.Traits().FlatItems {
		return false
	}
	// Items of the messages may define tools.
	for i := range v.Blocks {
		if v.Blocks[i].Kind == KindToolDef {
			return true
		}
	}
	return false
}

// Bytes returns the bytes of a span.
func (v *View) Bytes(s rawjson.Span) []byte { return s.Of(v.Raw) }

// Text returns the bytes of a span as a string.
func (v *View) Text(s rawjson.Span) string { return string(s.Of(v.Raw)) }

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

var kindNames = [...]string{
	"other", "tool_def", "text", "thinking", "redacted_thinking", "tool_use", "tool_result",
	"image", "document", "server_tool", "reasoning", "program",
}

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

// Service is the service level of a request, as far as it affects prices: a set of the values
// below. It is empty if unspecified.
type Service uint8

// The service levels of requests and answers.
const (
	// Standard is the default tier. Answers report it if another tier was requested.
	Standard Service = 1 << iota
	// Flex is served when there is capacity, Batch within a day.
	Flex
	Batch
	// Priority is served before others, Ultrafast faster still.
	Priority
	Ultrafast
	// Fast is Anthropic's fast mode (speed).
	Fast
	// Regional is served in one region (inference_geo, or the address).
	Regional
)

// tiers are the mutually exclusive values.
const tiers = Standard | Flex | Batch | Priority | Ultrafast

// ServiceTier parses the name of a tier: service_tier of all APIs, trafficType of Vertex AI.
func ServiceTier(name string) Service {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(strings.TrimPrefix(name, "service_tier_"), "on_demand_")
	switch name {
	case "default", "standard", "standard_only", "on_demand":
		return Standard
	case "flex":
		return Flex
	case "batch":
		return Batch
	case "priority", "fast":
		return Priority
	case "ultrafast":
		return Ultrafast
	}
	return 0 // auto, scale, and prepaid tiers
}

// ServiceSpeed parses speed of the Messages API.
func ServiceSpeed(name string) Service {
	if name == "fast" {
		return Fast
	}
	return 0
}

// ServiceGeo parses inference_geo of the Messages API.
func ServiceGeo(name string) Service {
	switch name {
	case "", "global", "not_available":
		return 0
	}
	return Regional
}

// Or returns the union of both services. The tier of s takes precedence.
func (s Service) Or(asked Service) Service {
	// The tiers are mutually exclusive.
	if s&tiers != 0 {
		asked &^= tiers
	}
	return s | asked
}

// String returns the values with a price of their own, in a fixed order, separated by spaces.
func (s Service) String() string {
	var names []string
	for i, name := range [...]string{"flex", "batch", "priority", "ultrafast", "fast", "regional"} {
		if s&(Flex<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// Management is the client's request to the provider to shorten a long history. The client keeps
// sending all of it.
type Management struct {
	// Results selects tool results for clearing, nil for none.
	Results *Clearing
	// Thinking is the number of last tasks that keep their thinking while earlier thinking is
	// cleared; 0 keeps all thinking.
	Thinking int
	// Compacts reports whether the provider shall summarize the history.
	Compacts bool
}

// Clearing configures the clearing of tool results: all but the last ones, once the prompt exceeds
// a limit.
type Clearing struct {
	// Tokens and Calls are the limits that the prompt must exceed, in tokens and in calls with a
	// result; 0 for no limit.
	Tokens, Calls int64
	// Keep is the number of last calls that keep their results.
	Keep int
	// AtLeast is the minimum number of tokens that clearing must save.
	AtLeast int64
	// Exclude lists the tools that keep their results.
	Exclude []string
	// Inputs clears the inputs of the calls as well; InputsOf does so for the listed tools.
	Inputs   bool
	InputsOf []string
}

// Excludes reports whether a tool keeps its results.
func (c *Clearing) Excludes(tool string) bool { return slices.Contains(c.Exclude, tool) }

// ClearsInput reports whether a tool's inputs are cleared with its results.
func (c *Clearing) ClearsInput(tool string) bool {
	return c.Inputs || slices.Contains(c.InputsOf, tool)
}

// Cuts reports whether results are cleared or the history is summarized. Both leave the prompt's
// content to the client; clearing thinking does not count.
func (m *Management) Cuts() bool { return m.Results != nil || m.Compacts }

// Management returns the client's request to shorten a long history.
func (v *View) Management() (m Management) {
	if c, ok := v.Format.Codec().(Manager); ok {
		if s := v.Bytes(v.Conversation.ContextManagement); len(s) > 0 {
			m = c.Management(gjson.ParseBytes(s))
		}
		if s := v.Bytes(v.Conversation.Compaction); len(s) > 0 && string(s) != "null" {
			m.Compacts = true
		}
	}
	return m
}
