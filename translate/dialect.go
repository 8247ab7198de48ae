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

// dialect is how a format says what requests and answers say in no format's own form.
type dialect interface {
	// rules returns the facts by which requests and failures are put into it.
	rules() rules
	// read fills a request.
	read(r *reader, body raw, in Incoming) error
	// write writes the members of a request.
	write(w *writer) error
	// samples reports whether a model takes a sampling parameter.
	samples(w *writer, p Param) bool
	// tier maps a service tier, nil where there is none of the same meaning.
	tier(w *writer, name string) raw
	// keepsSystem reports whether a model takes system messages in the middle of a
	// conversation, where nothing is set.
	keepsSystem(w *writer) bool
	// endsWithUser reports whether a model does not go on with an answer, so that the
	// messages must end with one of the user.
	endsWithUser(w *writer) bool
	// reader reads an answer.
	reader() answerReader
	// writer writes an answer as a stream, appendWhole in one piece.
	writer(f *flow, out *output) answerWriter
	appendWhole(dst []byte, c *collected) []byte
	// holder holds calls back until they are complete, nil where they always are.
	holder(joined bool) holder
	// appendFailure writes the body of an error on one line; the text is the
	// failure's as the API words it.
	appendFailure(dst []byte, f *Failure, w words, text string) []byte
	// tooLong is what the API says of a prompt that does not fit; the counts are 0
	// where they are not known.
	tooLong(message string, tokens, limit int64) string
	// endpoint returns the path and query of a request behind a prefix, prefix what
	// stands before the endpoint in a path.
	endpoint(prefix, model string, stream bool) (path, query string)
	prefix(path string) string
}

// rules are facts about a format.
type rules struct {
	// params are the paths of the parameters, empty where the format has none.
	params [paramCount]string
	// The paths of what writers of other formats leave out.
	reasoning, output, parallel, choice, failed, strict, thinking string
	// marker is the path of a marker of the cache where it does not depend on its
	// place, markerInSystem that of one in the system prompt where it differs.
	marker, markerInSystem string
	// nameLimit is the longest name of a tool by default, dots: it may have dots and
	// colons in it, but must begin with a letter.
	nameLimit int
	dots      bool
	// idLimit is the longest id of a call, 0 for ids that may be anything.
	idLimit int
	// idPrefix is what the ids of answers begin with, if anything.
	idPrefix string
	// signedCalls: a call has a place for its signature.
	signedCalls bool
	// narrows: a request can say which of its tools may be called, narrowsOfficial:
	// it can at the provider's own API.
	narrows, narrowsOfficial bool
	// warmest is the highest temperature, 0 for any.
	warmest int
	// longestUser is the longest id of a user, 0 for any.
	longestUser int
	// leastTokens is the lowest bound on an answer at the provider's own API.
	leastTokens int
	// refusesBlank: texts of white space only are refused.
	refusesBlank bool
	// endsThinking: thinking with nothing behind it is refused.
	endsThinking bool
	// foldsSystem: no system message can stand in the middle of a conversation,
	// systemBehindUser: it must stand behind one of the user and in front of one of the
	// model.
	foldsSystem, systemBehindUser bool
	// headers are the beginnings of the names of headers that are the format's own,
	// in lower case.
	headers []string
	// key is the header of the credential, empty for a bearer token, which tokens of
	// accounts are anyway if bearer is set.
	key    string
	bearer bool
	// version is a header that each request must have, and its value.
	version [2]string
	// provider names those who have several formats.
	provider string
	// status: errors have a status that names what went wrong.
	status bool
	// faults are the names of what went wrong.
	faults map[fault]words
}

// spoken is a format that can be translated.
type spoken struct {
	dialect
	rules rules
}

var dialects = map[wire.Format]*spoken{}

func speak(f wire.Format, d dialect) { dialects[f] = &spoken{d, d.rules()} }

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
