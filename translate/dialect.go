// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package translate

import (
	"slices"

	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Dialect is how a format says what requests and answers say in no format's own form.
type Dialect interface {
	// Rules returns the facts by which requests and failures are put into it.
	Rules() Rules
	// ReadRequest fills a request.
	ReadRequest(r *Reader, body Value, in Incoming) error
	// WriteRequest writes the members of a request.
	WriteRequest(w *Writer) error
	// Samples reports whether a model takes a sampling parameter.
	Samples(w *Writer, p Param) bool
	// Tier maps a service tier, nil where there is none of the same meaning.
	Tier(w *Writer, name string) Value
	// KeepsSystem reports whether a model takes system messages in the middle of a
	// conversation, where nothing is set.
	KeepsSystem(w *Writer) bool
	// EndsWithUser reports whether a model does not go on with an answer, so that the
	// messages must end with one of the user.
	EndsWithUser(w *Writer) bool
	// AnswerReader reads an answer.
	AnswerReader() AnswerReader
	// AnswerWriter writes an answer as a stream, appendWhole in one piece.
	AnswerWriter(f *Flow, out *Buffer) AnswerWriter
	AppendAnswer(dst []byte, c *Collected) []byte
	// Holder holds calls back until they are complete, nil where they always are.
	Holder(joined bool) Holder
	// AppendFailure writes the body of an error on one line; the text is the
	// failure's as the API words it.
	AppendFailure(dst []byte, f *Failure, w Words, text string) []byte
	// TooLong is what the API says of a prompt that does not fit; the counts are 0
	// where they are not known.
	TooLong(message string, tokens, limit int64) string
	// Endpoint returns the path and query of a request behind a prefix, prefix what
	// stands before the endpoint in a path.
	Endpoint(prefix, model string, stream bool) (path, query string)
	Prefix(path string) string
}

// Rules are facts about a format.
type Rules struct {
	// Params are the paths of the parameters, empty where the format has none.
	Params [ParamCount]string
	// The paths of what writers of other formats leave out.
	Reasoning, Output, Parallel, Choice, Failed, Strict, Thinking string
	// Marker is the path of a marker of the cache where it does not depend on its
	// place, markerInSystem that of one in the system prompt where it differs.
	Marker, MarkerInSystem string
	// NameLimit is the longest name of a tool by default, dots: it may have dots and
	// colons in it, but must begin with a letter.
	NameLimit int
	Dots      bool
	// IDLimit is the longest id of a call, 0 for ids that may be anything.
	IDLimit int
	// IDPrefix is what the ids of answers begin with, if anything.
	IDPrefix string
	// signedCalls: a call has a place for its signature.
	SignedCalls bool
	// narrows: a request can say which of its tools may be called, narrowsOfficial:
	// it can at the provider's own API.
	Narrows, NarrowsOfficial bool
	// Warmest is the highest temperature, 0 for any.
	Warmest int
	// LongestUser is the longest id of a user, 0 for any.
	LongestUser int
	// LeastTokens is the lowest bound on an answer at the provider's own API.
	LeastTokens int
	// refusesBlank: texts of white space only are refused.
	RefusesBlank bool
	// endsThinking: thinking with nothing behind it is refused.
	EndsThinking bool
	// foldsSystem: no system message can stand in the middle of a conversation,
	// systemBehindUser: it must stand behind one of the user and in front of one of the
	// model.
	FoldsSystem, SystemBehindUser bool
	// Headers are the beginnings of the names of headers that are the format's own,
	// in lower case.
	Headers []string
	// Key is the header of the credential, empty for a bearer token, which tokens of
	// accounts are anyway if bearer is set.
	Key    string
	Bearer bool
	// Version is a header that each request must have, and its value.
	Version [2]string
	// Provider names those who have several formats.
	Provider string
	// status: errors have a status that names what went wrong.
	Status bool
	// Faults are the names of what went wrong.
	Faults map[Fault]Words
}

// spoken is a format that can be translated.
type spoken struct {
	Dialect
	rules Rules
}

var dialects = map[wire.Format]*spoken{}

func speak(f wire.Format, d Dialect) { dialects[f] = &spoken{d, d.Rules()} }

func init() {
	speak(wire.Anthropic, anthropicDialect{})
	speak(wire.OpenAIChat, chatDialect{})
	speak(wire.OpenAIResponses, responsesDialect{})
	speak(wire.Gemini, geminiDialect{})
}

// Formats are the formats that [Convert] takes, in the order of the documentation's
// tables.
func Formats() []wire.Format {
	return slices.DeleteFunc(wire.Formats(), func(f wire.Format) bool { return dialects[f] == nil })
}
