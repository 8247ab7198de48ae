// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Codec implements a format. Optional abilities are separate interfaces: [Addresser],
// [TokenCounter], [Prefiller], [Replacer], [Marker], [Manager], [ToolChanger], and the one in
// package hidden.
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

// registry holds the formats in the order of their registration.
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
		base, _, _, _ := a.Address(path) //nolint:dogsled // the others are in View.Address
		return base
	}
	return path
}
