// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"

// Traits are facts about a format that generic code depends on. The zero value describes an unknown
// format.
type Traits struct {
	// Markers: clients mark cache breakpoints in blocks (cache_control). Each read renews a cache
	// entry's lifetime, and the provider bills reads and writes separately (Messages API, "Prompt
	// caching").
	Markers bool
	// Breakpoints: parts of messages take a prompt_cache_breakpoint (Responses API).
	Breakpoints bool
	// BindsThinking: the provider may check thinking against the preceding blocks (Messages API,
	// "block_binding").
	BindsThinking bool
	// Safeguards: a request may ask the provider for a safety check. The client runs the check
	// itself if the provider refuses (Messages API, "safeguards").
	Safeguards bool
	// Attribution: an [AttributionLine] is no part of the prompt.
	Attribution bool
	// Threads: the provider keeps a conversation on request, and the next request only has the new
	// messages (a top-level thread).
	Threads bool
	// KeepsAnswers: the provider stores answers by default, and a later request may refer to one in
	// place of a history (previous_response_id, previous_interaction_id).
	KeepsAnswers bool
	// FlatItems: the prompt is a list of items. Several items form a message, and items may define
	// tools.
	FlatItems bool
	// MessageList: the prompt is a list of messages, each with a role and a content.
	MessageList bool
	// SystemInMessages: the system prompt is the first messages.
	SystemInMessages bool
	// Alternates: messages of user and model alternate, starting with the user.
	Alternates bool
	// Variant: the format is another format under other paths, in another framing. It is never
	// translated.
	Variant bool
	// Framing is the framing of a stream's events. Default: server-sent events.
	Framing framing.Framing
	// ArrayStreams: a stream is one JSON array unless the query says alt=sse.
	ArrayStreams bool
	// BareStreams: nothing may be added to a stream, neither comment nor event. The clients would
	// treat the stream as broken.
	BareStreams bool
	// EndsWithDone: a stream ends with [DONE].
	EndsWithDone bool
	// UsageOnRequest: a stream reports usage only if stream_options.include_usage is set, in a
	// separate chunk without choices.
	UsageOnRequest bool
	// UsageFirst: the first event of a stream has the prompt's length.
	UsageFirst bool
	// ServersVary: many servers implement the format. They accept different members and use
	// different names for the unsigned thinking of a message (reasoning_content or reasoning).
	ServersVary bool
	// ArgumentsText: call arguments are a string with JSON.
	ArgumentsText bool
	// ResultsFollow: the results of calls are in the next message.
	ResultsFollow bool
	// LooseIDs: clients invent or omit call ids. Calls and results are matched by name and order.
	LooseIDs bool
	// SignedParts: the model signs parts of its answers. Clients must send them back unchanged
	// ([FlagSigned]).
	SignedParts bool
	// MediaBesideResult: non-text output of a tool is placed beside its result's text, not in it.
	MediaBesideResult bool
	// HostedUnlisted: the provider's own tools are not in the list of tools.
	HostedUnlisted bool
	// OptionsOutsidePrompt: tool choice, thinking and the response format do not change the
	// rendered prompt.
	OptionsOutsidePrompt bool
	// NoCalls is the tool_choice value that prevents calls. It is empty if the format has no such
	// value, or if a changed choice changes how the messages are rendered.
	NoCalls string
	// Surroundings: clients insert a message with the date and place before the first prompt, and
	// rewrite it when they resume.
	Surroundings bool
	// TextType is the type of a text part. Default: text.
	TextType string
	// Heartbeat is the stream event for keepalive. Default: a comment, unless BareStreams.
	Heartbeat string
	// HeartbeatWithin: only Codex accepts a Heartbeat before the first event.
	HeartbeatWithin bool
	// KeyHeader is the request header for the credential. Default: a bearer token in Authorization.
	KeyHeader string
	// RequestID is the response header with the provider's request id. Default: X-Request-Id.
	RequestID string
	// CompactPath is the end of the path for compacting a conversation, empty for none.
	CompactPath string
	// Sockets: the provider also accepts requests over a WebSocket.
	Sockets bool
}

// Streams returns Framing, or the default.
func (t *Traits) Streams() framing.Framing {
	if t.Framing == nil {
		return framing.SSE{}
	}
	return t.Framing
}
