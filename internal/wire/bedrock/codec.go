// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package bedrock is the format of Claude on Amazon Bedrock: the Messages API under other paths,
// with the model in the path and the API version in the body. Its streams are AWS event streams,
// with one event in each chunk
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html).
package bedrock

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/anthropic"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Format is the format's name.
const Format wire.Format = "anthropic_bedrock"

// Codec is Claude on Amazon Bedrock: POST …/model/{id}/invoke and
// …/model/{id}/invoke-with-response-stream.
type Codec struct{ anthropic.Codec }

// Traits implements [wire.Codec].
func (c Codec) Traits() wire.Traits {
	t := c.Codec.Traits()
	// Only Anthropic's own API has threads.
	t.Variant, t.Threads, t.RequestID = true, false, "X-Amzn-Requestid"
	// A stream may contain only chunks, so there are no heartbeats.
	t.Framing, t.BareStreams, t.Heartbeat = Chunks{}, true, ""
	return t
}

const (
	models = "/model/"
	whole  = "/invoke"
	stream = "/invoke-with-response-stream"
)

// Match implements [wire.Codec].
func (c Codec) Match(path string) bool {
	_, _, _, ok := c.Address(path) //nolint:dogsled // what it says matters elsewhere
	return ok
}

// Address implements [wire.Addresser]. It expects a decoded path.
func (Codec) Address(path string) (base, model string, streams, ok bool) {
	rest, streams := strings.CutSuffix(path, stream)
	if !streams {
		if rest, ok = strings.CutSuffix(path, whole); !ok {
			return "", "", false, false
		}
	}
	at := strings.Index(rest, models)
	if at < 0 {
		return "", "", false, false
	}
	at += len(models)
	// The id may be the ARN of an inference profile, which contains slashes and does not name the
	// model's provider. Other models than Claude have other bodies.
	model = rest[at:]
	if !strings.HasPrefix(model, "arn:") && !strings.Contains(model, "anthropic.") {
		return "", "", false, false
	}
	return rest[:at], model, streams, true
}

// MatchCount implements [wire.TokenCounter]. Bedrock itself answers …/model/{id}/count-tokens,
// which takes a body in base64.
func (Codec) MatchCount(string) bool { return false }

// Reader implements [wire.Codec].
func (c Codec) Reader(to wire.Sink) wire.AnswerReader { return &reader{c.Codec.Reader(to), to} }

// reader reads streams of Bedrock. A named event is an exception, not a chunk.
type reader struct {
	wire.AnswerReader
	to wire.Sink
}

// Event implements [wire.AnswerReader].
func (r *reader) Event(root gjson.Result, name string) {
	if name != "" {
		r.to.Take(&wire.Event{Kind: wire.EventError, Data: root.Raw, Name: name})
		return
	}
	r.AnswerReader.Event(root, name)
}

// AppendFailure implements [translate.Dialect].
func (Codec) AppendFailure(b []byte, _ *translate.Failure, _ translate.Words, text string) []byte {
	return append(rawjson.AppendQuoted(append(b, `{"message":`...), text), '}')
}

// Intercept implements [intercept.Codec].
func (c Codec) Intercept(r *intercept.Message) intercept.Interception {
	return interception{c.Codec.Intercept(r)}
}

// interception reports failures in the API's form.
type interception struct{ intercept.Interception }

// exceptions maps error types of the Messages API to Bedrock's exceptions
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html).
var exceptions = map[string]string{
	"invalid_request_error": "validationException", "rate_limit_error": "throttlingException",
	"overloaded_error": "serviceUnavailableException", "timeout_error": "modelTimeoutException",
}

// Failure implements [intercept.Interception].
func (interception) Failure(kind, message string) []byte {
	name := exceptions[kind]
	if name == "" {
		name = "internalServerException"
	}
	return Chunks{}.AppendException(nil, name, rawjson.Object("message", message))
}
