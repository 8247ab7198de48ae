// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"strings"
	"sync"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// Dialect is a [wire.Codec] of a format that can be translated. It converts requests and answers
// from and to the neutral types of this package. A format that differs from another only in its
// endpoints embeds the other's codec.
type Dialect interface {
	// Rules returns the facts for writing requests and failures.
	Rules() Rules
	// ReadRequest fills r.Request from the body.
	ReadRequest(r *Reader, body rawjson.Value, in Incoming) error
	// WriteRequest writes the members of a request.
	WriteRequest(w *Writer) error
	// Samples reports whether the model accepts a sampling parameter.
	Samples(w *Writer, p Param) bool
	// Tier maps a service tier, nil if the format has no equivalent.
	Tier(w *Writer, name string) rawjson.Value
	// KeepsSystem reports whether the model accepts system messages in the middle of a
	// conversation. It is the default for [Options.SystemMessages].
	KeepsSystem(w *Writer) bool
	// EndsWithUser reports whether the model rejects a final assistant message, so that the
	// messages must end with a user message.
	EndsWithUser(w *Writer) bool
	// AnswerWriter returns a writer for a streamed answer.
	AnswerWriter(f *Flow, out *Buffer) AnswerWriter
	// AppendAnswer appends a complete answer as one JSON value.
	AppendAnswer(dst []byte, c *Collected) []byte
	// CallBuffer returns a buffer for incomplete calls, nil if the format always sends calls complete.
	CallBuffer(joined bool) CallBuffer
	// AppendFailure writes the body of an error on one line. The text is the failure's message in
	// the API's wording.
	AppendFailure(dst []byte, f *Failure, w Words, text string) []byte
	// TooLong returns the API's error message for a prompt that exceeds the context window, alone
	// or together with the requested answer. Unknown counts are 0.
	TooLong(message string, tokens, answer, limit int64) string
	// Endpoint returns the path and query of a request under a path prefix.
	Endpoint(prefix, model string, stream bool) (path, query string)
	// Prefix returns the part of a path before the endpoint.
	Prefix(path string) string
}

// Rules are facts about a format.
type Rules struct {
	// Params are the paths of the parameters, empty for those that the format lacks.
	Params [ParamCount]string
	// The paths of members that writers of other formats drop.
	Reasoning, Output, Parallel, Choice, Failed, Strict, Thinking string
	// Marker is the path of a cache marker, if the same everywhere. MarkerInSystem is the path in
	// the system prompt, if different.
	Marker, MarkerInSystem string
	// NameLimit is the default maximum length of a tool name. Dots allows dots and colons in names,
	// which then must begin with a letter or underscore.
	NameLimit int
	Dots      bool // see NameLimit
	// IDLimit is the maximum length of a call id at the API, 0 for ids of any form.
	IDLimit int
	// MaxClientID is the maximum length of a call id at the format's clients, 0 for no limit.
	MaxClientID int
	// IDPrefix is the prefix of answer ids, empty for none.
	IDPrefix string
	// SignedCalls: a call has a member for its signature.
	SignedCalls bool
	// Images: an answer can contain images.
	Images bool
	// Narrows: a request can restrict the callable tools. NarrowsOfficial: it can at the provider's
	// own API.
	Narrows, NarrowsOfficial bool
	// MaxTemperature is the maximum temperature, 0 for no limit.
	MaxTemperature int
	// MaxUser is the maximum length of a user id, 0 for no limit.
	MaxUser int
	// MinTokens is the minimum of max_tokens at the provider's own API.
	MinTokens int
	// RefusesBlank: the API rejects texts of only white space.
	RefusesBlank bool
	// Proves is a substring of model names. Every host of these models verifies reasoning
	// signatures.
	Proves string
	// EndsThinking: the API rejects a message that ends with thinking.
	EndsThinking bool
	// FoldsSystem: system messages are not allowed in the middle of a conversation.
	// SystemBehindUser: a system message must follow a user message and precede an assistant
	// message.
	FoldsSystem, SystemBehindUser bool
	// Headers are prefixes, in lower case, of the format's own header names.
	Headers []string
	// Bearer: account tokens are bearer tokens, also if the format has a header for keys.
	Bearer bool
	// Version is a required header and its value.
	Version [2]string
	// Provider is the name of a provider with several formats.
	Provider string
	// Status: errors have a status member with the error's type.
	Status bool
	// Faults are the API's words for each fault.
	Faults map[Fault]Words
}

// spoken is a translatable format with its rules.
type spoken struct {
	Dialect
	rules Rules
}

// dialects are the formats with a [Dialect] as codec.
var dialects = sync.OnceValue(func() map[wire.Format]*spoken {
	all := map[wire.Format]*spoken{}
	for _, f := range wire.Formats() {
		if d, ok := f.Codec().(Dialect); ok {
			all[f] = &spoken{d, d.Rules()}
		}
	}
	return all
})

// dialectOf returns the dialect of a format, nil for one that is not translated.
func dialectOf(f wire.Format) *spoken { return dialects()[f] }

// Formats returns the formats accepted by [Convert], in the order of the documentation's tables.
func Formats() []wire.Format {
	return slices.DeleteFunc(wire.Formats(), func(f wire.Format) bool { return dialectOf(f) == nil || f.Traits().Variant })
}

// The places of a cache marker.
const (
	InTools    = "tools[]"
	InSystem   = "system[]"
	InMessages = "messages[].content[]"
)

// MarkerField returns the client's path of a dropped marker.
func (r *Rules) MarkerField(place string) string {
	switch {
	case r.Marker != "":
		return r.Marker
	case place == InSystem && r.MarkerInSystem != "":
		return r.MarkerInSystem
	}
	return place + ".cache_control"
}

// endpoint returns the path and query of the upstream's endpoint.
func endpoint(from, to wire.Format, path, model string, stream bool) (string, string) {
	// The prefix of the client's path stays.
	return dialectOf(to).Endpoint(dialectOf(from).Prefix(path), model, stream)
}

// Before returns the part of a path before the first matching suffix, "" if none matches.
func Before(path string, ends ...string) string {
	for _, end := range ends {
		if p, ok := strings.CutSuffix(path, end); ok {
			return p
		}
	}
	return ""
}
