// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Codec is what a format can do. What only some can do are the interfaces
// [Addresser], [TokenCounter], [Prefiller], [Replacer] and
// [Marker], and that of package hidden.
type Codec interface {
	// Traits returns the facts about the format.
	Traits() Traits
	// Match reports whether a POST to a path asks a model for an answer.
	Match(path string) bool
	// ForcesCall reports whether a choice of tools, the value of [Reply.ToolChoice],
	// makes the model call one, or wants the arguments of its calls in pieces.
	ForcesCall(choice gjson.Result) bool
	requestReader
	// Reader returns what reads one answer, and tells to of it.
	Reader(to Sink) AnswerReader
	// Silent reports whether the name of an event says that nothing of it is part of
	// the turn, so that it need not be read.
	Silent(name []byte) bool
}

// requestReader reads the body of a request. Where a method returns an index it is
// the one behind what was read, or -1 after [Parser.Fail].
type requestReader interface {
	// Name returns the name that a top-level member's like has in the Messages API,
	// nothing if it has none.
	Name(key []byte) []byte
	// Member takes a top-level member that has no like there.
	Member(p *Parser, key []byte, value rawjson.Span)
	// Messages reads the value of the messages at an index.
	Messages(p *Parser, at int) int
	// Tool reads one entry of the tools at an index.
	Tool(p *Parser, at int) int
	// System reads the system prompt.
	System(p *Parser, value rawjson.Span)
}

// Addresser is a [Codec] of a format whose requests say in their path what the
// body does not.
type Addresser interface {
	// Address takes a path apart: what stands before the model's name, the model,
	// and whether the answer is to be streamed. It reports false for any path that
	// does not [Codec.Match].
	Address(path string) (base, model string, stream, ok bool)
}

// TokenCounter is a [Codec] of a format whose API counts the tokens of a prompt.
type TokenCounter interface {
	// MatchCount reports whether a POST to a path asks for that.
	MatchCount(path string) bool
	// CountedRequest returns the request whose prompt the body of such a request asks
	// about, and a path under which it could be sent.
	CountedRequest(body []byte) (request []byte, path string)
	// CountAnswer returns the answer.
	CountAnswer(tokens int) []byte
}

// Prefiller is a [Codec] of a format in which a server can be made to read a prompt
// and say next to nothing.
type Prefiller interface {
	// Prefill returns the members that make a request one for the least of an answer.
	// Its stream is another matter.
	Prefill() []Member
	// Base returns the members that make a request one for the least of an answer
	// that begins as it does, and has no more than one message of a user.
	Base(body []byte) []Member
}

// Replacer is a [Codec] of a format in which a new content cannot always stand in the
// place of the old one as it is.
type Replacer interface {
	// Replacement returns the value in the form in which it can.
	Replacement(v *View, b *Block, value []byte) []byte
}

// Marker is a [Codec] of a format whose blocks can be marked as the end of what is to
// be cached.
type Marker interface {
	// Markable reports whether a block may carry a marker.
	Markable(b *Block) bool
	// Mark returns the cuts that give a block a marker.
	Mark(v *View, b *Block, value []byte) ([]Cut, error)
}

// Manager is a [Codec] of a format whose clients may have the provider shorten a history
// that has grown long.
type Manager interface {
	// Management reads the value of a [Conversation.ContextManagement].
	Management(value gjson.Result) Management
	// Applied returns an answer in one piece, or the data of an event of a stream, with
	// what was cleared of its prompt, where that is the place to say so.
	Applied(data []byte, c Cleared) []byte
}

// ToolChanger is a [Codec] of a format whose messages may add tools and remove them.
type ToolChanger interface {
	// ToolChangesAsText returns the body of a request with a text in the place of each such block, and
	// body itself where there is none.
	ToolChangesAsText(body []byte) []byte
}

// registered is what is known of a format.
type registered struct {
	format Format
	codec  Codec
	// counter is the codec, if it is one; asking that of each request costs more.
	counter TokenCounter
	traits  Traits
}

// registry holds the formats in the order of their registration.
var registry []*registered

// Register makes a format known. It panics if the format is known already, and must
// not be called but while packages are initialised.
func Register(f Format, c Codec) {
	if f == "" || lookup(f) != nil {
		panic("wire: format " + string(f) + " registered twice, or without a name")
	}
	counter, _ := c.(TokenCounter)
	registry = append(registry, &registered{f, c, counter, c.Traits()})
}

// There are a handful of formats: going through them costs less than a map.
func lookup(f Format) *registered {
	for _, r := range registry {
		if r.format == f {
			return r
		}
	}
	return nil
}

var unknown Traits

// Formats returns the formats that are known, in the order of their registration.
func Formats() []Format {
	out := make([]Format, len(registry))
	for i, r := range registry {
		out[i] = r.format
	}
	return out
}

// CompactsAt returns the format whose requests to compact a conversation go to a path.
func CompactsAt(path string) (f Format, ok bool) {
	for _, r := range registry {
		if p := r.traits.CompactPath; p != "" && strings.HasSuffix(path, p) {
			return r.format, true
		}
	}
	return "", false
}

// Codec returns what the format can do, nil if it is not known.
func (f Format) Codec() Codec {
	if r := lookup(f); r != nil {
		return r.codec
	}
	return nil
}

// Traits returns the facts about the format, which must not be changed.
func (f Format) Traits() *Traits {
	if r := lookup(f); r != nil {
		return &r.traits
	}
	return &unknown
}

// Detect returns the format that a request speaks, by its method and the end of its
// path, and whether it is one that is known. Token counting, model lists,
// …/responses/compact and everything else are not.
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

// DetectCount is [Detect] for requests that ask how many tokens a prompt has.
func DetectCount(method, path string) (Format, bool) {
	if method != http.MethodPost {
		return "", false
	}
	for _, r := range registry {
		if r.counter != nil && r.counter.MatchCount(path) {
			return r.format, true
		}
	}
	return "", false
}

// Base returns what of a path stands before the name of a model, all of it if no
// format has a model there.
func Base(path string) string {
	for _, r := range registry {
		if a, ok := r.codec.(Addresser); ok {
			if base, _, _, ok := a.Address(path); ok {
				return base
			}
		}
	}
	return path
}
