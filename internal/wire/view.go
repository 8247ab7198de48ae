// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/url"
	"strings"

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

	// Reply, Conversation and Caching are the client's options beside the prompt.
	Reply        Reply
	Conversation Conversation
	Caching      Caching

	// Recalled is the number of blocks recognised from a [Known] without scanning.
	Recalled int

	known  *Known
	traits *Traits
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
	// Held is the member that refers to a resource of the provider's own API.
	Held Held
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
		v.Model, v.Reply.Stream, v.Vertex = model, stream, strings.Contains(base, "/publishers/google/")
		v.Reply.Array = v.Format.Array(stream, query)
		// A location other than global is priced as regional.
		if _, region, ok := strings.Cut(base, "/locations/"); ok && !v.Vertex && !strings.HasPrefix(region, "global/") {
			v.Reply.Service |= Regional
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
