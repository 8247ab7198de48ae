// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package gemini is the format of the Gemini API.
package gemini

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// Codec is the Gemini API: POST …/models/{model}:generateContent and
// :streamGenerateContent.
type Codec struct{}

// Traits implements [wire.Codec].
func (Codec) Traits() wire.Traits {
	return wire.Traits{
		Alternates: true, ArrayStreams: true, BareStreams: true, LooseIDs: true, SignedParts: true,
		MediaBesideResult: true, HostedUnlisted: true, OptionsOutsidePrompt: true, Surroundings: true,
		KeyHeader: "X-Goog-Api-Key",
	}
}

// Match implements [wire.Codec].
func (c Codec) Match(path string) bool {
	_, _, _, ok := c.Address(path) //nolint:dogsled // what it says matters elsewhere
	return ok
}

// ForcesCall implements [wire.Codec].
func (Codec) ForcesCall(choice gjson.Result) bool {
	config := choice.Get("functionCallingConfig")
	if !config.Exists() {
		config = choice.Get("function_calling_config")
	}
	for _, name := range []string{
		"allowedFunctionNames.0", "allowed_function_names.0", "streamFunctionCallArguments",
		"stream_function_call_arguments",
	} {
		if v := config.Get(name); v.Exists() && v.Type != gjson.False {
			return true
		}
	}
	return config.Get("mode").Str == "ANY"
}

// MatchCount implements [wire.TokenCounter].
func (Codec) MatchCount(path string) bool { return strings.HasSuffix(path, ":countTokens") }

// CountedRequest implements [wire.TokenCounter].
func (Codec) CountedRequest(body []byte) ([]byte, string) {
	for _, name := range [...]string{"generateContentRequest", "generate_content_request"} {
		if whole := gjson.GetBytes(body, name); whole.IsObject() {
			body = []byte(whole.Raw)
		}
	}
	return body, "/v1beta/models/any:" + geminiWhole
}

// CountAnswer implements [wire.TokenCounter].
func (Codec) CountAnswer(tokens int) []byte {
	return append(strconv.AppendInt([]byte(`{"totalTokens":`), int64(tokens), 10), '}')
}

// The methods of the API that ask a model for an answer. They follow the model in the path.
const (
	geminiWhole  = "generateContent"
	geminiStream = "streamGenerateContent"
)

// Address implements [wire.Addresser]. It reads the paths of the Gemini API, of Vertex AI and of tuned
// models:
// /v1beta/models/M:generateContent,
// /v1/projects/P/locations/L/publishers/google/models/M:streamGenerateContent,
// …/tunedModels/M:…, …/endpoints/E:….
func (Codec) Address(path string) (base, model string, stream, ok bool) {
	at := strings.LastIndexByte(path, '/') + 1
	base = path[:at]
	model, method, _ := strings.Cut(path[at:], ":")
	if model == "" || method != geminiWhole && method != geminiStream {
		return "", "", false, false
	}
	for _, parent := range [...]string{"/models/", "/tunedModels/", "/endpoints/"} {
		if strings.HasSuffix(base, parent) {
			return base, model, method == geminiStream, true
		}
	}
	return "", "", false, false
}

// Place implements [wire.Placer]. Google's models at Vertex AI have one price at all locations.
func (Codec) Place(base string) (level wire.Service, google bool) {
	if strings.Contains(base, "/publishers/google/") {
		return 0, true
	}
	return vertex.Level(base), false
}

// Name implements [wire.Codec].
func (Codec) Name(key []byte) []byte { return names[string(key)] }

// Member implements [wire.Codec].
func (Codec) Member(p *wire.Parser, key []byte, value rawjson.Span) {
	parser{p}.member(key, value)
}

// Messages implements [wire.Codec].
func (Codec) Messages(p *wire.Parser, at int) int { return p.Messages(at, parser{p}) }

// Tool implements [wire.Codec].
func (Codec) Tool(p *wire.Parser, at int) int { return parser{p}.tool(at) }

// System implements [wire.Codec].
func (Codec) System(p *wire.Parser, value rawjson.Span) { parser{p}.system(value) }

// Reader implements [wire.Codec].
func (Codec) Reader(to wire.Sink) wire.AnswerReader {
	return &answerReader{Teller: wire.Teller{Sink: to, Index: -1}}
}

// Silent implements [wire.Codec].
func (Codec) Silent([]byte) bool { return false }

// Intercepts implements [intercept.Codec]: a stream in the form of one array cannot be continued.
func (Codec) Intercepts(v *wire.View) bool { return !v.Reply.Array }

// Intercept implements [intercept.Codec].
func (Codec) Intercept(r *intercept.Message) intercept.Interception {
	return &interception{Message: r}
}

// Replacement implements [wire.Replacer]. It wraps a replacement for a whole response in an object,
// since a response is always one.
func (Codec) Replacement(v *wire.View, b *wire.Block, value []byte) []byte {
	if b.Kind != wire.KindToolResult || v.Raw[b.Body.Start] != '{' || bytes.HasPrefix(value, []byte{'{'}) {
		return value
	}
	return slices.Concat([]byte(`{"output":`), value, []byte{'}'})
}
