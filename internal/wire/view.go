// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/url"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Message is one entry of a request's messages. In the Responses API it is an
// input item, or a run of them: the items of one answer, the outputs of its
// calls.
type Message struct {
	// Span is the message object.
	Span rawjson.Span
	// Content is the JSON value of its content, empty if absent. Of a run of
	// items it is the run.
	Content rawjson.Span
	// First and End bound its blocks: View.Blocks[First:End].
	First, End int32
	// Role is the message's role.
	Role Role
}

// View is a parsed request: blocks with spans into the client's own bytes.
// It is read-only and may be read from several goroutines.
type View struct {
	// Format is the wire format of the body.
	Format Format
	// Model is the model asked for.
	Model string
	// Vertex tells that a model of Google's is asked for at Vertex AI.
	Vertex bool
	// Raw is the body, as the client sent it (after content decoding).
	Raw []byte
	// Blocks are all blocks in prompt order: tools, system, messages.
	Blocks []Block
	// Messages are the entries of messages.
	Messages []Message
	// Tools and System are the ends of the first two sections:
	// Blocks[:Tools] are tool definitions, Blocks[Tools:System] the system
	// prompt, Blocks[System:] the messages. OpenAI chat has its system prompt
	// in messages, so System equals Tools there. Some clients of the Responses
	// API have all tools in messages, see [View.OffersTools].
	Tools, System int
	// Session is the conversation id that the body carries, if any: the
	// session_id in metadata.user_id, prompt_cache_key, or conversation.
	Session string

	// Reply, Conversation and Caching are what the client asks for beside the prompt.
	Reply        Reply
	Conversation Conversation
	Caching      Caching

	// Recalled counts the blocks that were recognised from a [Known] and not
	// scanned again.
	Recalled int

	known  *Known
	traits *Traits
}

// Reply is what answer is asked for.
type Reply struct {
	// Stream reports whether the answer is to be streamed.
	Stream bool
	// Array tells that a streamed answer is to be one JSON array.
	Array bool
	// StreamOptions is the JSON value of the member of this name (OpenAI chat).
	StreamOptions rawjson.Span
	// MaxTokens is the bound on the answer, -1 if absent.
	MaxTokens int
	// ToolChoice, Thinking and OutputConfig are the JSON values of the members
	// of these names (reasoning_effort in place of thinking in OpenAI chat;
	// reasoning and text in place of the last two in the Responses API;
	// toolConfig, thinkingConfig and the response's schema in Gemini).
	ToolChoice, Thinking, OutputConfig rawjson.Span
	// Service is how it is to be served, as the body and the address ask.
	Service Service
}

// Conversation is what the provider is to keep of the conversation, has kept, or is to drop.
type Conversation struct {
	// Partial tells that the provider is to put before the messages what the
	// body only refers to (previous_response_id, conversation, cachedContent, a
	// thread that goes on): what the model will see is not all here.
	Partial bool
	// Unthreaded tells that the client asked for a thread, and that this was taken out
	// of Raw: whoever does so sets it.
	Unthreaded bool
	// Stateless tells that the provider is not to keep the answer, so that no
	// later request can refer to it (Responses and Interactions API, store: false).
	Stateless bool
	// Background tells that the client will fetch the answer later, from the provider.
	Background bool
	// Held tells that it refers to what only the provider's own API has.
	Held Held
	// Continues is the id of the answer that a Partial body goes on from, where it
	// names one: previous_response_id, previous_interaction_id, or previous_message_id
	// of a thread.
	Continues string
	// Thread is the value of a top-level thread (Messages API): the provider is
	// asked to keep the conversation, or, if Partial, to go on with one it keeps.
	Thread rawjson.Span
	// ContextManagement and Compaction are the values of top-level members of these
	// names: what to do about a history that has grown long, see [View.Management].
	ContextManagement, Compaction rawjson.Span
}

// Caching is what the client asks of the provider's cache, besides markers of blocks.
type Caching struct {
	// AutoMarker is the value of a top-level cache_control: the provider then
	// marks the last cacheable block itself and one slot is taken.
	AutoMarker rawjson.Span
	// Retention is for how long the client asks an OpenAI model to keep the prefix, as
	// prompt_cache_retention (in_memory, 24h) or the ttl of prompt_cache_options (30m,
	// 12h) says. Empty leaves it to the provider.
	Retention string
	// Prewarms reports that no answer is asked for, only that the prompt be cached:
	// max_tokens of 0 (Messages API), or prewarm in prompt_cache_options.
	Prewarms bool
}

// Traits returns the facts about the view's format, which must not be changed.
func (v *View) Traits() *Traits {
	if v.traits != nil {
		return v.traits
	}
	return v.Format.Traits()
}

// Address takes up what the address of a request says and the body does not: the
// model, whether the answer is streamed, and in which form. In formats that say
// nothing there it changes nothing. It must be called before the view is shared.
func (v *View) Address(path, query string) {
	a, ok := v.Format.Codec().(Addresser)
	if !ok {
		return
	}
	if base, model, stream, ok := a.Address(path); ok {
		v.Model, v.Reply.Stream, v.Vertex = model, stream, strings.Contains(base, "/publishers/google/")
		v.Reply.Array = v.Format.Array(stream, query)
		if _, region, ok := strings.Cut(base, "/locations/"); ok && !v.Vertex && !strings.HasPrefix(region, "global/") {
			v.Reply.Service |= Regional
		}
	}
}

// Array reports whether the answer to a request is one JSON array of the events of a
// stream. It goes by the raw query.
func (f Format) Array(stream bool, query string) bool {
	if !stream || !f.Traits().ArrayStreams {
		return false
	}
	values, _ := url.ParseQuery(query) // what of it is well formed
	return values.Get("alt") != "sse"
}

// MessageBlocks returns the blocks of the messages section.
func (v *View) MessageBlocks() []Block { return v.Blocks[v.System:] }

// InheritsTools reports whether tools may be offered that the request does not repeat:
// a thread goes on with those that it began with, cachedContent holds its own.
func (v *View) InheritsTools() bool { return v.Conversation.Partial && !v.Traits().KeepsAnswers }

// OffersTools reports whether the request offers the model any tool.
func (v *View) OffersTools() bool {
	if v.Tools > 0 {
		return true
	}
	if !v.Traits().FlatItems {
		return false
	}
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
