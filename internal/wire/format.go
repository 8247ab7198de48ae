// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Format names a wire format in configurations, records and metrics. Like a [crypto.Hash] it stands
// for its registered implementation, see [Register].
type Format string

// The formats.
const (
	// Anthropic is the Messages API: POST …/v1/messages.
	Anthropic Format = "anthropic"
	// OpenAIChat is the chat completions API: POST …/v1/chat/completions.
	OpenAIChat Format = "openai_chat"
	// OpenAIResponses is the Responses API: POST …/responses.
	OpenAIResponses Format = "openai_responses"
	// Gemini is the Gemini API: POST …/models/{model}:generateContent and :streamGenerateContent.
	// Its clients treat any comment or non-answer event as a broken stream, so nothing may be added
	// to a stream.
	Gemini Format = "gemini"
	// Interactions is the Interactions API of Gemini: POST …/interactions.
	Interactions Format = "interactions"
)

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
	// TextType is the type of a text part, besides text.
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

// Codec implements a format. Optional abilities are separate interfaces: [Addresser],
// [Placer], [TokenCounter], [Prefiller], [Replacer], [Marker], [Manager], [ToolChanger], and the one in
// package intercept.
type Codec interface {
	// Traits returns the facts about the format.
	Traits() Traits
	// Match reports whether a POST to a path is a model request.
	Match(path string) bool
	// ForcesCall reports whether a tool choice, the value of [Reply.ToolChoice], forces a call, or
	// requests the arguments in pieces.
	ForcesCall(choice gjson.Result) bool
	requestReader
	// Reader returns a reader for one answer. It sends its events to the sink.
	Reader(to Sink) AnswerReader
	// Silent reports whether events of this name never belong to the turn and need no parsing.
	Silent(name []byte) bool
}

// requestReader reads the body of a request. Indexes returned are those after the value read, or -1
// after [Parser.Fail].
type requestReader interface {
	// Name returns the Messages API's name for a top-level member, nil if it has no equivalent.
	Name(key []byte) []byte
	// Member reads a top-level member without an equivalent in the Messages API.
	Member(p *Parser, key []byte, value rawjson.Span)
	// Messages reads the value of the messages at index at.
	Messages(p *Parser, at int) int
	// Tool reads one entry of the tools at index at.
	Tool(p *Parser, at int) int
	// System reads the system prompt.
	System(p *Parser, value rawjson.Span)
}

// Addresser is a [Codec] of a format with the model's name in the request path.
type Addresser interface {
	// Address splits a path into the part before the model's name, the model, and whether the
	// response is streamed. ok is false unless the path satisfies [Codec.Match].
	Address(path string) (base, model string, stream, ok bool)
}

// Placer is an [Addresser] of a format whose addresses name the place of the model.
type Placer interface {
	// Place returns the service level of an address, by the part before the model's name, and reports
	// whether the model is one of Google's at Vertex AI.
	Place(base string) (level Service, vertex bool)
}

// TokenCounter is a [Codec] of a format with an API for counting prompt tokens.
type TokenCounter interface {
	// MatchCount reports whether a POST to a path is a count request.
	MatchCount(path string) bool
	// CountedRequest extracts the model request from the body of a count request, and returns a
	// path for sending it.
	CountedRequest(body []byte) (request []byte, path string)
	// CountAnswer returns the response to a count request.
	CountAnswer(tokens int) []byte
}

// Prefiller is a [Codec] of a format that allows a prompt to be processed with a minimal answer.
type Prefiller interface {
	// Prefill returns the members that limit a request's answer to the minimum. They do not change
	// stream.
	Prefill() []Member
	// Base returns the members for the minimal answer to a prompt that begins like body and ends
	// with one short user message.
	Base(body []byte) []Member
}

// Replacer is a [Codec] of a format that may need new content in another form than the old one.
type Replacer interface {
	// Replacement returns the value in the form that fits the block.
	Replacement(v *View, b *Block, value []byte) []byte
}

// Marker is a [Codec] of a format with cache breakpoints on blocks.
type Marker interface {
	// Markable reports whether a block may carry a marker.
	Markable(b *Block) bool
	// Mark returns the cuts that add a marker to a block.
	Mark(v *View, b *Block, value []byte) ([]Cut, error)
}

// Manager is a [Codec] of a format with a request option that makes the provider shorten a long
// history.
type Manager interface {
	// Management reads the value of a [Conversation.ContextManagement].
	Management(value gjson.Result) Management
	// Applied returns a JSON answer, or the data of a stream event, with the cleared counts added.
	// Data without a place for the counts stays the same.
	Applied(data []byte, c Cleared) []byte
}

// ToolChanger is a [Codec] of a format with blocks in messages that add and remove tools.
type ToolChanger interface {
	// ToolChangesAsText returns the body with each such block replaced by a text, or body itself if
	// there is none.
	ToolChangesAsText(body []byte) []byte
}

// registered is one registered format.
type registered struct {
	format Format
	codec  Codec
	traits Traits
}

// registry has the formats in the order of their registration.
var registry []*registered

// Register registers a format. It panics on a duplicate, and must only be called during package
// initialization.
func Register(f Format, c Codec) {
	if f == "" || lookup(f) != nil {
		panic("wire: format " + string(f) + " registered twice, or without a name")
	}
	registry = append(registry, &registered{f, c, c.Traits()})
}

func lookup(f Format) *registered {
	// A linear search through the few formats costs less than a map.
	for _, r := range registry {
		if r.format == f {
			return r
		}
	}
	return nil
}

var unknown Traits

// Formats returns the registered formats in the order of their registration.
func Formats() []Format {
	out := make([]Format, len(registry))
	for i, r := range registry {
		out[i] = r.format
	}
	return out
}

// CompactsAt returns the format with this compact path.
func CompactsAt(path string) (f Format, ok bool) {
	for _, r := range registry {
		if p := r.traits.CompactPath; p != "" && strings.HasSuffix(path, p) {
			return r.format, true
		}
	}
	return "", false
}

// Codec returns the format's codec, nil if it is not registered.
func (f Format) Codec() Codec {
	if r := lookup(f); r != nil {
		return r.codec
	}
	return nil
}

// Traits returns the facts about the format. They must not be modified.
func (f Format) Traits() *Traits {
	if r := lookup(f); r != nil {
		return &r.traits
	}
	return &unknown
}

// Detect returns the format of a model request by its method and the end of its path. It returns
// false for token counting, model lists, …/responses/compact and all other requests.
func Detect(method, path string) (Format, bool) {
	if method != http.MethodPost {
		return "", false
	}
	for _, r := range registry {
		if r.codec.Match(path) {
			return r.format, true
		}
	}
	return "", false
}

// DetectCount is [Detect] for token count requests.
func DetectCount(method, path string) (Format, bool) {
	if method != http.MethodPost {
		return "", false
	}
	for _, r := range registry {
		if c, ok := r.codec.(TokenCounter); ok && c.MatchCount(path) {
			return r.format, true
		}
	}
	return "", false
}

// Base returns the part of a path before the model's name, or the whole path if no format has a
// model there.
func Base(path string) string {
	f, _ := Detect(http.MethodPost, path)
	if a, ok := f.Codec().(Addresser); ok {
		base, _, _, _ := a.Address(path)
		return base
	}
	return path
}

// PrefillMessage is the user message after a prompt sent only for prefill.
const PrefillMessage = `{"role":"user","content":"."}`

// PrefillMessages returns the leading system messages, followed by [PrefillMessage].
func PrefillMessages(messages gjson.Result) []byte {
	out := []byte{'['}
	messages.ForEach(func(_, m gjson.Result) bool {
		if role := m.Get("role").Str; role != "system" && role != "developer" {
			return false
		}
		out = append(append(out, m.Raw...), ',')
		return true
	})
	return append(append(out, PrefillMessage...), ']')
}
