// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"

// Traits are the facts about a format by which the code around it goes. The zero
// value is that of a format that nobody knows.
type Traits struct {
	// Markers: clients mark in the blocks what is to be cached (cache_control), what
	// is marked lives as long as it is read, and the provider bills reading and
	// writing apart (Messages API, "Prompt caching").
	Markers bool
	// Breakpoints: parts of messages take a prompt_cache_breakpoint (Responses API).
	Breakpoints bool
	// BindsThinking: the provider may check thinking against what stood before it
	// (Messages API, "block_binding").
	BindsThinking bool
	// Safeguards: a request may ask the provider for a safety check, which its client runs
	// itself where that is refused (Messages API, "safeguards").
	Safeguards bool
	// Attribution: an [AttributionLine] is no part of the prompt.
	Attribution bool
	// Threads: the provider keeps a conversation if it is asked to, so that the next
	// request says what is new and nothing else (a top-level thread).
	Threads bool
	// KeepsAnswers: the provider keeps answers unless it is told not to, and a later
	// request may refer to one in place of a history (previous_response_id,
	// previous_interaction_id).
	KeepsAnswers bool
	// FlatItems: the prompt is a list of items, of which several make up a message,
	// and tools may be defined in it.
	FlatItems bool
	// MessageList: the prompt is a list of messages, each with a role and a content.
	MessageList bool
	// SystemInMessages: the system prompt is the messages at the beginning.
	SystemInMessages bool
	// Alternates: messages of the two sides take turns, and the user begins.
	Alternates bool
	// Variant: the format is another one's under other addresses, in another framing.
	// Nothing is translated to it or from it.
	Variant bool
	// Framing is how a stream puts one event behind the other. Default: server-sent
	// events.
	Framing framing.Framing
	// ArrayStreams: a stream is one JSON array unless the query says alt=sse.
	ArrayStreams bool
	// BareStreams: nothing may be added to a stream, neither comment nor event. The
	// clients take it for a broken one.
	BareStreams bool
	// EndsWithDone: a stream ends with [DONE].
	EndsWithDone bool
	// UsageOnRequest: a stream tells its usage where stream_options.include_usage asks for
	// it, in a chunk of its own without choices.
	UsageOnRequest bool
	// UsageFirst: the first event of a stream says how long the prompt is.
	UsageFirst bool
	// ServersVary: many servers speak the format and differ in the members that they
	// take and in what they call the model's thinking, which is a member of the
	// message (reasoning_content or reasoning), signed by nobody.
	ServersVary bool
	// ArgumentsText: the arguments of a call are a text that holds JSON.
	ArgumentsText bool
	// ResultsFollow: the results of calls stand in the message behind them.
	ResultsFollow bool
	// LooseIDs: clients make ids of calls up, or leave them out; calls and results
	// are told apart by name and order.
	LooseIDs bool
	// SignedParts: the model signs parts of its answers, which must come back as they
	// were ([FlagSigned]).
	SignedParts bool
	// MediaBesideResult: what a tool gives that is not text stands beside the text of
	// its result, not in it.
	MediaBesideResult bool
	// HostedUnlisted: tools that the provider runs itself stand in no list of tools.
	HostedUnlisted bool
	// OptionsOutsidePrompt: the choice of tools, thinking and the form of the answer
	// do not change how the prompt is rendered.
	OptionsOutsidePrompt bool
	// NoCalls is the value of tool_choice that has the model call none of the tools it
	// is offered, empty where it stands elsewhere, or where another choice changes how
	// the messages are read.
	NoCalls string
	// Surroundings: clients put a message of their own in front of the first prompt
	// that tells of the day and the place, and write it anew when they resume.
	Surroundings bool
	// TextType is the type of a text in a content. Default: text.
	TextType string
	// Heartbeat is the event by which a stream shows that the upstream still works.
	// Default: a comment, unless BareStreams.
	Heartbeat string
	// HeartbeatWithin: clients but Codex take no Heartbeat before the first event.
	HeartbeatWithin bool
	// RequestID is the header in which the provider names a request. Default:
	// X-Request-Id.
	RequestID string
	// CompactPath is the end of the path under which the provider compacts a
	// conversation, empty if it does not.
	CompactPath string
	// Sockets reports whether the provider takes its requests over a WebSocket, too.
	Sockets bool
}

// Streams returns Framing, or the default.
func (t *Traits) Streams() framing.Framing {
	if t.Framing == nil {
		return framing.SSE{}
	}
	return t.Framing
}
