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

// Dialect is a [wire.Codec] of a format that is translated: how the format says what
// requests and answers say in no format's own form. Its methods return and take the
// neutral types of this package alone; a format whose API is that of another but for
// where it stands embeds the other's codec.
type Dialect interface {
	// Rules returns the facts by which requests and failures are put into it.
	Rules() Rules
	// ReadRequest fills a request.
	ReadRequest(r *Reader, body rawjson.Value, in Incoming) error
	// WriteRequest writes the members of a request.
	WriteRequest(w *Writer) error
	// Samples reports whether a model takes a sampling parameter.
	Samples(w *Writer, p Param) bool
	// Tier maps a service tier, nil where there is none of the same meaning.
	Tier(w *Writer, name string) rawjson.Value
	// KeepsSystem reports whether a model takes system messages in the middle of a
	// conversation, where nothing is set.
	KeepsSystem(w *Writer) bool
	// EndsWithUser reports whether a model does not go on with an answer, so that the
	// messages must end with one of the user.
	EndsWithUser(w *Writer) bool
	// AnswerWriter writes an answer as a stream.
	AnswerWriter(f *Flow, out *Buffer) AnswerWriter
	// AppendAnswer appends an answer in one piece.
	AppendAnswer(dst []byte, c *Collected) []byte
	// Holder holds calls back until they are complete, nil where they always are.
	Holder(joined bool) Holder
	// AppendFailure writes the body of an error on one line; the text is the
	// failure's as the API words it.
	AppendFailure(dst []byte, f *Failure, w Words, text string) []byte
	// TooLong is what the API says of a prompt that does not fit, or does not fit beside the
	// answer that was asked for; the counts are 0
	// where they are not known.
	TooLong(message string, tokens, answer, limit int64) string
	// Endpoint returns the path and query of a request behind a prefix.
	Endpoint(prefix, model string, stream bool) (path, query string)
	// Prefix returns what stands before the endpoint in a path.
	Prefix(path string) string
}

// Rules are facts about a format.
type Rules struct {
	// Params are the paths of the parameters, empty where the format has none.
	Params [ParamCount]string
	// The paths of what writers of other formats leave out.
	Reasoning, Output, Parallel, Choice, Failed, Strict, Thinking string
	// Marker is the path of a marker of the cache where it does not depend on its
	// place, MarkerInSystem that of one in the system prompt where it differs.
	Marker, MarkerInSystem string
	// NameLimit is the longest name of a tool by default, Dots: it may have dots and
	// colons in it, but must begin with a letter.
	NameLimit int
	Dots      bool // see NameLimit
	// IDLimit is the longest id of a call, 0 for ids that may be anything.
	IDLimit int
	// LongestID is the longest id of a call that clients take, 0 for any.
	LongestID int
	// IDPrefix is what the ids of answers begin with, if anything.
	IDPrefix string
	// SignedCalls: a call has a place for its signature.
	SignedCalls bool
	// Images: an answer has a place for images.
	Images bool
	// Narrows: a request can say which of its tools may be called, NarrowsOfficial:
	// it can at the provider's own API.
	Narrows, NarrowsOfficial bool
	// Warmest is the highest temperature, 0 for any.
	Warmest int
	// LongestUser is the longest id of a user, 0 for any.
	LongestUser int
	// LeastTokens is the lowest bound on an answer at the provider's own API.
	LeastTokens int
	// RefusesBlank: texts of white space only are refused.
	RefusesBlank bool
	// Proves is a part of the names of models whose reasoning is checked wherever they
	// are offered.
	Proves string
	// EndsThinking: thinking with nothing behind it is refused.
	EndsThinking bool
	// FoldsSystem: no system message can stand in the middle of a conversation,
	// SystemBehindUser: it must stand behind one of the user and in front of one of the
	// model.
	FoldsSystem, SystemBehindUser bool
	// Headers are the beginnings of the names of headers that are the format's own,
	// in lower case.
	Headers []string
	// Key is the header of the credential, empty for a bearer token, which tokens of
	// accounts are anyway if Bearer is set.
	Key    string
	Bearer bool // see Key
	// Version is a header that each request must have, and its value.
	Version [2]string
	// Provider names those who have several formats.
	Provider string
	// Status: errors have a status that names what went wrong.
	Status bool
	// Faults are the names of what went wrong.
	Faults map[Fault]Words
}

// spoken is a format that can be translated.
type spoken struct {
	Dialect
	rules Rules
}

// dialects are the formats whose codecs are a [Dialect].
var dialects = sync.OnceValue(func() map[wire.Format]*spoken {
	all := map[wire.Format]*spoken{}
	for _, f := range wire.Formats() {
		if d, ok := f.Codec().(Dialect); ok {
			all[f] = &spoken{d, d.Rules()}
		}
	}
	return all
})

// dialectOf returns what is known of a format, nil if it is not translated.
func dialectOf(f wire.Format) *spoken { return dialects()[f] }

// Formats are the formats that [Convert] takes, in the order of the documentation's
// tables.
func Formats() []wire.Format {
	return slices.DeleteFunc(wire.Formats(), func(f wire.Format) bool { return dialectOf(f) == nil || f.Traits().Variant })
}

// Where a marker of the cache stood.
const (
	InTools    = "tools[]"
	InSystem   = "system[]"
	InMessages = "messages[].content[]"
)

// MarkerField returns the client's name of a marker that is left out.
func (r *Rules) MarkerField(place string) string {
	switch {
	case r.Marker != "":
		return r.Marker
	case place == InSystem && r.MarkerInSystem != "":
		return r.MarkerInSystem
	}
	return place + ".cache_control"
}

// endpoint returns the path and query of the upstream's endpoint, behind
// whatever prefix the client's endpoint stood.
func endpoint(from, to wire.Format, path, model string, stream bool) (string, string) {
	return dialectOf(to).Endpoint(dialectOf(from).Prefix(path), model, stream)
}

// Before returns what stands before the first of some ends that a path has.
func Before(path string, ends ...string) string {
	for _, end := range ends {
		if p, ok := strings.CutSuffix(path, end); ok {
			return p
		}
	}
	return ""
}
